//! The places in a file where the next data is: a pointer of each rank, and one that the ranks share.

use std::ffi::c_int;

use mp_core::memory::Word;

use super::definition::File;
use crate::{
    constants::{MPI_SEEK_CUR, MPI_SEEK_END, MPI_SEEK_SET},
    error::{Class, Error},
};

type Result<T> = std::result::Result<T, Error>;

impl File {
    /// Returns the word with the position of the shared pointer.
    pub(super) fn pointer(&self) -> &Word {
        &self.shared.words()[0]
    }

    /// Returns where a pointer comes to that is now somewhere.
    fn target(&self, now: i64, offset: i64, whence: c_int) -> Result<i64> {
        let from = match whence {
            MPI_SEEK_SET => 0,
            MPI_SEEK_CUR => now,
            MPI_SEEK_END => self.view().position(self.size()?),
            _ => {
                return Err(Error::new(
                    Class::Arg,
                    format!("there is no place {whence} to seek from"),
                ));
            }
        };
        match from.checked_add(offset) {
            Some(target @ 0..) => Ok(target),
            _ => {
                let text = format!("the position {offset} from {from} is not in the file");
                Err(Error::new(Class::Arg, text))
            }
        }
    }

    pub fn position(&self) -> i64 {
        self.position.get()
    }

    pub fn shared_position(&self) -> i64 {
        self.pointer().load() as i64
    }

    /// Moves this rank's pointer.
    pub fn seek(&self, offset: i64, whence: c_int) -> Result<()> {
        self.check_random()?;
        self.position.set(self.target(self.position(), offset, whence)?);
        Ok(())
    }

    /// Moves the shared pointer, when all ranks have called this.
    pub fn seek_shared(&self, offset: i64, whence: c_int) -> Result<()> {
        let mine = self.check_random().map(|()| [offset as u64, whence as u64]);
        self.together.agree(mine, || {
            let target = self.target(self.shared_position(), offset, whence)?;
            self.pointer().store(target as u64);
            Ok(0)
        })?;
        Ok(())
    }
}
