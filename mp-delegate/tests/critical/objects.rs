//! Objects for the tests.

use mp_core::{Error, Rank, Result};
use mp_delegate::critical::{Object, Protected, Scheme, Section, Server};

/// Adds, and returns the value before. Adding 0 reads.
pub struct Counter;

impl Object for Counter {
    type State = u64;
    type Op = u64;
    type Ret = u64;

    fn apply(count: &mut u64, by: u64) -> u64 {
        std::mem::replace(count, *count + by)
    }
}

/// The same with 4 bytes.
pub struct Small;

impl Object for Small {
    type State = u64;
    type Op = u16;
    type Ret = u32;

    fn apply(count: &mut u64, by: u16) -> u32 {
        std::mem::replace(count, *count + u64::from(by)) as u32
    }
}

/// Operations and results of several lines, on a large value. All its elements are always equal.
pub struct Wide;

impl Object for Wide {
    type State = [u64];
    type Op = [u64; 20];
    type Ret = [u64; 48];

    fn apply(state: &mut [u64], op: [u64; 20]) -> [u64; 48] {
        let before = state[0];
        assert!(state.iter().all(|element| *element == before), "a torn value");
        assert!(op.iter().all(|element| *element == op[0]), "a torn operation");
        state.fill(before + op[0]);
        [before; 48]
    }
}

/// Does nothing.
pub struct Nothing;

impl Object for Nothing {
    type State = [u8; 3];
    type Op = ();
    type Ret = ();

    fn apply(count: &mut [u8; 3], (): ()) {
        count[0] = count[0].wrapping_add(1);
    }
}

/// Panics for an odd number after it has added it.
pub struct Touchy;

impl Object for Touchy {
    type State = u64;
    type Op = u64;
    type Ret = u64;

    fn apply(sum: &mut u64, by: u64) -> u64 {
        *sum += by;
        assert!(by.is_multiple_of(2), "{by} is odd");
        *sum
    }
}

/// Opens the object. With a server, rank 0 serves it, and the others `use_it`. Without one, all ranks use it.
pub fn with<O: Object, T: Default>(
    rank: &Rank,
    section: Section,
    use_it: impl FnOnce(&Protected<O>) -> Result<T>,
) -> Result<T> {
    let object = Protected::<O>::open(rank, "object", section, |_| ())?;
    if section_scheme(&object).needs_server() && rank.id() == 0 {
        let mut server = Server::new();
        server.add(object)?;
        server.serve()?;
        return Ok(T::default());
    }
    use_it(&object)
}

fn section_scheme<O: Object>(object: &Protected<O>) -> Scheme {
    object.section().scheme()
}

/// Returns how many ranks use an object in such a world.
pub fn users(scheme: Scheme, ranks: usize) -> u64 {
    (ranks - usize::from(scheme.needs_server())) as u64
}

pub fn expect<T>(found: T, wanted: T) -> Result<()>
where
    T: PartialEq + std::fmt::Debug,
{
    if found == wanted {
        return Ok(());
    }
    Err(Error::other(format!("{found:?} instead of {wanted:?}")))
}
