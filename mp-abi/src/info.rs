//! Info objects: lists of keys and values.

use std::{
    env,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
};

use crate::{
    constants::{MPI_INFO_ENV, MPI_MAX_INFO_KEY, MPI_MAX_INFO_VAL},
    error::{Class, Error},
    state,
    types::Handle,
};

const KEY_ROOM: usize = MPI_MAX_INFO_KEY as usize;

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// An info object (`MPI_Info`). Programs may use infos before MPI is initialized, in any thread.
#[derive(Debug, Default)]
pub(crate) struct Info(Mutex<Pairs>);

impl Info {
    pub fn new(pairs: impl IntoIterator<Item = (&'static str, String)>) -> Self {
        let pairs = pairs.into_iter().map(|(key, value)| (key.into(), value.into_bytes()));
        Self(Mutex::new(pairs.collect()))
    }

    /// Describes how a program with these arguments was started.
    pub fn of_environment(arguments: &[String]) -> Self {
        let folder =
            env::current_dir().map_or(String::new(), |folder| folder.display().to_string());
        let host = nix::unistd::gethostname().unwrap_or_default();
        let ranks = state::rank().map_or(1, mp_core::Rank::size);
        let all = [
            ("command", arguments.first().cloned().unwrap_or_default()),
            ("argv", arguments.get(1..).unwrap_or_default().join(" ")),
            ("maxprocs", ranks.to_string()),
            ("host", host.to_string_lossy().into_owned()),
            ("arch", env::consts::ARCH.to_owned()),
            ("wdir", folder),
            ("thread_level", "MPI_THREAD_FUNNELED".to_owned()),
        ];
        Self::new(all.into_iter().filter(|(_, value)| !value.is_empty()))
    }

    /// Returns a handle, which stays valid until it is [freed](Self::free).
    pub fn into_handle(self) -> Handle {
        Box::into_raw(Box::new(self)).cast()
    }

    /// Returns the info of a handle, to look at.
    ///
    /// # Safety
    /// The handle is one of an info that is not freed during `'a`, or any number below 4096.
    pub unsafe fn look<'a>(handle: Handle) -> Result<&'a Self, Error> {
        static ENVIRONMENT: OnceLock<Info> = OnceLock::new();
        match handle {
            MPI_INFO_ENV => Ok(ENVIRONMENT.get_or_init(|| {
                let arguments = env::args_os().map(|one| one.to_string_lossy().into_owned());
                Self::of_environment(&arguments.collect::<Vec<_>>())
            })),
            // SAFETY: the caller says so.
            _ => unsafe { Self::own(handle) },
        }
    }

    /// Returns the info of a handle, to change.
    ///
    /// # Safety
    /// As for [`look`](Self::look).
    pub unsafe fn own<'a>(handle: Handle) -> Result<&'a Self, Error> {
        if handle.addr() < 4096 {
            return Err(Error::new(Class::Info, "the handle is not one of an info of the program"));
        }
        // SAFETY: the handle came from `into_handle`.
        Ok(unsafe { &*handle.cast_const().cast::<Self>() })
    }

    /// Frees an info.
    ///
    /// # Safety
    /// As for [`look`](Self::look), and the handle is not used afterwards.
    pub unsafe fn free(handle: Handle) -> Result<(), Error> {
        // SAFETY: the caller says so.
        unsafe {
            Self::own(handle)?;
            drop(Box::from_raw(handle.cast::<Self>()));
        }
        Ok(())
    }

    /// Returns the keys and values, in the order in which they were set.
    pub fn pairs(&self) -> MutexGuard<'_, Pairs> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let key = checked_key(key)?;
        Ok(self.pairs().iter().find(|(one, _)| one == key).map(|(_, value)| value.clone()))
    }

    pub fn set(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        let key = checked_key(key)?;
        if value.len() >= MPI_MAX_INFO_VAL as usize {
            let text = format!("the value has {} characters", value.len());
            return Err(Error::new(Class::InfoValue, text));
        }
        let mut pairs = self.pairs();
        match pairs.iter_mut().find(|(one, _)| one == key) {
            Some((_, old)) => value.clone_into(old),
            None => pairs.push((key.to_owned(), value.to_owned())),
        }
        Ok(())
    }

    pub fn delete(&self, key: &[u8]) -> Result<(), Error> {
        let key = checked_key(key)?;
        let mut pairs = self.pairs();
        let place = pairs.iter().position(|(one, _)| one == key).ok_or_else(|| {
            Error::new(
                Class::InfoNokey,
                format!("there is no key {:?}", key.escape_ascii().to_string()),
            )
        })?;
        pairs.remove(place);
        Ok(())
    }
}

impl Clone for Info {
    fn clone(&self) -> Self {
        Self(Mutex::new(self.pairs().clone()))
    }
}

fn checked_key(key: &[u8]) -> Result<&[u8], Error> {
    match key.len() {
        1..KEY_ROOM => Ok(key),
        length => Err(Error::new(Class::InfoKey, format!("the key has {length} characters"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_their_order_and_have_limits() {
        let info = Info::default();
        for key in ["b", "a", "c"] {
            info.set(key.as_bytes(), b"1").unwrap();
        }
        info.set(b"a", b"2").unwrap();
        info.delete(b"b").unwrap();
        assert!(info.delete(b"b").is_err());
        let copy = info.clone();
        info.delete(b"a").unwrap();
        assert_eq!(*copy.pairs(), [(b"a".to_vec(), b"2".to_vec()), (b"c".to_vec(), b"1".to_vec())]);
        assert_eq!(info.get(b"a").unwrap(), None);
        assert!(info.set(&[b'k'; 255], &[b'v'; 1023]).is_ok() && info.set(b"", b"").is_err());
        assert!(info.set(&[b'k'; 256], b"").is_err() && info.set(b"k", &[b'v'; 1024]).is_err());
    }
}
