//! What the library counts (performance variables). All are of this process.

use std::ffi::c_int;

use crate::{
    comm::Comm,
    constants::{
        MPI_DOUBLE, MPI_INT, MPI_T_PVAR_CLASS_COUNTER, MPI_T_PVAR_CLASS_GENERIC,
        MPI_T_PVAR_CLASS_LEVEL, MPI_T_PVAR_CLASS_STATE, MPI_T_PVAR_CLASS_TIMER,
        MPI_T_VERBOSITY_TUNER_BASIC, MPI_T_VERBOSITY_TUNER_DETAIL, MPI_T_VERBOSITY_USER_BASIC,
        MPI_UNSIGNED_LONG,
    },
    tools::{
        Result,
        enums::{Enum, SWITCH},
        rank,
        waits::{self, Kind},
    },
    types::Handle,
};

/// A variable.
pub(crate) struct Variable {
    pub name: &'static str,
    pub description: &'static str,
    pub verbosity: c_int,
    pub class: c_int,
    pub datatype: Handle,
    pub enumeration: Option<&'static Enum>,
    pub quantity: Quantity,
}

/// What a variable says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quantity {
    UnexpectedMessages,
    UnexpectedBytes,
    MostUnexpectedBytes,
    MemoryInUse,
    MemoryTouched,
    Crowded,
    Waits(Kind),
    WaitTime(Kind),
}

const fn number(
    name: &'static str,
    class: c_int,
    quantity: Quantity,
    description: &'static str,
) -> Variable {
    Variable {
        name,
        description,
        verbosity: MPI_T_VERBOSITY_TUNER_BASIC,
        class,
        datatype: MPI_UNSIGNED_LONG,
        enumeration: None,
        quantity,
    }
}

const fn time(name: &'static str, kind: Kind, description: &'static str) -> Variable {
    Variable {
        datatype: MPI_DOUBLE,
        ..number(name, MPI_T_PVAR_CLASS_TIMER, Quantity::WaitTime(kind), description)
    }
}

/// All variables, in the order of their indices.
pub(crate) const VARIABLES: &[Variable] = &[
    number(
        "unexpected_messages",
        MPI_T_PVAR_CLASS_LEVEL,
        Quantity::UnexpectedMessages,
        "Messages that a receive has looked past, and that no receive has taken yet",
    ),
    number(
        "unexpected_bytes",
        MPI_T_PVAR_CLASS_LEVEL,
        Quantity::UnexpectedBytes,
        "The bytes of such messages that this rank keeps",
    ),
    number(
        "most_unexpected_bytes",
        MPI_T_PVAR_CLASS_GENERIC,
        Quantity::MostUnexpectedBytes,
        "The most bytes of such messages that this rank has kept at any time",
    ),
    Variable {
        verbosity: MPI_T_VERBOSITY_TUNER_DETAIL,
        ..number(
            "memory_in_use",
            MPI_T_PVAR_CLASS_LEVEL,
            Quantity::MemoryInUse,
            "The bytes of the memory that the ranks share that are in use, by all ranks",
        )
    },
    Variable {
        verbosity: MPI_T_VERBOSITY_TUNER_DETAIL,
        ..number(
            "memory_touched",
            MPI_T_PVAR_CLASS_GENERIC,
            Quantity::MemoryTouched,
            "The bytes of that memory up to the end of what was ever used",
        )
    },
    Variable {
        verbosity: MPI_T_VERBOSITY_USER_BASIC,
        datatype: MPI_INT,
        enumeration: Some(&SWITCH),
        ..number(
            "crowded",
            MPI_T_PVAR_CLASS_STATE,
            Quantity::Crowded,
            "Whether the ranks have more threads at work than there are cores, so that those that wait let others run",
        )
    },
    number(
        "message_waits",
        MPI_T_PVAR_CLASS_COUNTER,
        Quantity::Waits(Kind::Messages),
        "Waits for messages, for room for them, or for requests, of the thread that has started this",
    ),
    time("message_wait_time", Kind::Messages, "The seconds that these waits took"),
    number(
        "flag_waits",
        MPI_T_PVAR_CLASS_COUNTER,
        Quantity::Waits(Kind::Flags),
        "Waits for other ranks in blocking collective operations and with windows, of the thread that has started this",
    ),
    time("flag_wait_time", Kind::Flags, "The seconds that these waits took"),
];

impl Quantity {
    /// Returns whether handles start and stop it, and can be reset and written. The others are what they are at all
    /// times.
    pub fn is_counted(self) -> bool {
        matches!(self, Self::Waits(_) | Self::WaitTime(_))
    }

    /// Returns what it is now: a number, or nanoseconds.
    pub fn now(self) -> Result<u64> {
        let unexpected = |all: &Comm| all.communicator.unexpected();
        let of_rank = |all: &Comm| all.communicator.joint().rank();
        Ok(match self {
            Self::UnexpectedMessages => unexpected(rank::all()?).messages as u64,
            Self::UnexpectedBytes => unexpected(rank::all()?).bytes as u64,
            Self::MostUnexpectedBytes => unexpected(rank::all()?).most_bytes as u64,
            Self::MemoryInUse => of_rank(rank::all()?).memory().in_use,
            Self::MemoryTouched => of_rank(rank::all()?).memory().touched,
            Self::Crowded => of_rank(rank::all()?).is_crowded().into(),
            Self::Waits(kind) => waits::number(kind),
            Self::WaitTime(kind) => waits::nanos(kind),
        })
    }
}
