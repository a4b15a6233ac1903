//! The part of the launcher's file where a rank writes its calls.
//!
//! At the beginning of a part are numbers: [`MARK`], how many calls have begun, and when the rank came to its end, or 0.
//! Then there are slots for calls. In each are the times at which the call began and ended, or 0, and a text that ends with
//! a byte of zero. If there are more calls than slots, those in the first half of the slots stay, and the others keep the
//! last ones. `mprun/src/record.rs` reads all this when the rank has ended.

use std::{
    fs::File,
    io,
    path::Path,
    sync::atomic::{Ordering::Release, compiler_fence},
};

use memmap2::{MmapMut, MmapOptions};

/// What a part begins with.
const MARK: u64 = 0x6f6e_6368_6970_0001;
/// Where the slots begin.
const HEAD: usize = 4096;
const SLOTS: u64 = 1 << 16;
/// The bytes of a slot.
const SLOT: usize = 320;
/// The bytes of a part.
const PART: usize = HEAD + SLOTS as usize * SLOT;

/// The most bytes of a call's text.
pub(super) const TEXT: usize = SLOT - 2 * size_of::<u64>() - 1;

pub(super) struct Place {
    map: MmapMut,
    /// How many calls have begun.
    count: u64,
}

impl Place {
    /// Begins the part of a rank.
    pub fn of(path: &Path, rank: usize) -> io::Result<Self> {
        let file = File::options().read(true).write(true).open(path)?;
        // Ranks extend the file one after the other, so that none makes it shorter again.
        file.lock()?;
        let end = (rank + 1) * PART;
        if file.metadata()?.len() < end as u64 {
            file.set_len(end as u64)?;
        }
        file.unlock()?;
        // SAFETY: only this process writes to this part. The launcher reads it after this process has ended.
        let map =
            unsafe { MmapOptions::new().offset((rank * PART) as u64).len(PART).map_mut(&file)? };
        let mut place = Self { map, count: 0 };
        place.write(0, MARK);
        Ok(place)
    }

    /// Adds a call that begins, and returns its number. The text has at most [`TEXT`] bytes.
    pub fn add(&mut self, start: u64, text: &str) -> u64 {
        let number = self.count;
        self.count += 1;
        let at = slot(number);
        // If the process is killed in between, the slot is empty.
        self.write(at, 0);
        self.write(at + 8, 0);
        self.write_text(at, text);
        self.write(at, start);
        self.write(8, self.count);
        number
    }

    /// Gives a call another text.
    pub fn change(&mut self, number: u64, text: &str) {
        if self.has(number) {
            self.write_text(slot(number), text);
        }
    }

    /// Says when a call has ended.
    pub fn end(&mut self, number: u64, end: u64) {
        if self.has(number) {
            self.write(slot(number) + 8, end);
        }
    }

    /// Says when the rank has come to its end.
    pub fn close(&mut self, at: u64) {
        self.write(16, at);
    }

    /// Returns whether no other call has come into the slot of this one.
    fn has(&self, number: u64) -> bool {
        number < SLOTS / 2 || self.count - number <= SLOTS / 2
    }

    /// Writes a number, after all that was written before.
    fn write(&mut self, at: usize, number: u64) {
        compiler_fence(Release);
        self.map[at..at + 8].copy_from_slice(&number.to_ne_bytes());
        compiler_fence(Release);
    }

    fn write_text(&mut self, at: usize, text: &str) {
        let to = &mut self.map[at + 16..at + SLOT];
        let length = text.len().min(TEXT);
        to[..length].copy_from_slice(&text.as_bytes()[..length]);
        to[length] = 0;
    }
}

/// Returns where the slot of a call begins.
fn slot(number: u64) -> usize {
    let half = SLOTS / 2;
    let place = if number < half { number } else { half + number % half };
    HEAD + place as usize * SLOT
}
