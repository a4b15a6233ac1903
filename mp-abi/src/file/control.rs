//! What ranks change of an open file, and what they learn of it.

use std::{io, rc::Rc};

use nix::{errno::Errno, fcntl::posix_fallocate};

use super::{definition::File, errno::failed, representation::Representation, view::View};
use crate::{
    completed::Completed,
    constants::{MPI_DISPLACEMENT_CURRENT, MPI_MODE_RDONLY, MPI_MODE_SEQUENTIAL},
    datatype::TypeRef,
    error::{Class, Error},
};

type Result<T> = std::result::Result<T, Error>;

const CURRENT: i64 = MPI_DISPLACEMENT_CURRENT as i64;

impl File {
    fn failed(&self, what: &str, error: &io::Error) -> Error {
        failed(&format!("{what} {}", self.path.display()), error)
    }

    /// Returns the size of the file in bytes.
    pub fn size(&self) -> Result<i64> {
        let about = self.file.metadata();
        let about = about.map_err(|error| self.failed("asking for the size of", &error))?;
        Ok(about.len() as i64)
    }

    /// Returns the size that all ranks give, if it may be set.
    fn new_size(&self, size: i64) -> Result<[u64; 1]> {
        self.check_writable()?;
        match size {
            0.. => Ok([size as u64]),
            _ => Err(Error::new(Class::Arg, format!("the size is negative: {size}"))),
        }
    }

    /// Sets the size of the file, when all ranks have called this.
    pub fn set_size(&self, size: i64) -> Result<()> {
        let mine = self.new_size(size).and_then(|size| {
            self.check_random()?;
            Ok(size)
        });
        self.together.agree(mine, || {
            let set = self.file.set_len(size as u64);
            set.map(|()| 0).map_err(|error| self.failed("setting the size of", &error))
        })?;
        Ok(())
    }

    /// Has the system reserve room for a file of this size, when all ranks have called this.
    pub fn preallocate(&self, size: i64) -> Result<()> {
        let mine = self.new_size(size);
        self.together.agree(mine, || {
            if size > 0 {
                posix_fallocate(&self.file, 0, size)
                    .map_err(|errno| self.failed("reserving room for", &errno.into()))?;
            }
            Ok(0)
        })?;
        Ok(())
    }

    /// Has the system bring to the device what was written.
    pub fn sync(&self) -> Result<()> {
        self.is_written.set(false);
        match self.file.sync_data() {
            // There are files, such as pipes, that are on no device.
            Err(error) if error.raw_os_error() == Some(Errno::EINVAL as i32) => Ok(()),
            synced => synced.map_err(|error| self.failed("syncing", &error)),
        }
    }

    pub fn is_atomic(&self) -> bool {
        self.is_atomic.get()
    }

    /// Says whether each access is done as a whole, when all ranks have called this.
    pub fn set_atomicity(&self, is_atomic: bool) -> Result<()> {
        self.together.agree(Ok([is_atomic.into()]), || Ok(0))?;
        self.is_atomic.set(is_atomic);
        Ok(())
    }

    /// Sets this rank's view, when all ranks have called this. Both pointers come to its beginning.
    pub fn set_view(
        &self,
        displacement: i64,
        types: Result<[TypeRef; 2]>,
        representation: Result<Representation>,
    ) -> Result<()> {
        let displacement = match (displacement, self.has(MPI_MODE_SEQUENTIAL)) {
            (CURRENT, true) => self.byte_offset(self.shared_position()),
            (CURRENT, false) => {
                let text = "MPI_DISPLACEMENT_CURRENT is for files of MPI_MODE_SEQUENTIAL";
                Err(Error::new(Class::Disp, text))
            }
            (displacement, _) => Ok(displacement),
        };
        let view = displacement.and_then(|displacement| {
            View::new(displacement, types?, representation?, !self.has(MPI_MODE_RDONLY))
        });
        let mine = view.as_ref().map(|view| [view.unit as u64]).map_err(Error::clone);
        self.together.agree(mine, || {
            self.pointer().store(0);
            Ok(0)
        })?;
        self.view.replace(Rc::new(view?));
        self.position.set(0);
        Ok(())
    }

    /// Returns the place in the file of a position of this rank's view.
    pub fn byte_offset(&self, position: i64) -> Result<i64> {
        match position {
            0.. => self.view().offset(position),
            _ => Err(Error::new(Class::Arg, format!("the offset is negative: {position}"))),
        }
    }

    /// Returns an error if a collective access has begun and not ended.
    pub fn check_idle(&self) -> Result<()> {
        match &*self.begun.borrow() {
            None => Ok(()),
            Some((begun, _)) => {
                Err(Error::new(Class::Io, format!("what {begun} has begun was not ended")))
            }
        }
    }

    /// Keeps what a collective access has to say that a function has begun.
    pub fn begun(&self, function: &'static str, completed: Completed) {
        self.begun.replace(Some((function, completed)));
    }

    /// Ends a collective access that this function has begun.
    pub fn end(&self, begun: &'static str) -> Result<Completed> {
        let mut now = self.begun.borrow_mut();
        let ended = now.take_if(|(function, _)| *function == begun);
        let ended = ended.map(|(_, completed)| completed);
        ended.ok_or_else(|| Error::new(Class::Io, format!("{begun} has begun nothing")))
    }
}
