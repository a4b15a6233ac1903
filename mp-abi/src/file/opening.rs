//! How ranks open, close and delete files.

use std::{
    cell::{Cell, RefCell},
    ffi::{OsStr, c_int},
    fs::{self, OpenOptions},
    os::unix::ffi::OsStrExt,
    path::{self, Path, PathBuf},
    rc::Rc,
};

use mp_core::{memory::Region, names::Namespace};

use super::{
    definition::{File, first_handler},
    errno::failed,
    representation::Representation,
    together::Together,
    view::View,
};
use crate::{
    comm::Comm,
    constants::{
        MPI_BYTE, MPI_MODE_APPEND, MPI_MODE_CREATE, MPI_MODE_DELETE_ON_CLOSE, MPI_MODE_EXCL,
        MPI_MODE_RDONLY, MPI_MODE_RDWR, MPI_MODE_SEQUENTIAL, MPI_MODE_UNIQUE_OPEN, MPI_MODE_WRONLY,
    },
    datatype::TypeRef,
    errhandler::Slot,
    error::{Class, Error},
    splitting,
};

type Result<T> = std::result::Result<T, Error>;

const NAMES: Namespace = Namespace::new("files");
const ALL_MODES: c_int = MPI_MODE_APPEND
    | MPI_MODE_CREATE
    | MPI_MODE_DELETE_ON_CLOSE
    | MPI_MODE_EXCL
    | MPI_MODE_RDONLY
    | MPI_MODE_RDWR
    | MPI_MODE_SEQUENTIAL
    | MPI_MODE_UNIQUE_OPEN
    | MPI_MODE_WRONLY;

fn check_mode(mode: c_int) -> Result<()> {
    let has = |one| mode & one != 0;
    let ways =
        [MPI_MODE_RDONLY, MPI_MODE_RDWR, MPI_MODE_WRONLY].into_iter().filter(|&way| has(way));
    let text = match ways.count() {
        _ if mode & !ALL_MODES != 0 => "it has bits that are no mode",
        1 if has(MPI_MODE_RDONLY) && has(MPI_MODE_CREATE | MPI_MODE_EXCL) => {
            "what is only read can't be created"
        }
        1 if has(MPI_MODE_RDWR) && has(MPI_MODE_SEQUENTIAL) => {
            "what is accessed sequentially can't be both read and written"
        }
        1 => return Ok(()),
        _ => "it must have one of MPI_MODE_RDONLY, MPI_MODE_WRONLY and MPI_MODE_RDWR",
    };
    Err(Error::new(Class::Amode, format!("the access mode is {mode}: {text}")))
}

/// Returns the path of this name.
pub(crate) fn path_of(name: &[u8]) -> Result<PathBuf> {
    let path = Path::new(OsStr::from_bytes(name));
    // The program may change its working directory while the file is open.
    path::absolute(path).map_err(|_| Error::new(Class::BadFile, "the name of the file is empty"))
}

/// Opens a file in this process. Only the first rank creates files.
fn open_here(path: &Path, mode: c_int, is_first: bool) -> Result<fs::File> {
    let has = |one| mode & one != 0;
    let mut options = OpenOptions::new();
    options.read(!has(MPI_MODE_WRONLY)).write(!has(MPI_MODE_RDONLY));
    if is_first && has(MPI_MODE_CREATE) {
        options.create(true).create_new(has(MPI_MODE_EXCL));
    }
    options.open(path).map_err(|error| failed(&format!("opening {}", path.display()), &error))
}

impl File {
    /// Opens a file together with the other ranks of the communicator.
    pub fn open(comm: &Comm, name: Result<&[u8]>, mode: c_int) -> Result<Self> {
        comm.check_intra()?;
        let together = Together(splitting::duplicate(comm)?);
        let joint = together.0.joint();
        // All ranks open the region, also those that know already of an error, so that it is freed.
        let ranks = joint.world_ranks();
        let shared = Region::open_of(&joint.rank(), NAMES, &joint.name("file"), &ranks, 1, 0);
        let prepared = name.and_then(path_of).and_then(|path| {
            check_mode(mode)?;
            Ok((path, shared?))
        });
        let mut first = None;
        let mine = prepared.as_ref().map(|_| [mode as u64]).map_err(Error::clone);
        let begun = together.agree(mine, || {
            if let Ok((path, _)) = &prepared {
                first = Some(open_here(path, mode, true)?);
            }
            Ok(0)
        });
        let (path, shared) = prepared?;
        begun?;
        let opened = match first {
            Some(file) => Ok(file),
            None => open_here(&path, mode, false),
        };
        let end = || match (&opened, mode & MPI_MODE_APPEND) {
            (Ok(file), 1..) => file.metadata().map_or(0, |about| about.len()),
            _ => 0,
        };
        let mine = opened.as_ref().map(|_| []).map_err(Error::clone);
        let position = together.agree(mine, || {
            let end = end();
            shared.words()[0].store(end);
            Ok(end)
        })?;
        let file = opened?;
        // SAFETY: the handle is predefined.
        let byte = unsafe { TypeRef::keep(MPI_BYTE)? };
        let view = View::new(0, [byte.clone(), byte], Representation::NATIVE, false)?;
        Ok(Self {
            file,
            path,
            mode,
            group: comm.group(),
            together,
            shared,
            view: RefCell::new(Rc::new(view)),
            position: Cell::new(position as i64),
            is_atomic: Cell::new(false),
            is_written: Cell::new(false),
            begun: RefCell::new(None),
            errhandler: Slot::new(first_handler()),
        })
    }

    /// Ends the use of the file, when all ranks have called this. What was written is on the device then, unless the
    /// file is deleted. The file itself is closed when this is dropped.
    pub fn close(&self) -> Result<()> {
        self.check_idle()?;
        let is_deleted = self.has(MPI_MODE_DELETE_ON_CLOSE);
        let mine = match self.is_written.get() && !is_deleted {
            true => self.sync().map(|()| []),
            false => Ok([]),
        };
        self.together.agree(mine, || {
            if is_deleted {
                delete(&self.path)?;
            }
            Ok(0)
        })?;
        Ok(())
    }
}

/// Deletes a file.
pub(crate) fn delete(path: &Path) -> Result<()> {
    fs::remove_file(path).map_err(|error| failed(&format!("deleting {}", path.display()), &error))
}
