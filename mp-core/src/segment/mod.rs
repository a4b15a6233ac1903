//! The memory that all ranks of a world share.
//!
//! A segment is one range of memory. Every process of the world maps it at an address of its own, so everything in it
//! is named by [`Offset`]s. The memory is a memfd, which has no name in any file system, so that a crash leaves nothing
//! behind. The size of the file is sealed, the file is sparse, and its pages are committed before they are handed out.
//! If all ranks are threads of one process, plain memory is used instead ([`Segment::on_heap`]).
//!
//! By default, a segment is as large as the machine's memory, or as the limits of the process allow. The program can
//! ask for another size.
//!
//! ```text
//! in the file   in the segment
//!               (-FRONT)         nothing: a mapping may begin anywhere in it (see `map`)
//! FRONT         0                header: mark, version, layout, size; heap control; roots
//!               HEADER           heap: blocks one after another (heap.rs)
//! ```

mod error;
mod heap;
mod lock;
mod memory;
mod names;
mod offset;
mod sizes;

use std::{
    alloc::{Layout, alloc_zeroed, dealloc},
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
    ptr::NonNull,
    time::{Duration, Instant},
};

use memmap2::{Advice, MmapOptions, MmapRaw};
use nix::{
    errno::Errno,
    fcntl::{FallocateFlags, FcntlArg, SealFlag, fallocate, fcntl},
    sys::{
        memfd::{MFdFlags, memfd_create},
        stat::fstat,
    },
    unistd::ftruncate,
};

pub use error::SegmentError;
#[cfg(test)]
pub(crate) use heap::BlockInfo;
pub(crate) use heap::{BlockKey, BlockKind, Heap, HeapControl, LockedHeap};
pub(crate) use lock::RobustLock;
pub(crate) use memory::default_size;
pub(crate) use offset::Offset;
pub(crate) use sizes::{FRONT, PAGE};
use sizes::{HUGE, LARGE};

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// "ONCHIP" between two other bytes. The number also shows the byte order: a segment of the other byte order does not
/// match.
const MAGIC: u64 = u64::from_be_bytes(*b"\x7fONCHIP\x01");
/// Changes with every change of the segment's layout.
const VERSION: u32 = 1;
/// A structure that may lie in a segment.
///
/// # Safety
/// The type consists of atomics only (any bit pattern is valid, other processes may write at any
/// time) and has a fixed layout (`repr(C)`).
pub(crate) unsafe trait Shared {}

/// The first bytes of a segment. A process that attaches the segment checks the fields in their order, and uses later
/// ones only if the earlier ones are right.
#[repr(C)]
struct Header {
    magic: AtomicU64,
    version: AtomicU32,
    membarrier: AtomicU32,
    layout: AtomicU64,
    size: AtomicU64,
    heap: HeapControl,
    roots: [AtomicU64; Root::COUNT],
}

// SAFETY: the type consists of atomics only, and is `repr(C)`.
unsafe impl Shared for Header {}

/// The structures whose places are in the header, so that a process finds them without other information.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Root {
    /// The world's control block. The header has its offset.
    World,
    /// The information that a launcher gives its ranks. The header has its key.
    Briefing,
}

impl Root {
    const COUNT: usize = 4;
}

const HEADER: u64 = (size_of::<Header>() as u64).next_multiple_of(PAGE);

#[derive(Debug)]
enum Backing {
    Memfd {
        file: OwnedFd,
        /// The mapping that `base` points into.
        map: MmapRaw,
    },
    Heap(Layout),
}

/// One mapping of a world's shared memory. See the [module](self).
#[derive(Debug)]
pub(crate) struct Segment {
    base: NonNull<u8>,
    len: usize,
    backing: Backing,
    /// The end of the part that this process hands out, if that part is smaller than the segment.
    end: AtomicU64,
    /// The number of bytes that may be committed before this process checks the machine's memory again.
    advance: AtomicU64,
    /// The time that huge pages may still cost this process beyond small pages.
    patience_us: AtomicU64,
    /// The folder below which `/proc` and `/sys` report the available memory. Tests use others.
    machine: &'static Path,
}

// SAFETY: the mapping is plain memory that stays until the segment is dropped. All that several threads access in it is
// atomic, or is handed over by Release and Acquire.
unsafe impl Send for Segment {}
// SAFETY: as for `Send`. The other fields are atomics or never change.
unsafe impl Sync for Segment {}

impl Segment {
    /// Makes a new segment of at least `size` bytes in a memfd. `parts` is the fingerprint of the structures that will
    /// lie in it.
    pub(crate) fn in_memfd(size: u64, membarrier: bool, parts: u64) -> Result<Self, SegmentError> {
        let size = whole_size(size, HUGE as u64)?;
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
        let file = memfd_create(MEMFD_NAME, flags).map_err(SegmentError::os("memfd_create"))?;
        if let Some(allowed) = memory::file_size_limit().filter(|&allowed| FRONT + size > allowed) {
            return Err(SegmentError::Limit { asked: size, allowed, limit: FILE_SIZE });
        }
        ftruncate(&file, (FRONT + size) as i64).map_err(SegmentError::os("ftruncate"))?;
        let seals = SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_SEAL;
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals))
            .map_err(SegmentError::os("fcntl(F_ADD_SEALS)"))?;
        let segment = Self::mapped(file, size, true)?;
        segment.format(membarrier, parts)?;
        Ok(segment)
    }

    /// Maps the segment of `len` bytes in `file`, which is long enough.
    fn mapped(file: OwnedFd, len: u64, writable: bool) -> Result<Self, SegmentError> {
        let (map, begin) = map(&file, len as usize, writable)?;
        // SAFETY: the mapping is `FRONT` bytes longer than the segment, and `begin` is at most `FRONT`.
        let base = unsafe { map.as_mut_ptr().add(begin) };
        let segment = Self {
            base: NonNull::new(base).ok_or(SegmentError::os("mmap")(Errno::EFAULT))?,
            len: len as usize,
            backing: Backing::Memfd { file, map },
            end: AtomicU64::new(u64::MAX),
            advance: AtomicU64::new(0),
            patience_us: AtomicU64::new(PATIENCE.as_micros() as u64),
            machine: Path::new("/"),
        };
        segment.dump(false);
        Ok(segment)
    }

    /// Makes a new segment in this process's own memory, for ranks that are threads.
    pub(crate) fn on_heap(size: u64, membarrier: bool, parts: u64) -> Result<Self, SegmentError> {
        let size = whole_size(size, PAGE)?;
        let full = || SegmentError::OutOfMemory {
            asked: size,
            available: memory::available().map_or(0, |(bytes, _)| bytes),
            limit: "the allocator",
        };
        let layout = Layout::from_size_align(size as usize, PAGE as usize).map_err(|_| full())?;
        // SAFETY: the layout's size is not 0.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(|| {
            let limit = memory::address_space_limit();
            limit.map_or_else(full, |allowed| SegmentError::Limit {
                asked: size,
                allowed,
                limit: ADDRESS_SPACE,
            })
        })?;
        let segment = Self {
            base,
            len: size as usize,
            backing: Backing::Heap(layout),
            end: AtomicU64::new(u64::MAX),
            advance: AtomicU64::new(0),
            patience_us: AtomicU64::new(PATIENCE.as_micros() as u64),
            machine: Path::new("/"),
        };
        segment.format(membarrier, parts)?;
        Ok(segment)
    }

    /// Maps the segment behind `fd`, after checking that this program can use it.
    pub(crate) fn attach(file: OwnedFd, writable: bool, parts: u64) -> Result<Self, SegmentError> {
        let whole = fstat(&file).map_err(SegmentError::os("fstat"))?.st_size.max(0) as u64;
        let least = FRONT + HEADER;
        if whole < least {
            return Err(SegmentError::TooSmall { size: whole, least });
        }
        // As long as others may shrink the file, it is not accessed through a mapping. Only the mark is read, by a
        // system call.
        let mut mark = [0; 8];
        nix::sys::uio::pread(&file, &mut mark, FRONT as i64).map_err(SegmentError::os("pread"))?;
        let found = u64::from_ne_bytes(mark);
        if found != MAGIC {
            return Err(SegmentError::NotASegment { found, expected: MAGIC });
        }
        let seals = fcntl(&file, FcntlArg::F_GET_SEALS)
            .map(SealFlag::from_bits_truncate)
            .unwrap_or(SealFlag::empty());
        if !seals.contains(SealFlag::F_SEAL_SHRINK) {
            return Err(SegmentError::NotSealed);
        }
        let size = whole - FRONT;
        let segment = Self::mapped(file, size, writable)?;
        let header = segment.header();
        let version = header.version.load(Ordering::Relaxed);
        if version != VERSION {
            return Err(SegmentError::Version { found: version, expected: VERSION });
        }
        let layout = header.layout.load(Ordering::Relaxed);
        let expected = layout_fingerprint(parts);
        if layout != expected {
            return Err(SegmentError::Layout { found: layout, expected });
        }
        let stated = header.size.load(Ordering::Relaxed);
        if stated != size {
            return Err(SegmentError::Truncated { stated, found: size });
        }
        Ok(segment)
    }

    fn format(&self, membarrier: bool, parts: u64) -> Result<(), SegmentError> {
        self.commit(0, HEADER, HEADER)?;
        let header = self.header();
        header.version.store(VERSION, Ordering::Relaxed);
        header.membarrier.store(membarrier.into(), Ordering::Relaxed);
        header.layout.store(layout_fingerprint(parts), Ordering::Relaxed);
        header.size.store(self.len as u64, Ordering::Relaxed);
        header.heap.format();
        // The mark is written last, because a segment without it counts as not finished.
        header.magic.store(MAGIC, Ordering::Relaxed);
        Ok(())
    }

    fn header(&self) -> &Header {
        // SAFETY: every segment is at least as long as a header and aligned to a page, and a header consists of
        // atomics.
        unsafe { self.base.cast::<Header>().as_ref() }
    }

    /// Returns whether the world uses `membarrier` (see `wait`).
    pub(crate) fn uses_membarrier(&self) -> bool {
        self.header().membarrier.load(Ordering::Relaxed) != 0
    }

    /// Returns the descriptor to hand to other processes; `None` for a segment on the heap.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.backing {
            Backing::Memfd { file, .. } => Some(file.as_fd()),
            Backing::Heap(_) => None,
        }
    }

    /// Sets whether core dumps of this process include the segment. They do not by default, because if all ranks crash
    /// together, each of them would write out the whole segment.
    pub(crate) fn dump(&self, dump: bool) {
        if let Backing::Memfd { map, .. } = &self.backing {
            // If the system refuses, dumps are only longer or shorter.
            let _ = map.advise(if dump { Advice::DoDump } else { Advice::DontDump });
        }
    }

    /// Returns the size in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.len as u64
    }

    /// Returns the end of the part that this process hands out.
    pub(crate) fn end(&self) -> u64 {
        self.end.load(Ordering::Relaxed).min(self.len())
    }

    /// Limits the part that this process hands out to the size of a segment for which `asked` bytes were asked. With
    /// `None`, there is no limit but the segment's size.
    ///
    /// # Errors
    /// When the segment is smaller than that.
    pub(crate) fn confine(&self, asked: Option<u64>) -> Result<(), SegmentError> {
        let end = asked.map_or(Ok(self.len()), |asked| whole_size(asked, HUGE as u64))?;
        if end > self.len() {
            return Err(SegmentError::Smaller { asked: end, size: self.len() });
        }
        self.end.store(end, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the number of bytes that the system has allocated for the segment so far.
    pub(crate) fn resident(&self) -> u64 {
        match &self.backing {
            // `st_blocks` is in units of 512 bytes, whatever the file's block size is (stat(2)).
            Backing::Memfd { file, .. } => {
                fstat(file).map_or(0, |file| 512 * file.st_blocks.max(0) as u64)
            }
            Backing::Heap(_) => self.len(),
        }
    }

    pub(crate) fn heap(&self) -> Heap<'_> {
        Heap::new(self, &self.header().heap)
    }

    pub(crate) fn root(&self, root: Root) -> Option<u64> {
        // Acquire: pairs with the Release in `set_root`.
        Some(self.header().roots[root as usize].load(Ordering::Acquire)).filter(|&r| r != 0)
    }

    pub(crate) fn set_root(&self, root: Root, offset: u64) {
        // Release: pairs with the Acquire in `root`.
        self.header().roots[root as usize].store(offset, Ordering::Release);
    }

    /// Returns the shared structure at `offset`, after checking that the place is in the segment and aligned.
    #[inline]
    pub(crate) fn at<T: Shared>(&self, offset: Offset<T>) -> Result<&T, SegmentError> {
        let place = self.range(offset.bytes(), size_of::<T>() as u64, type_name::<T>())?;
        if !place.cast::<T>().is_aligned() {
            return Err(self.corrupt(type_name::<T>(), offset.bytes(), size_of::<T>() as u64));
        }
        // SAFETY: the place is in the segment and aligned. `Shared` types consist of atomics, so any bits are valid,
        // even while others write them.
        Ok(unsafe { place.cast::<T>().as_ref() })
    }

    /// Returns the address of the `len` bytes at `offset`, after checking that they lie in the segment.
    #[inline]
    pub(crate) fn range(
        &self,
        offset: u64,
        len: u64,
        what: &'static str,
    ) -> Result<NonNull<u8>, SegmentError> {
        match offset.checked_add(len) {
            Some(end) if end <= self.len as u64 => {
                // SAFETY: `offset` is at most `self.len`, so the result lies in the mapping or at its end.
                Ok(unsafe { self.base.add(offset as usize) })
            }
            _ => Err(self.corrupt(what, offset, len)),
        }
    }

    /// Returns the offset of `len` bytes at an address, if they lie in this process's mapping of the segment.
    #[inline]
    pub(crate) fn offset_of(&self, address: NonNull<u8>, len: usize) -> Option<u64> {
        let offset = address.addr().get().checked_sub(self.base.addr().get())?;
        let end = offset.checked_add(len)?;
        (end <= self.len).then_some(offset as u64)
    }

    pub(crate) fn corrupt(&self, what: &'static str, offset: u64, len: u64) -> SegmentError {
        SegmentError::Corrupt { what, offset, len, size: self.len as u64 }
    }

    /// Makes the pages of a range exist, so that accesses to them can't fail. Returns the end of the pages that exist,
    /// which may be further than the range. Only the first `own` bytes belong to the caller. Another rank may get the
    /// bytes behind them at any time.
    pub(crate) fn commit(&self, offset: u64, len: u64, own: u64) -> Result<u64, SegmentError> {
        let Backing::Memfd { file, .. } = &self.backing else { return Ok(offset + len) };
        // A large block gets all huge pages in which it lies, even those that it shares with its neighbours.
        let huge = HUGE as u64;
        let (start, end) = if len >= LARGE {
            let end = (offset + len).next_multiple_of(huge).min(self.len as u64);
            (offset / huge * huge, end)
        } else {
            (offset, offset + len)
        };
        let mut done = start;
        while done < end {
            let piece = self.look_at_memory(end - done).and_then(|most| {
                let piece = most.min(end - done);
                if len >= LARGE {
                    self.make_huge(file, done, done + piece);
                }
                let place = (FRONT + done) as i64;
                loop {
                    match fallocate(file, FallocateFlags::empty(), place, piece as i64) {
                        Err(Errno::EINTR) => {}
                        done => break done.map_err(SegmentError::os("fallocate"))?,
                    }
                }
                Ok(piece)
            });
            match piece {
                Ok(piece) => done += piece,
                Err(error) => {
                    // Gives back the committed pages that belong to the caller alone: neither the page with the header,
                    // nor pages of the neighbours.
                    let first = (offset + 1).next_multiple_of(PAGE);
                    let last = done.min((offset + own) / PAGE * PAGE);
                    if first < last {
                        self.punch(first, last - first);
                    }
                    return Err(error);
                }
            }
        }
        Ok(end)
    }

    /// Checks whether the machine has memory for `len` more bytes. Returns how many bytes, at least `len`, may be
    /// committed before the next check. The less memory is left, the smaller this number is, because all ranks check
    /// and commit at the same time.
    fn look_at_memory(&self, len: u64) -> Result<u64, SegmentError> {
        /// The largest number of bytes that may be committed at once, a multiple of a huge page.
        const PIECE: u64 = 64 << 20;
        /// The largest number of bytes that may be committed after a check without another check, because a check costs
        /// more than a page.
        const ADVANCE: u64 = 8 << 20;
        let advance = self.advance.load(Ordering::Relaxed);
        if len <= advance {
            self.advance.store(advance - len, Ordering::Relaxed);
            return Ok(len);
        }
        let Some((available, limit)) = memory::available_below(self.machine) else {
            return Ok(len);
        };
        if len > available {
            return Err(SegmentError::OutOfMemory { asked: len, available, limit });
        }
        self.advance.store(ADVANCE.min((available - len) / 32), Ordering::Relaxed);
        let huge = HUGE as u64;
        Ok((available / 8 / huge * huge).clamp(huge, PIECE))
    }

    /// Asks the system for huge pages, each of which replaces 512 small ones. If the system refuses, this changes
    /// nothing.
    ///
    /// `MADV_COLLAPSE` works even if the system-wide setting for shared memory is "never". It needs one small page of
    /// the huge page to begin with. If no others exist, there is nothing to copy, and the whole huge page is there in a
    /// tenth of the time that small pages take. But if the machine's memory is fragmented, the kernel first moves
    /// pages, and if a host has yet to provide the memory, a huge page takes as long as small ones. Memory that is used
    /// again and again repays that cost (a frame of 3 MB is filtered in two thirds of the time). A process may
    /// therefore spend [`PATIENCE`] on huge pages in all, and then uses small ones.
    fn make_huge(&self, file: &OwnedFd, start: u64, end: u64) {
        /// The number of bytes for which to ask at a time, between two looks at the clock.
        const STEP: usize = 16 << 20;
        /// The time in which 512 small pages are made and touched for the first time.
        const SMALL_PAGES: Duration = Duration::from_millis(1);
        for first in (start..end).step_by(STEP) {
            let left = self.patience_us.load(Ordering::Relaxed);
            if left == 0 {
                return;
            }
            let began = Instant::now();
            let step = (end - first).min(STEP as u64);
            let pieces = step / HUGE as u64;
            for piece in (first..first + step).step_by(HUGE) {
                let place = (FRONT + piece) as i64;
                if fallocate(file, FallocateFlags::empty(), place, PAGE as i64).is_err() {
                    return;
                }
            }
            // SAFETY: the range lies in this mapping, and the advice does not change the contents.
            let made =
                unsafe { madvise_collapse(self.base.add(first as usize).cast(), step as usize) };
            let spent = began.elapsed().saturating_sub(SMALL_PAGES * pieces as u32).as_micros();
            let left = if made.is_ok() { left.saturating_sub(spent as u64) } else { 0 };
            self.patience_us.store(left, Ordering::Relaxed);
        }
    }

    /// Sets the folder below which to look for the available memory.
    #[cfg(test)]
    pub(crate) fn look_at_machine(&mut self, root: &'static Path) {
        self.machine = root;
    }

    /// Gives the pages of a range back to the system. They then read as zero, and must be committed again before use.
    pub(crate) fn punch(&self, offset: u64, len: u64) {
        let Backing::Memfd { file, .. } = &self.backing else { return };
        let flags = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        // If the system refuses, the pages stay.
        let _ = fallocate(file, flags, (FRONT + offset) as i64, len as i64);
    }

    /// Returns whether pages of this segment can be given back to the system at all.
    pub(crate) fn can_punch(&self) -> bool {
        matches!(self.backing, Backing::Memfd { .. })
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        if let Backing::Heap(layout) = &self.backing {
            // SAFETY: `on_heap` allocated the memory with this layout, and nothing borrows it any more.
            unsafe { dealloc(self.base.as_ptr(), *layout) }
        }
    }
}

/// The time that huge pages may cost a process beyond small pages.
const PATIENCE: Duration = Duration::from_millis(200);

/// Returns the size of a new segment for which `asked` bytes were asked.
fn whole_size(asked: u64, unit: u64) -> Result<u64, SegmentError> {
    // Offsets in files are signed numbers.
    const MOST: u64 = i64::MAX as u64 - FRONT;
    let whole = asked.max(HEADER + 64 * PAGE).checked_next_multiple_of(unit);
    whole.filter(|&size| size <= MOST).ok_or(SegmentError::OutOfMemory {
        asked,
        available: MOST,
        limit: "the address space",
    })
}

const FILE_SIZE: &str = "the size of a file (ulimit -f)";
const ADDRESS_SPACE: &str = "address space (ulimit -v)";

/// The name of a world's memfd in /proc.
pub(crate) const MEMFD_NAME: &str = "onchip-world";

fn type_name<T>() -> &'static str {
    std::any::type_name::<T>()
}

/// Returns a number that distinguishes layouts with the same version number, because sizes differ between targets.
/// `parts` is the fingerprint of the structures of other modules.
fn layout_fingerprint(parts: u64) -> u64 {
    fingerprint([size_of::<Header>(), size_of::<usize>(), size_of::<heap::BlockHeader>()]) ^ parts
}

/// Returns a hash of sizes (FNV-1a).
pub(crate) fn fingerprint<const N: usize>(sizes: [usize; N]) -> u64 {
    sizes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &size| {
        (hash ^ size as u64).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Maps the segment of `len` bytes in `file`. Returns the mapping, and the place in it where the segment begins.
///
/// A part of a file can be a huge page only if its address and its place in the file are equal modulo the huge page's
/// size. The system chooses the address. So this first makes a mapping of `len + FRONT` bytes to learn an address. Then
/// it maps the file again, from the place in the FRONT that equals this address modulo the huge page's size, because a
/// mapping of the same length usually gets the same address again. If it does not, because other threads map memory at
/// the same time, this tries with the new address. If all attempts fail, small pages are used.
fn map(file: &OwnedFd, len: usize, writable: bool) -> Result<(MmapRaw, usize), SegmentError> {
    const TRIES: usize = 8;
    let refused = |source: io::Error| match memory::address_space_limit() {
        Some(allowed) if source.raw_os_error() == Some(Errno::ENOMEM as i32) => {
            SegmentError::Limit { asked: len as u64, allowed, limit: ADDRESS_SPACE }
        }
        _ => SegmentError::Os { call: "mmap", source },
    };
    let whole = len.checked_add(HUGE).ok_or_else(|| refused(io::ErrorKind::OutOfMemory.into()))?;
    let mut options = MmapOptions::new();
    options.len(whole);
    let (mut place, mut tries) = (0, 0);
    loop {
        options.offset(place as u64);
        let map = if writable { options.map_raw(file) } else { options.map_raw_read_only(file) };
        let map = map.map_err(refused)?;
        let wanted = map.as_ptr().addr() % HUGE;
        tries += 1;
        if wanted == place || tries == TRIES {
            return Ok((map, HUGE - place));
        }
        place = wanted;
    }
}

/// `madvise(MADV_COLLAPSE)` (Linux 6.1), which nix does not name yet.
///
/// # Safety
/// The range is mapped.
unsafe fn madvise_collapse(start: NonNull<std::ffi::c_void>, len: usize) -> nix::Result<()> {
    const MADV_COLLAPSE: i32 = 25;
    // SAFETY: the caller guarantees that what the message borrows lives until the request is done.
    nix::errno::Errno::result(unsafe { nix::libc::madvise(start.as_ptr(), len, MADV_COLLAPSE) })
        .map(drop)
}
