//! Files of all kinds that are passed to [`Segment::attach`]. The result is a segment, or an error that says what is
//! wrong with the file.

use std::{
    fs::File,
    os::{fd::OwnedFd, unix::fs::FileExt},
};

use nix::{
    fcntl::{FcntlArg, SealFlag, fcntl},
    sys::memfd::{MFdFlags, memfd_create},
};
use proptest::prelude::*;

use super::*;
use crate::{
    segment::{FRONT, SegmentError},
    world::parts,
};

const SEALED: bool = true;

/// Makes a file in memory with these bytes where a segment would begin, and zeroes after them, up to `len` bytes from
/// there.
fn file(bytes: &[u8], len: u64, sealed: bool) -> OwnedFd {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let file = File::from(memfd_create("not onchip's", flags).unwrap());
    file.write_all_at(bytes, FRONT).unwrap();
    file.set_len(FRONT + len).unwrap();
    if sealed {
        let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW;
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals)).unwrap();
    }
    file.into()
}

/// Returns the first page of a real segment.
fn header() -> Vec<u8> {
    let segment = memfd(1 << 20);
    let mut bytes = vec![0; 4096];
    let fd = segment.fd().unwrap();
    assert_eq!(nix::sys::uio::pread(fd, &mut bytes, FRONT as i64).unwrap(), bytes.len());
    bytes
}

const SIZE: u64 = 2 << 20;
/// The size of the shortest file that could be a segment.
const LEAST: u64 = FRONT + 4096;

fn attach(fd: OwnedFd) -> SegmentError {
    match Segment::attach(fd, true, parts()) {
        Ok(_) => panic!("attached"),
        Err(error) => error,
    }
}

fn changed(at: usize, to: &[u8]) -> Vec<u8> {
    let mut bytes = header();
    bytes[at..at + to.len()].copy_from_slice(to);
    bytes
}

#[test]
fn a_copy_of_a_header_is_a_segment() {
    let fd = file(&header(), SIZE, SEALED);
    let segment = Segment::attach(fd, true, parts()).unwrap();
    assert_eq!(segment.len(), SIZE);
    // There is no world in the segment.
    let error = Context::enter(Arc::new(segment), 0, waiting()).unwrap_err();
    assert!(matches!(error, SegmentError::Unfinished), "{error}");
}

#[test]
fn what_is_too_small_is_said_to_be() {
    for len in [0, 1, 7, 8, 4095] {
        let error = attach(file(&header()[..len], len as u64, SEALED));
        let whole = FRONT + len as u64;
        assert!(
            matches!(error, SegmentError::TooSmall { size, least: LEAST } if size == whole),
            "{error}"
        );
    }
    let error = attach(File::open("/etc/passwd").unwrap().into());
    assert!(matches!(error, SegmentError::TooSmall { .. }), "{error}");
    let (pipe, _other) = nix::unistd::pipe().unwrap();
    let null = File::open("/dev/null").unwrap();
    let zero = File::options().read(true).write(true).open("/dev/zero").unwrap();
    let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
    for fd in [pipe, null.into(), zero.into(), socket.into()] {
        let error = attach(fd);
        assert!(matches!(error, SegmentError::TooSmall { size: 0, .. }), "{error}");
    }
}

#[test]
fn a_directory_is_no_segment() {
    let error = attach(File::open("/proc/self/").unwrap().into());
    assert!(matches!(error, SegmentError::TooSmall { .. }), "{error}");
    // This directory is as large as a segment's header.
    let folder = tempfile::tempdir().unwrap();
    for i in 0..500 {
        File::create(folder.path().join(format!("a file with a long name {i:0100}"))).unwrap();
    }
    let error = attach(File::open(folder.path()).unwrap().into());
    assert!(
        matches!(error, SegmentError::TooSmall { .. } | SegmentError::Os { call: "pread", .. }),
        "{error}"
    );
}

#[test]
fn other_files_are_no_segments() {
    let program = File::open("/proc/self/exe").unwrap();
    assert!(program.metadata().unwrap().len() > LEAST, "too short to be looked at");
    let error = attach(program.into());
    assert!(matches!(error, SegmentError::NotASegment { .. }), "{error}");
    // This file has a header at its beginning, and not behind the front.
    let fd = File::from(memfd_create("not onchip's", MFdFlags::MFD_ALLOW_SEALING).unwrap());
    fd.write_all_at(&header(), 0).unwrap();
    fd.set_len(FRONT + SIZE).unwrap();
    fcntl(&fd, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK)).unwrap();
    let error = attach(fd.into());
    assert!(error.to_string().contains("its mark is 0x0000000000000000"), "{error}");
    let error = attach(file(&[], SIZE, SEALED));
    assert!(matches!(error, SegmentError::NotASegment { found: 0, .. }), "{error}");
    // This mark comes from a machine of the other byte order.
    let mut mark = header()[..8].to_vec();
    mark.reverse();
    let error = attach(file(&changed(0, &mark), SIZE, SEALED));
    assert!(matches!(error, SegmentError::NotASegment { .. }), "{error}");
    // This file is open for writing only.
    let plain = tempfile::NamedTempFile::new().unwrap();
    plain.as_file().write_all_at(&header(), FRONT).unwrap();
    let error = attach(File::options().write(true).open(plain.path()).unwrap().into());
    assert!(matches!(error, SegmentError::Os { call: "pread", .. }), "{error}");
}

#[test]
fn a_file_that_can_shrink_is_refused() {
    let error = attach(file(&header(), SIZE, false));
    assert!(matches!(error, SegmentError::NotSealed), "{error}");
    let plain = tempfile::tempfile().unwrap();
    plain.write_all_at(&header(), FRONT).unwrap();
    plain.set_len(FRONT + SIZE).unwrap();
    let error = attach(plain.into());
    assert!(matches!(error, SegmentError::NotSealed), "{error}");
}

#[test]
fn another_version_layout_or_size_is_named() {
    let error = attach(file(&changed(8, &7u32.to_ne_bytes()), SIZE, SEALED));
    assert!(matches!(error, SegmentError::Version { found: 7, expected: 1 }), "{error}");
    let error = attach(file(&changed(16, &7u64.to_ne_bytes()), SIZE, SEALED));
    assert!(matches!(error, SegmentError::Layout { found: 7, .. }), "{error}");
    // This program has other structures.
    let fd = file(&header(), SIZE, SEALED);
    let error = Segment::attach(fd, true, parts() ^ 1).unwrap_err();
    assert!(matches!(error, SegmentError::Layout { .. }), "{error}");
    for len in [4096, SIZE - 1, SIZE + 1, 2 * SIZE] {
        let error = attach(file(&header(), len, SEALED));
        let SegmentError::Truncated { stated, found } = error else { panic!("{error}") };
        assert_eq!((stated, found), (SIZE, len));
    }
    let huge = changed(24, &(1u64 << 62).to_ne_bytes());
    let error = attach(file(&huge, 1 << 62, SEALED));
    assert!(matches!(error, SegmentError::Os { call: "mmap", .. }), "{error}");
}

#[test]
fn a_segment_can_be_mapped_for_reading_only() {
    let whole = memfd(1 << 20);
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&whole.fd().unwrap()));
    let open = || OwnedFd::from(File::open(&path).unwrap());
    let error = attach(open());
    assert!(matches!(error, SegmentError::Os { call: "mmap", .. }), "{error}");
    assert_eq!(Segment::attach(open(), false, parts()).unwrap().len(), whole.len());
}

#[test]
fn nothing_stays_mapped_after_a_refusal() {
    for i in 0..500 {
        let bytes = changed(8, &(i + 2u32).to_ne_bytes());
        attach(file(&bytes, SIZE + u64::from(i), SEALED));
    }
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let left = maps.lines().filter(|line| line.contains("memfd:not onchip's")).count();
    // Some may belong to other tests that run at the same time.
    assert!(left < 50, "{left} of 500 are left");
}

/// The address of a segment and its place in the file are equal modulo the size of a huge page.
#[test]
fn segments_begin_where_huge_pages_can() {
    let segments: Vec<_> = (0..20).map(|_| memfd(1 << 20)).collect();
    for segment in &segments {
        let fd = segment.fd().unwrap().try_clone_to_owned().unwrap();
        let again = Segment::attach(fd, false, parts()).unwrap();
        for segment in [segment, &again] {
            let begin = segment.range(0, 0, "its beginning").unwrap().addr().get() as u64;
            assert_eq!(begin % FRONT, 0);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_are_no_segment(
        bytes in prop::collection::vec(any::<u8>(), 0..5000),
        len in 0u64..100_000,
        sealed in any::<bool>(),
        marked in any::<bool>(),
    ) {
        let mut bytes = bytes;
        if marked {
            let mark = &header()[..8];
            bytes.splice(..bytes.len().min(8), mark.iter().copied());
        }
        let len = len.max(bytes.len() as u64);
        let error = attach(file(&bytes, len, sealed));
        let right = match error {
            SegmentError::TooSmall { size, .. } => size == FRONT + len && len < 4096,
            SegmentError::NotASegment { .. } => !marked,
            SegmentError::NotSealed => marked && !sealed,
            SegmentError::Version { found, .. } => marked && sealed && found != 1,
            _ => false,
        };
        prop_assert!(right, "{}", error);
    }

    /// A header with the right version, layout and size is accepted, but its other words are not trusted.
    #[test]
    fn a_world_of_random_words_is_refused_or_harmless(
        words in prop::collection::vec((0usize..512, any::<u64>()), 1..40),
        rank in 0u32..5,
    ) {
        let mut bytes = header();
        for (at, word) in words {
            if at >= 4 {
                bytes[8 * at..8 * at + 8].copy_from_slice(&word.to_ne_bytes());
            }
        }
        let segment = Segment::attach(file(&bytes, SIZE, SEALED), true, parts()).unwrap();
        if let Ok(context) = Context::enter(Arc::new(segment), rank, waiting()) {
            let _ = context.rank(rank);
        }
    }
}
