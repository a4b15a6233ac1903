//! What ranks of a launched world ask of their launcher: to start more ranks, and to keep names for all ranks.
//!
//! The world's memory is laid out for the ranks with which it begins and for some more (`mprun --spare`). A rank leaves
//! its request in a block of the segment, puts the block's key into its control block, and rings the launcher's bell. The
//! thread that watches the ranks starts the new ones, under the next numbers, and answers in the same way. From then on
//! they are ranks like the others, except that they do not take part in the rounds of a launched world: they join it once,
//! and wait for nobody when they leave.

use std::{
    collections::BTreeMap,
    env,
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use nix::unistd::{AccessFlags, access};

use super::{family::Family, join, notice, rank::Rank};
use crate::{
    context::Context,
    error::{Error, ErrorKind, Result},
    segment::{BlockKey, BlockKind},
    sync::Ordering,
    wait::{Doing, Flag, Operation, Wait},
};

/// A program to start as further ranks of a launched world.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Command {
    program: Vec<u8>,
    args: Vec<Vec<u8>>,
    ranks: u32,
    /// The current folder of the process that names it.
    here: Vec<u8>,
    folder: Vec<u8>,
    path: Vec<u8>,
}

impl Command {
    /// Names a program, its arguments, and how many ranks it is started as. The program runs in this process's current
    /// folder. It is looked for in `PATH` if its name has no slash.
    pub fn new(program: &OsStr, args: impl IntoIterator<Item = OsString>, ranks: usize) -> Self {
        let here = env::current_dir().unwrap_or_default().into_os_string().into_vec();
        Self {
            program: program.as_bytes().to_vec(),
            args: args.into_iter().map(OsString::into_vec).collect(),
            ranks: u32::try_from(ranks).unwrap_or(u32::MAX),
            folder: here.clone(),
            here,
            path: env::var_os("PATH").unwrap_or_default().into_vec(),
        }
    }

    /// Sets the folder in which the program runs, which may be relative to this process's. Relative names of the program
    /// are looked for there first.
    pub fn folder(mut self, folder: &OsStr) -> Self {
        self.folder =
            Path::new(OsStr::from_bytes(&self.here)).join(folder).into_os_string().into_vec();
        self
    }

    /// Sets the folders in which the program is looked for before those in `PATH`, with a colon between them.
    pub fn path(mut self, folders: &OsStr) -> Self {
        self.path = [folders.as_bytes(), b":", &self.path].concat();
        self
    }

    pub(super) fn ranks(&self) -> u32 {
        self.ranks
    }

    pub(super) fn name(&self) -> &OsStr {
        OsStr::from_bytes(&self.program)
    }

    pub(super) fn args(&self) -> Vec<OsString> {
        self.args.iter().map(|arg| OsString::from_vec(arg.clone())).collect()
    }

    pub(super) fn in_folder(&self) -> &OsStr {
        OsStr::from_bytes(&self.folder)
    }

    /// Returns the program's file.
    pub(super) fn file(&self) -> Result<PathBuf> {
        let name = self.name();
        if !Path::new(self.in_folder()).is_dir() {
            return Err(refused(format!("there is no folder {}", self.in_folder().display())));
        }
        let has_slash = self.program.contains(&b'/');
        let path = if has_slash { OsStr::new("") } else { OsStr::from_bytes(&self.path) };
        let folders = [&self.folder, &self.here].map(|folder| Path::new(OsStr::from_bytes(folder)));
        let mut files = folders.into_iter().flat_map(|folder| {
            env::split_paths(path).map(move |path| folder.join(path).join(name))
        });
        let runs = |file: &PathBuf| file.is_file() && access(file, AccessFlags::X_OK).is_ok();
        let found = files.find(runs);
        found.ok_or_else(|| {
            let whence = if has_slash { "" } else { " in PATH" };
            refused(format!("there is no program {}{whence} that can be run", name.display()))
        })
    }
}

/// What a rank asks for.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(super) enum Request {
    /// To start further ranks, to which the rank gives a number.
    Start(Vec<Command>, u32),
    /// What concerns names.
    Names(NamesRequest),
}

#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(super) enum NamesRequest {
    Publish(Vec<u8>, Vec<u8>),
    Unpublish(Vec<u8>),
    Look(Vec<u8>),
}

/// The first of the ranks that were started, or the value that a name has or had; or why nothing was done.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(super) enum Answer {
    Started(u32),
    Value(Option<Vec<u8>>),
    Refused(String),
}

/// The names that ranks have published, with a value for each.
#[derive(Debug, Default)]
pub(super) struct Names(BTreeMap<Vec<u8>, Vec<u8>>);

impl Names {
    const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Does what is asked, and returns the value that the name has, or had before.
    pub(super) fn answer(&mut self, request: NamesRequest) -> Option<Vec<u8>> {
        match request {
            NamesRequest::Publish(name, value) => match self.0.get(&name) {
                Some(there) => Some(there.clone()),
                None => self.0.insert(name, value),
            },
            NamesRequest::Unpublish(name) => self.0.remove(&name),
            NamesRequest::Look(name) => self.0.get(&name).cloned(),
        }
    }
}

impl Rank {
    /// Returns the ranks that were started together with this one: those with which the world began, or those that a
    /// rank has [started](Self::start).
    ///
    /// # Errors
    /// [`Segment`](crate::ErrorKind::Segment) when the world's memory was overwritten.
    #[doc(hidden)]
    pub fn family(&self) -> Result<Family> {
        Family::of(self.context())
    }

    /// Has the launcher start further ranks of this world, and returns the first of them. The others follow, in the
    /// order of the programs. The new ranks find the number in their [family](Self::family), and enter the world by
    /// [`World::join`](crate::World::join).
    ///
    /// # Errors
    /// [`BadWorld`](crate::ErrorKind::BadWorld) when they can't be started: then none of them is.
    #[doc(hidden)]
    pub fn start(&self, programs: &[Command], number: u32) -> Result<usize> {
        match self.ask(&Request::Start(programs.to_vec(), number))? {
            Answer::Started(first) => Ok(first as usize),
            Answer::Refused(why) => Err(refused(why)),
            Answer::Value(_) => Err(refused("the launcher has answered something else".to_owned())),
        }
    }

    /// Publishes a name with a value, for all ranks of the world. Returns whether the name was not published.
    ///
    /// # Errors
    /// [`Segment`](crate::ErrorKind::Segment) for lack of memory.
    #[doc(hidden)]
    pub fn publish(&self, name: &[u8], value: &[u8]) -> Result<bool> {
        Ok(self.names(NamesRequest::Publish(name.to_vec(), value.to_vec()))?.is_none())
    }

    /// Takes back a name that a rank has published. Returns whether the name was published.
    ///
    /// # Errors
    /// As [`publish`](Self::publish).
    #[doc(hidden)]
    pub fn unpublish(&self, name: &[u8]) -> Result<bool> {
        Ok(self.names(NamesRequest::Unpublish(name.to_vec()))?.is_some())
    }

    /// Returns the value of a name that a rank has published.
    ///
    /// # Errors
    /// As [`publish`](Self::publish).
    #[doc(hidden)]
    pub fn published(&self, name: &[u8]) -> Result<Option<Vec<u8>>> {
        self.names(NamesRequest::Look(name.to_vec()))
    }

    fn names(&self, request: NamesRequest) -> Result<Option<Vec<u8>>> {
        /// The names of worlds without a launcher.
        static OWN: Mutex<Names> = Mutex::new(Names::new());
        if !self.is_launched()? {
            let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
            return Ok(own.answer(request));
        }
        match self.ask(&Request::Names(request))? {
            Answer::Value(value) => Ok(value),
            Answer::Refused(why) => Err(refused(why)),
            Answer::Started(_) => {
                Err(refused("the launcher has answered something else".to_owned()))
            }
        }
    }

    fn is_launched(&self) -> Result<bool> {
        Ok(join::assignment()?.is_some_and(|assignment| assignment.launches(self.context())))
    }

    /// Asks the launcher, and returns its answer.
    fn ask(&self, request: &Request) -> Result<Answer> {
        struct NoFlag;
        impl Flag for NoFlag {
            fn raise(&self) {}
            fn lower(&self) {}
            fn call(&self) -> Option<String> {
                Some("wait for the launcher".to_owned())
            }
        }
        let context = self.context();
        let assignment = join::assignment()?.filter(|assignment| assignment.launches(context));
        let assignment = assignment.ok_or_else(|| {
            refused("a world without a launcher has no further ranks: start it by mprun".to_owned())
        })?;
        let control = context.rank(context.me)?;
        let key = notice::put(context, BlockKind::Notice, request)?;
        // Release: pairs with the Acquire in `next_request`.
        control.request.store(key.word(), Ordering::Release);
        assignment.ring();
        let doing = Doing { operation: Operation::Results, channel: 0 };
        // Acquire: pairs with the Release in `answer`, which also rings the doorbell, whether a flag is raised or not.
        let answered = || BlockKey::from_word(control.answer.swap(0, Ordering::Acquire));
        let key = context.wait(Wait::forever(), doing, std::ptr::null(), &NoFlag, answered)?;
        notice::take(context, key.ok_or_else(|| context.segment.corrupt("an answer", 0, 0))?)
    }
}

/// Returns the next request of a rank, for the launcher.
pub(super) fn next_request(context: &Context) -> Result<Option<(u32, Request)>> {
    for rank in 0..context.begun() {
        let control = context.rank(rank)?;
        // Acquire: pairs with the Release in `Rank::ask`.
        let key = BlockKey::from_word(control.request.swap(0, Ordering::Acquire));
        if let Some(key) = key {
            return Ok(Some((rank, notice::take(context, key)?)));
        }
    }
    Ok(None)
}

/// Answers the request of a rank.
pub(super) fn answer(context: &Context, rank: u32, answer: &Answer) -> Result<()> {
    let key = notice::put(context, BlockKind::Notice, answer)?;
    // Release: pairs with the Acquire in `Rank::ask`.
    context.rank(rank)?.answer.store(key.word(), Ordering::Release);
    context.ring(rank);
    Ok(())
}

/// Frees what a rank that has died has asked, and what it was answered.
pub(super) fn forget(context: &Context, rank: u32) -> Result<()> {
    let control = context.rank(rank)?;
    for word in [&control.request, &control.answer] {
        if let Some(key) = BlockKey::from_word(word.swap(0, Ordering::Acquire)) {
            context.free(key);
        }
    }
    Ok(())
}

pub(super) fn refused(why: String) -> Error {
    ErrorKind::BadWorld(why).into()
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;

    fn command(name: &str) -> Command {
        Command::new(name.as_ref(), [], 1)
    }

    #[test]
    fn a_program_is_looked_for_in_its_folder_and_in_the_path() {
        assert!(command("sh").file().is_ok_and(|file| file.ends_with("sh")));
        assert!(command("no-such-program").file().is_err());
        // A folder, and a file that nobody may run.
        assert!(command("/").file().is_err() && command("/proc/self/maps").file().is_err());
        let in_bin = command("./sh").folder("/bin".as_ref());
        assert_eq!(in_bin.file().unwrap(), Path::new("/bin/./sh"));
        assert!(command("./sh").folder("/proc".as_ref()).file().is_err());
        assert!(command("sh").folder("/no/such/folder".as_ref()).file().is_err());
        let own = env::current_exe().unwrap();
        let name = own.file_name().unwrap();
        assert!(Command::new(name, [], 1).file().is_err());
        let found = Command::new(name, [], 1).path(own.parent().unwrap().as_os_str()).file();
        assert_eq!(found.unwrap(), own);
    }

    #[test]
    fn a_name_keeps_its_value_until_it_is_taken_back() {
        let mut names = Names::default();
        let name = || b"name".to_vec();
        let publish = |value: &[u8]| NamesRequest::Publish(name(), value.to_vec());
        assert_eq!(names.answer(NamesRequest::Look(name())), None);
        assert_eq!(names.answer(publish(b"one")), None);
        assert_eq!(names.answer(publish(b"two")), Some(b"one".to_vec()));
        assert_eq!(names.answer(NamesRequest::Look(name())), Some(b"one".to_vec()));
        assert_eq!(names.answer(NamesRequest::Unpublish(name())), Some(b"one".to_vec()));
        assert_eq!(names.answer(NamesRequest::Unpublish(name())), None);
    }
}
