//! The costs of moving cache lines (section 2.2, tables 1 to 4).

use thiserror::Error;

use crate::Time;

/// The costs that were measured on one machine.
///
/// The paper distinguishes where a line comes from: the core itself, another core of the same group (its sockets; on
/// other machines the cores that share a last-level cache), a core of another group, or memory. The state of the line
/// makes little difference in addition (section 2.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// R_L: a line that the core has in its own cache.
    pub local: Time,
    /// Within a group.
    pub near: Link,
    /// From group to group. Equal to [`Parameters::near`] where there is one group.
    pub far: Link,
    /// T_C: how several readers of one line delay each other; `None` on a machine where they do not (rule 5 of section
    /// 2.4).
    pub contention: Option<Contention>,
    /// The cost of a write to a line of which others have copies (section 2.3).
    pub invalidation: Invalidation,
    /// The time to write a line that another core of the group has, if that is more than to read it; the paper counts
    /// both as R_R. It is for the maximum.
    pub write: Option<Time>,
}

/// The costs of lines over one distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// R_R or R_Q: a line from the cache of another core.
    pub transfer: Time,
    /// R_I or R_QI: a line from memory. The paper's equations charge R_I for every first access, since
    /// memory is placed near its first reader; none uses R_QI.
    pub memory: Time,
    /// T_m or T_N: several lines at once.
    pub lines: Lines,
}

/// Equations 4 and 5 in one: N lines take q + oN + cnN − p/N, with n threads at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lines {
    /// q: to start with.
    pub start: Time,
    /// o: for each line.
    pub line: Time,
    /// c: for each line and each thread whose transfers cross the same link at the time. Not 0 only
    /// between groups (congestion).
    pub congestion: Time,
    /// p: what few lines save of the start, divided by N.
    pub saved: Time,
}

/// Equations 2 and 3: n threads that read one line are done after b + cn − a/n.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contention {
    /// b: to start with.
    pub start: Time,
    /// c: for each reader.
    pub reader: Time,
    /// a: what few readers save, divided by n; 0 where the line is in a cache.
    pub saved: Time,
}

/// The cost of a write to a line of which n others have copies (section 2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalidation {
    /// As much as a transfer from each of them: n R_R (Sandy Bridge). Those of another group count R_R, too, as in
    /// equation 18: one message crosses, and that group's cache tells its cores.
    EachSharer,
    /// As much as one transfer, because a directory does it (Xeon Phi).
    Once,
}

/// Whether a buffer is in the cache of the core that uses it (tables 2 and 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// E: there, and nowhere else.
    Exclusive,
    /// I: in memory.
    Invalid,
}

impl Contention {
    /// Table 2: Xeon Phi, by the states of the sender's and the receiver's buffer.
    pub const fn table_2(send: State, receive: State) -> Contention {
        let (start, reader, saved) = match (send, receive) {
            (State::Exclusive, State::Exclusive) => (320_500, 56_200, 0),
            (State::Exclusive, State::Invalid) => (604_400, 57_600, 0),
            (State::Invalid, State::Exclusive) => (863_600, 23_900, 667_400),
            (State::Invalid, State::Invalid) => (1_202_000, 23_400, 695_800),
        };
        Contention {
            start: Time::from_picos(start),
            reader: Time::from_picos(reader),
            saved: Time::from_picos(saved),
        }
    }

    /// Returns T_C(n), for n ≥ 1; zero without readers.
    pub fn cost(&self, readers: u64) -> Time {
        match readers {
            0 => Time::ZERO,
            n => (self.start + n * self.reader).saturating_sub(self.saved / n),
        }
    }
}

impl Lines {
    /// Table 4: Xeon Phi, by the states of the sender's and the receiver's buffer.
    pub const fn table_4(send: State, receive: State) -> Lines {
        let (start, line, saved) = match (send, receive) {
            (State::Exclusive, State::Exclusive) => (1_521_000, 76_000, 1_096_000),
            (State::Exclusive, State::Invalid) => (1_778_400, 73_200, 1_276_900),
            (State::Invalid, State::Exclusive) => (2_698_500, 94_400, 1_868_500),
            (State::Invalid, State::Invalid) => (2_750_000, 94_900, 2_017_500),
        };
        Lines {
            start: Time::from_picos(start),
            line: Time::from_picos(line),
            congestion: Time::ZERO,
            saved: Time::from_picos(saved),
        }
    }

    /// Returns T_m(n, N) or T_N: `lines` lines, copied by each of `threads` threads. Without lines it is zero.
    pub fn cost(&self, threads: u64, lines: u64) -> Time {
        match lines {
            0 => Time::ZERO,
            n => (self.start + n * self.line + threads * n * self.congestion)
                .saturating_sub(self.saved / n),
        }
    }
}

const fn picos(picos: u64) -> Time {
    Time::from_picos(picos)
}

impl Parameters {
    /// Two sockets of eight cores, Xeon E5-2660 (tables 1 and 3).
    pub const SANDY_BRIDGE: Parameters = Parameters {
        local: picos(2_300),
        near: Link {
            transfer: picos(35_000),
            memory: picos(70_000),
            lines: Lines {
                start: picos(63_400),
                line: picos(11_100),
                congestion: Time::ZERO,
                saved: Time::ZERO,
            },
        },
        far: Link {
            transfer: picos(94_000),
            memory: picos(107_000),
            lines: Lines {
                start: picos(180_650),
                line: picos(7_500),
                congestion: picos(3_000),
                saved: Time::ZERO,
            },
        },
        contention: None,
        invalidation: Invalidation::EachSharer,
        write: None,
    };

    /// Sixty cores on a ring, Xeon Phi 5110P (tables 1, 2 and 4, buffers in caches).
    pub const XEON_PHI: Parameters = {
        let near = Link {
            transfer: picos(235_800),
            memory: picos(277_700),
            lines: Lines::table_4(State::Exclusive, State::Exclusive),
        };
        Parameters {
            local: picos(8_600),
            near,
            far: near,
            contention: Some(Contention::table_2(State::Exclusive, State::Exclusive)),
            invalidation: Invalidation::Once,
            write: None,
        }
    };

    /// Returns the same machine if readers of one line did not disturb each other.
    #[must_use]
    pub fn without_contention(self) -> Parameters {
        Parameters { contention: None, ..self }
    }

    /// Returns the same machine where flags and buffers stay in caches from one operation to the next, as in a loop of
    /// short operations: a first access is a transfer from the rank that used the line last.
    ///
    /// The paper assumes that the computation between has evicted them (section 2.5).
    #[must_use]
    pub fn with_cached_flags(mut self) -> Parameters {
        self.near.memory = self.near.memory.min(self.near.transfer);
        self.far.memory = self.far.memory.min(self.far.transfer);
        self
    }

    /// Returns by how much a write takes longer than a read, of a line that another core has.
    pub(crate) fn more_to_write(&self) -> Time {
        self.write.map_or(Time::ZERO, |write| write.saturating_sub(self.near.transfer))
    }

    /// Returns the costs over a distance.
    pub fn link(&self, near: bool) -> &Link {
        if near { &self.near } else { &self.far }
    }

    /// Rule 5: returns the time of a line that `readers` ranks read at the same time, each over this distance. One
    /// reader alone does not contend: equations 6 and 10 have R_R for Xeon Phi, too.
    pub fn read(&self, near: bool, readers: u64) -> Time {
        match readers {
            0 | 1 => self.link(near).transfer,
            _ => self.contended(near, readers),
        }
    }

    /// Returns the same as in equations 16, 26 and 29: T_C(n) also for n = 1. With table 2's b, that is more than R_R.
    pub fn contended(&self, near: bool, readers: u64) -> Time {
        let alone = self.link(near).transfer;
        match &self.contention {
            None => alone,
            // The contention was measured within a group, so the way between groups is added.
            Some(contention) => {
                contention.cost(readers.max(1)) + alone.saturating_sub(self.near.transfer)
            }
        }
    }

    /// Returns T_data of a broadcast of several lines (section 4.2): `readers` ranks copy the same lines at once.
    ///
    /// With contention, it is b + cn + oN: the slope of the multi-line model, the contention of the readers, and its b
    /// as the constant (section 4.2.2). The paper gives no equation, and does not say whether c counts once or for each
    /// line. Without contention, it is T_m(1, N): congestion is left out (section 4.2.1).
    pub fn copy(&self, near: bool, readers: u64, lines: u64) -> Time {
        let link = self.link(near);
        match &self.contention {
            _ if lines == 0 => Time::ZERO,
            None => link.lines.cost(1, lines),
            Some(contention) => {
                let farther = link.transfer.saturating_sub(self.near.transfer);
                contention.cost(readers.max(1)) + lines * link.lines.line + farther
            }
        }
    }

    /// Checks whether these can be the costs of a machine, as far as the model needs it: a nearer line must not cost
    /// more, and readers that come at the same time must not be slower than readers that come one after the other.
    /// Otherwise the maximum would be below the minimum.
    ///
    /// # Errors
    /// The first problem that is found.
    pub fn check(&self) -> Result<(), Implausible> {
        let order = [
            ("R_L", self.local, "R_R", self.near.transfer),
            ("R_R", self.near.transfer, "R_Q", self.far.transfer),
            ("R_I", self.near.memory, "R_QI", self.far.memory),
        ];
        for (less, small, more, large) in order {
            if small > large {
                return Err(Implausible::Order { less, small, more, large });
            }
        }
        if self.near.transfer == Time::ZERO {
            return Err(Implausible::Nothing { what: "R_R" });
        }
        let Some(contention) = &self.contention else { return Ok(()) };
        let apart = self.near.transfer;
        if 2 * contention.reader > apart {
            let (small, large) = (2 * contention.reader, apart);
            return Err(Implausible::Order { less: "2c", small, more: "R_R", large });
        }
        if contention.cost(1) > 2 * apart {
            let (small, large) = (contention.cost(1), 2 * apart);
            return Err(Implausible::Order { less: "T_C(1)", small, more: "2 R_R", large });
        }
        Ok(())
    }
}

/// Why parameters cannot be those of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Implausible {
    /// A value that should be larger than another one is smaller.
    #[error("the parameters of the machine contradict each other: {less} = {} ns must not be more than {more} = {} ns", .small.as_nanos(), .large.as_nanos())]
    Order {
        /// The value that should be less.
        less: &'static str,
        /// Its value.
        small: Time,
        /// The value that should be more.
        more: &'static str,
        /// Its value.
        large: Time,
    },
    /// A time that can't be 0 is 0.
    #[error("the parameter {what} of the machine is 0: it must be positive")]
    Nothing {
        /// Which time.
        what: &'static str,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use State::{Exclusive, Invalid};

    #[test]
    fn the_papers_machines_are_plausible() {
        for parameters in [Parameters::SANDY_BRIDGE, Parameters::XEON_PHI] {
            assert_eq!(parameters.check(), Ok(()));
            assert_eq!(parameters.without_contention().check(), Ok(()));
            assert_eq!(parameters.with_cached_flags().check(), Ok(()));
        }
    }

    #[test]
    fn implausible_values_are_named() {
        let mut parameters = Parameters::SANDY_BRIDGE;
        parameters.near.transfer = Time::ZERO;
        let error = parameters.check().unwrap_err();
        let text = "the parameters of the machine contradict each other: R_L = 2.3 ns must not be more than R_R = 0 ns";
        assert_eq!(error.to_string(), text);
        parameters.local = Time::ZERO;
        assert_eq!(parameters.check(), Err(Implausible::Nothing { what: "R_R" }));
        let mut parameters = Parameters::XEON_PHI;
        parameters.contention.as_mut().unwrap().reader = Time::from_nanos(118);
        assert!(parameters.check().unwrap_err().to_string().contains("2c"));
    }

    /// Table 2 and equation 3 by hand: one and ten readers, from caches and from memory.
    #[test]
    fn contention_by_hand() {
        let nanos = |send, receive, n| Contention::table_2(send, receive).cost(n).as_nanos();
        assert_eq!(nanos(Exclusive, Exclusive, 1), 376.7);
        assert_eq!(nanos(Exclusive, Exclusive, 10), 882.5);
        assert_eq!(nanos(Invalid, Exclusive, 10), 863.6 + 239.0 - 66.74);
        assert_eq!(nanos(Invalid, Invalid, 1), 529.6);
        assert_eq!(nanos(Exclusive, Invalid, 0), 0.0);
    }

    /// Equations 4 and 5 by hand.
    #[test]
    fn lines_by_hand() {
        let sandy = Parameters::SANDY_BRIDGE;
        assert_eq!(sandy.near.lines.cost(5, 128).as_nanos(), 63.4 + 11.1 * 128.0);
        assert_eq!(sandy.far.lines.cost(8, 10).as_nanos(), 180.65 + 75.0 + 240.0);
        assert_eq!(sandy.far.lines.cost(8, 0), Time::ZERO);
        let phi = Lines::table_4(Exclusive, Exclusive);
        assert_eq!(phi.cost(1, 1).as_nanos(), 501.0);
        assert_eq!(phi.cost(1, 4).as_nanos(), 1521.0 + 304.0 - 274.0);
    }
}
