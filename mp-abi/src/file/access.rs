//! Reading and writing.

use std::{fs, io::ErrorKind, os::unix::fs::FileExt};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, fcntl},
    libc,
};

use super::{definition::File, errno::failed, view::Runs};
use crate::{
    completed::Completed,
    datatype::{TypeRef, data::Data},
    error::{Class, Error},
    types::Handle,
};

type Result<T> = std::result::Result<T, Error>;

/// Whether data is read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Read,
    Write,
}

/// Where data begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    At(i64),
    /// At this rank's pointer.
    Own,
    /// At the shared pointer, in the order in which ranks call.
    Shared,
    /// At the shared pointer, in the order of ranks.
    Ordered,
}

/// Gaps up to this length are read with what is around them, because a call of the system costs as much.
const GAP: u64 = 4096;
/// The most that is read so in one call.
const WINDOW: u64 = 1 << 18;

impl File {
    /// Returns the bytes that elements have in the file, and in how many units of positions these are.
    ///
    /// # Safety
    /// The handle is that of the elements' type.
    unsafe fn measure(
        &self,
        way: Way,
        start: Start,
        data: Data<'_>,
        datatype: Handle,
    ) -> Result<(usize, u64)> {
        match way {
            Way::Read => self.check_readable()?,
            Way::Write => self.check_writable()?,
        }
        if matches!(start, Start::At(_) | Start::Own) {
            self.check_random()?;
        }
        let view = self.view();
        let bytes = match view.representation.is_same() {
            true => data.bytes(),
            false => {
                // SAFETY: the caller says so.
                let size = view.representation.size(&unsafe { TypeRef::keep(datatype)? })?;
                usize::try_from(size).unwrap_or(usize::MAX).saturating_mul(data.count())
            }
        };
        let (length, unit) = (bytes as u64, view.unit as u64);
        if length % unit != 0 {
            let text = format!("{length} bytes are no whole number of elements of {unit} bytes");
            return Err(Error::new(Class::Io, text));
        }
        Ok((bytes, length / unit))
    }

    /// Reads or writes elements.
    ///
    /// # Safety
    /// The handle is that of the elements' type. If the elements are read, they may be written to.
    pub unsafe fn access(
        &self,
        way: Way,
        start: Start,
        data: Result<Data<'_>>,
        datatype: Handle,
    ) -> Result<Completed> {
        // SAFETY: the caller says so.
        let measured =
            data.and_then(|data| Ok((data, unsafe { self.measure(way, start, data, datatype)? })));
        let length = measured.as_ref().map_or(0, |&(_, (_, length))| length);
        let position = match start {
            // All ranks take part, even if this one has nothing to read or write.
            Start::Ordered => {
                self.together.share_out(length, |all| self.pointer().fetch_add(all))? as i64
            }
            Start::Shared => self.pointer().fetch_add(length) as i64,
            Start::Own => self.position(),
            Start::At(offset) => offset,
        };
        let (data, (bytes, _)) = measured?;
        if position < 0 {
            return Err(Error::new(Class::Arg, format!("the offset is negative: {position}")));
        }
        let view = self.view();
        let runs = view.runs(position, bytes)?;
        let _locked = self.lock(way, &runs)?;
        let representation = &view.representation;
        // SAFETY: in this and the other blocks: the caller says so of the handle.
        let (moved, native) = match (way, representation.is_same()) {
            (Way::Write, true) => (self.write(&data.packed(), runs)?, bytes),
            (Way::Write, false) => {
                // SAFETY: see above.
                let encoded = unsafe { representation.encode(data, datatype)? };
                (self.write(&encoded, runs)?, data.bytes())
            }
            (Way::Read, true) => {
                // SAFETY: the elements may be written to, and nothing else uses them during the call.
                let read = match unsafe { data.plain_mut() } {
                    Some(plain) => self.read(plain, runs)?,
                    None => {
                        let mut copy = vec![0; bytes];
                        let read = self.read(&mut copy, runs)?;
                        data.unpack(&copy[..read]);
                        read
                    }
                };
                (read, read)
            }
            (Way::Read, false) => {
                let mut encoded = vec![0; bytes];
                let read = self.read(&mut encoded, runs)?;
                // SAFETY: see above; the elements may be written to.
                let native =
                    unsafe { representation.decode(&mut encoded[..read], data, datatype)? };
                (read, native)
            }
        };
        if start == Start::Own {
            self.position.set(position + moved as i64 / view.unit);
        }
        Ok(Completed { bytes: native, ..Completed::EMPTY })
    }

    /// Writes all bytes to the file. Returns their number.
    fn write(&self, mut bytes: &[u8], runs: Runs<'_>) -> Result<usize> {
        let all = bytes.len();
        self.is_written.set(self.is_written.get() || all > 0);
        for run in runs {
            let (now, later) = bytes.split_at(run.length);
            self.file.write_all_at(now, run.offset).map_err(|error| {
                let path = self.path.display();
                failed(&format!("writing {} bytes to {path} at {}", run.length, run.offset), &error)
            })?;
            bytes = later;
        }
        Ok(all)
    }

    /// Reads bytes until the end of the file. Returns their number.
    fn read(&self, to: &mut [u8], runs: Runs<'_>) -> Result<usize> {
        let (mut done, mut runs, mut window) = (0, runs.peekable(), Vec::new());
        while let Some(first) = runs.next() {
            // Runs that are near each other are read with what is between them.
            let (mut near, mut end) = (vec![first], first.end());
            while let Some(next) = runs.next_if(|next| {
                (end..=end + GAP).contains(&next.offset) && next.end() - first.offset <= WINDOW
            }) {
                end = next.end();
                near.push(next);
            }
            if near.len() == 1 {
                let read = self.read_run(&mut to[done..done + first.length], first.offset)?;
                done += read;
                if read < first.length {
                    break;
                }
                continue;
            }
            window.resize((end - first.offset) as usize, 0);
            let there = self.read_run(&mut window, first.offset)?;
            for run in &near {
                let from = (run.offset - first.offset) as usize;
                let until = (from + run.length).min(there);
                if from < until {
                    to[done..done + until - from].copy_from_slice(&window[from..until]);
                    done += until - from;
                }
            }
            if there < window.len() {
                break;
            }
        }
        Ok(done)
    }

    /// Reads bytes that follow each other, until the end of the file. Returns their number.
    fn read_run(&self, to: &mut [u8], offset: u64) -> Result<usize> {
        let mut done = 0;
        while done < to.len() {
            match self.file.read_at(&mut to[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    let (path, length) = (self.path.display(), to.len());
                    let what = format!("reading {length} bytes from {path} at {offset}");
                    return Err(failed(&what, &error));
                }
            }
        }
        Ok(done)
    }

    /// In atomic mode, keeps other ranks from accessing the same part of the file until the result is dropped. The
    /// system lets go of the locks of a rank that dies.
    fn lock(&self, way: Way, runs: &Runs<'_>) -> Result<Option<Locked<'_>>> {
        let Some((first, end)) = runs.span().filter(|_| self.is_atomic.get()) else {
            return Ok(None);
        };
        let kind = if way == Way::Read { libc::F_RDLCK } else { libc::F_WRLCK };
        let range = libc::flock {
            l_type: kind as _,
            l_whence: libc::SEEK_SET as _,
            l_start: first,
            l_len: end - first,
            l_pid: 0,
        };
        loop {
            match fcntl(&self.file, FcntlArg::F_OFD_SETLKW(&range)) {
                Ok(_) => return Ok(Some(Locked { file: &self.file, range })),
                Err(Errno::EINTR) => {}
                Err(errno) => {
                    let what = format!("locking {}", self.path.display());
                    return Err(failed(&what, &errno.into()));
                }
            }
        }
    }
}

/// A part of a file that is locked until this is dropped.
struct Locked<'a> {
    file: &'a fs::File,
    range: libc::flock,
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let free = libc::flock { l_type: libc::F_UNLCK as _, ..self.range };
        // Unlocking what was locked does not fail.
        let _ = fcntl(self.file, FcntlArg::F_OFD_SETLK(&free));
    }
}
