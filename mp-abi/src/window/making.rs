//! How ranks make a window together.

use std::{
    cell::{Cell, RefCell},
    ffi::{c_int, c_void},
    process,
    ptr::with_exposed_provenance_mut,
};

use nix::{libc, unistd::Pid};

use super::{
    Values, Win,
    allocated::{self, Found},
    epochs::Epochs,
    locks::Locks,
    mapping::{Mapping, Owned, Place},
    target::{self, Target, Way},
};
use crate::{
    attributes::Attributes,
    callbacks::Owner,
    comm::Comm,
    constants::{
        MPI_WIN_FLAVOR_ALLOCATE, MPI_WIN_FLAVOR_CREATE, MPI_WIN_FLAVOR_DYNAMIC,
        MPI_WIN_FLAVOR_SHARED, MPI_WIN_UNIFIED,
    },
    errhandler::{Handler, Slot},
    error::{Class, Error},
    info::Info,
    splitting, state,
    types::Aint,
    words::all_gather,
};

type Result<T> = std::result::Result<T, Error>;

/// Where parts begin that are not next to each other.
const PAGE: usize = 4096;
/// The value that a rank reads in another one's memory, to know whether the system lets it.
const SIGN: u64 = 0x6f6e_6368_6970_5f77;
static READABLE: u64 = SIGN;

/// The ranks that make a window.
struct Makers {
    comm: Comm,
    flavor: c_int,
    hints: Info,
}

/// Returns the size and the unit of a rank's part as numbers.
fn check(bytes: Aint, unit: Aint) -> Result<(u64, u64)> {
    let size = u64::try_from(bytes)
        .map_err(|_| Error::new(Class::Size, format!("the window's size is negative: {bytes}")))?;
    match unit {
        1.. => Ok((size, unit as u64)),
        _ => Err(Error::new(Class::Disp, format!("the unit of displacements is {unit}"))),
    }
}

/// Stands for the file of memory that is the world's.
const IN_WORLD: u64 = u64::MAX;

/// Makes a window of memory of the program.
pub(crate) fn create(
    comm: &Comm,
    base: *mut c_void,
    bytes: Aint,
    unit: Aint,
    hints: Info,
) -> Result<Win> {
    let makers = Makers::new(comm, MPI_WIN_FLAVOR_CREATE, hints)?;
    let base = base.expose_provenance();
    let rows = makers.agree(check(bytes, unit).map(|(bytes, unit)| {
        let found = allocated::find(base, bytes as usize);
        let found = found.filter(|_| bytes > 0);
        if found.is_none() {
            let_others_copy();
        }
        let (file, offset, mapped) = match found {
            None => (0, 0, 0),
            Some(Found::InWorld(place)) => (IN_WORLD, place, 0),
            Some(Found::InFile { place, offset, bytes }) => {
                (1 + place.file as u64, offset as u64, bytes as u64)
            }
        };
        let process = process::id().into();
        [bytes, unit, process, base as u64, file, offset, mapped, readable()]
    }))?;
    let mut memory = Vec::new();
    let me = makers.me();
    let targets = rows.iter().enumerate().map(|(rank, row)| {
        let &[bytes, unit, process, theirs, file, offset, mapped, readable] = row;
        let way = if rank == me {
            Way::Direct(base)
        } else if file == IN_WORLD {
            let address = state::rank()?.address_of(offset, bytes as usize);
            let nowhere = || Error::new(Class::RmaRange, "the window's memory is not the world's");
            Way::Direct(address.ok_or_else(nowhere)?.as_ptr().expose_provenance())
        } else if file > 0 {
            let place = Place { process: process as u32, file: (file - 1) as i32 };
            let mapping = Mapping::open(place, mapped as usize)?;
            let start = mapping.start() + offset as usize;
            memory.push(mapping);
            Way::Direct(start)
        } else {
            copied(process, theirs, readable)?
        };
        Ok(Target { way, bytes: bytes as usize, unit: unit as Aint, is_dynamic: false })
    });
    let targets = targets.collect();
    makers.finish(targets, memory, with_exposed_provenance_mut(base))
}

/// Makes a window of memory that is allocated for it. `is_shared` is said by `MPI_Win_allocate_shared`: then the parts of
/// the ranks are next to each other, unless a rank does not want that.
pub(crate) fn allocate(
    comm: &Comm,
    bytes: Aint,
    unit: Aint,
    (is_shared, is_apart): (bool, bool),
    hints: Info,
) -> Result<Win> {
    let flavor = if is_shared { MPI_WIN_FLAVOR_SHARED } else { MPI_WIN_FLAVOR_ALLOCATE };
    let makers = Makers::new(comm, flavor, hints)?;
    let is_apart = is_apart || !is_shared;
    let rows =
        makers.agree(check(bytes, unit).map(|(bytes, unit)| [bytes, unit, is_apart.into()]))?;
    let is_apart = rows.iter().any(|row| row[2] != 0);
    let mut offsets = Vec::new();
    let total = rows.iter().try_fold(0usize, |end, row| {
        offsets.push(end);
        let end = end.checked_add(row[0] as usize)?;
        if is_apart { end.checked_next_multiple_of(PAGE) } else { Some(end) }
    });
    let too_much = || Error::new(Class::NoMem, "the window is larger than the memory of a process");
    let own = match makers.me() {
        0 => total.ok_or_else(too_much).and_then(Owned::new).map(Some),
        _ => Ok(None),
    };
    // The first rank keeps the file open until all have mapped it, which they say in `finish`.
    let (_file, place) = match own {
        Ok(own) => {
            let place = own.as_ref().map(Owned::place);
            (own, Ok(place.map_or([0; 2], |place| [place.process.into(), place.file as u64])))
        }
        Err(error) => (None, Err(error)),
    };
    let told = makers.agree(place)?;
    let place = Place { process: told[0][0] as u32, file: told[0][1] as i32 };
    let (mut base, mut memory) = (std::ptr::null_mut(), Vec::new());
    let targets = Mapping::open(place, total.unwrap_or(0)).map(|mapping| {
        let start = mapping.start();
        if rows[makers.me()][0] > 0 {
            base = with_exposed_provenance_mut(start + offsets[makers.me()]);
        }
        memory.push(mapping);
        let parts = rows.iter().zip(&offsets);
        let targets = parts.map(|(row, offset)| Target {
            way: Way::Direct(start + offset),
            bytes: row[0] as usize,
            unit: row[1] as Aint,
            is_dynamic: false,
        });
        targets.collect()
    });
    makers.finish(targets, memory, base)
}

/// Makes a window to which ranks attach memory later.
pub(crate) fn create_dynamic(comm: &Comm, hints: Info) -> Result<Win> {
    let makers = Makers::new(comm, MPI_WIN_FLAVOR_DYNAMIC, hints)?;
    let_others_copy();
    let rows = makers.agree(Ok([process::id().into(), readable()]))?;
    let me = makers.me();
    let targets = rows.iter().enumerate().map(|(rank, &[process, readable])| {
        let way = if rank == me { Way::Direct(0) } else { copied(process, 0, readable)? };
        Ok(Target { way, bytes: 0, unit: 1, is_dynamic: true })
    });
    let targets = targets.collect();
    makers.finish(targets, Vec::new(), std::ptr::null_mut())
}

/// Returns the address of the value that other ranks read.
fn readable() -> u64 {
    (&raw const READABLE).expose_provenance() as u64
}

/// Lets the other processes of this user copy memory of this one, where the system asks for that.
fn let_others_copy() {
    let any = libc::PR_SET_PTRACER_ANY;
    // SAFETY: the call changes who may copy memory, and nothing else. Where it is not known, it fails and there is
    // nothing to allow.
    let _ = unsafe { libc::prctl(libc::PR_SET_PTRACER, any, 0, 0, 0) };
}

/// Returns how the memory at an address of another process is reached, if the system lets this rank do so.
fn copied(process: u64, base: u64, readable: u64) -> Result<Way> {
    let process = Pid::from_raw(process as i32);
    match target::word_of(process, readable as usize)? {
        SIGN => Ok(Way::Copied(process, base as usize)),
        _ => Err(Error::new(Class::RmaShared, "the ranks do not see each other's processes")),
    }
}

impl Makers {
    fn new(comm: &Comm, flavor: c_int, hints: Info) -> Result<Self> {
        comm.check_intra()?;
        let own = Comm::new(splitting::duplicate(comm)?, "", Handler::Return);
        Ok(Self { comm: own.threaded(comm.has_threads()), flavor, hints })
    }

    fn me(&self) -> usize {
        self.comm.rank as usize
    }

    /// Returns what all ranks say, or an error if one of them has an error.
    fn agree<const N: usize>(&self, mine: Result<[u64; N]>) -> Result<Vec<[u64; N]>> {
        let code = mine.as_ref().map_or_else(Error::code, |_| 0);
        let words = mine.as_ref().map_or([0; N], |words| *words);
        let all = all_gather(&self.comm.communicator, &[&[code as u64], &words[..]].concat())?;
        mine?;
        let mut rows = Vec::new();
        for (rank, row) in all.chunks_exact(N + 1).enumerate() {
            if row[0] != 0 {
                let text = format!("rank {rank} could not make its part of the window");
                return Err(Error::of_program(row[0] as c_int, text));
            }
            let mut words = [0; N];
            words.copy_from_slice(&row[1..]);
            rows.push(words);
        }
        Ok(rows)
    }

    /// Makes the window when all ranks have what they need.
    fn finish(
        self,
        targets: Result<Vec<Target>>,
        memory: Vec<Mapping>,
        base: *mut c_void,
    ) -> Result<Win> {
        let made = targets.and_then(|targets| Ok((targets, Locks::open(&self.comm.communicator)?)));
        let code = made.as_ref().map_or_else(Error::code, |_| 0);
        let agreed = self.agree::<0>(match code {
            0 => Ok([]),
            _ => Err(Error::of_program(code, "")),
        });
        let (targets, locks) = made?;
        agreed?;
        let own = targets[self.me()];
        let values = Values {
            base,
            bytes: own.bytes as Aint,
            unit: own.unit as c_int,
            flavor: self.flavor,
            model: MPI_WIN_UNIFIED,
        };
        Ok(Win {
            comm: self.comm,
            locks,
            targets,
            epochs: RefCell::new(Epochs::default()),
            values,
            unflushed: Cell::default(),
            attached: RefCell::default(),
            attributes: Attributes::new(Owner::Window),
            name: RefCell::default(),
            errhandler: Slot::new(Handler::Fatal),
            hints: self.hints,
            _memory: memory,
        })
    }
}
