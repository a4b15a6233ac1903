//! The worlds of this machine. Every process of a world holds the world's memory open, which `/proc` shows.
//!
//! A process looks at a world through `/proc/PID/fd`, and not over a socket. So the kernel checks the user, and the
//! world needs no thread that answers.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    os::{fd::OwnedFd, unix::fs::MetadataExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use super::facts::WorldReport;
use crate::{
    context::Context,
    error::{Error, ErrorKind, Result},
    segment::{MEMFD_NAME, Segment, SegmentError},
    wait::{Asymmetry, LineWait, WaitPolicy, Waiting},
};

/// A world that was found.
#[derive(Debug)]
pub struct Found {
    /// The processes that hold the world open, in ascending order.
    pub pids: Vec<u32>,
    /// The world's report, or the reason why there is none, for instance because the world is of another version of the
    /// library.
    pub report: Result<WorldReport>,
}

/// Identifies a file.
type Identity = (u64, u64);

/// Returns the worlds of this process's user, the oldest first. A world that is still being made is not included, and
/// worlds on the heap ([`World::threads_on_heap`](crate::World::threads_on_heap)) can't be seen.
///
/// # Errors
/// [`Os`](crate::ErrorKind::Os) when /proc can't be read.
pub fn worlds() -> Result<Vec<Found>> {
    let me = nix::unistd::geteuid().as_raw();
    find(
        |_| true,
        |pid| fs::metadata(format!("/proc/{pid}")).is_ok_and(|process| process.uid() == me),
    )
}

/// Returns the worlds that a process is part of, or has launched.
///
/// # Errors
/// [`Os`](crate::ErrorKind::Os) when there is no such process, or when it belongs to another user.
pub fn worlds_of(pid: u32) -> Result<Vec<Found>> {
    let its: BTreeSet<Identity> = segments(pid)
        .map_err(|source| Error::from(ErrorKind::Os { call: "looking at the process", source }))?
        .into_iter()
        .map(|(identity, _)| identity)
        .collect();
    if its.is_empty() {
        return Ok(Vec::new());
    }
    find(|identity| its.contains(identity), |_| true)
}

/// Finds the worlds whose segments `segment` accepts, among those that are open in processes that `process` accepts.
fn find(segment: impl Fn(&Identity) -> bool, process: impl Fn(u32) -> bool) -> Result<Vec<Found>> {
    let mut holders: BTreeMap<Identity, (Vec<PathBuf>, BTreeSet<u32>)> = BTreeMap::new();
    let no_proc = |source| Error::from(ErrorKind::Os { call: "reading /proc", source });
    for entry in fs::read_dir("/proc").map_err(no_proc)?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        if !process(pid) {
            continue;
        }
        // A process may have ended meanwhile, and some processes of the same user can't be looked into.
        for (identity, path) in segments(pid).unwrap_or_default() {
            if segment(&identity) {
                let (paths, pids) = holders.entry(identity).or_default();
                paths.push(path);
                pids.insert(pid);
            }
        }
    }
    let mut found: Vec<Found> = holders
        .into_values()
        .filter_map(|(paths, pids)| {
            // The descriptors of a process that has ended meanwhile can't be opened any more.
            let file = paths.iter().find_map(|path| fs::File::open(path).ok())?;
            let report = report(file.into());
            if report.as_ref().is_err_and(is_unfinished) {
                return None;
            }
            Some(Found { pids: pids.into_iter().collect(), report })
        })
        .collect();
    found.sort_by_key(|found| std::cmp::Reverse(found.report.as_ref().map(|r| r.age).ok()));
    Ok(found)
}

/// Returns the segments that a process holds open. Leaves out those that are open for reading only, because a process
/// that holds a segment in this way is not part of the world, but only looks at it, as this process does.
fn segments(pid: u32) -> io::Result<Vec<(Identity, PathBuf)>> {
    let mark = format!("/memfd:{MEMFD_NAME}");
    let is_segment = |path: &Path| {
        fs::read_link(path).is_ok_and(|target| target.to_string_lossy().starts_with(&mark))
            && fs::symlink_metadata(path).is_ok_and(|link| link.mode() & 0o200 != 0)
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fd"))?.flatten() {
        let path = entry.path();
        if is_segment(&path)
            && let Ok(file) = fs::metadata(&path)
        {
            found.push(((file.dev(), file.ino()), path));
        }
    }
    Ok(found)
}

/// Returns whether the world is still being made: its file has no length, no mark or no world yet.
fn is_unfinished(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Segment(
            SegmentError::TooSmall { size: 0, .. }
                | SegmentError::NotASegment { found: 0, .. }
                | SegmentError::Unfinished
        )
    )
}

fn report(fd: OwnedFd) -> Result<WorldReport> {
    Ok(super::of(&attach(fd)?)?)
}

/// Attaches to the world in a segment, for reading only.
fn attach(fd: OwnedFd) -> Result<Context> {
    let segment = Segment::attach(fd, false, crate::world::parts())?;
    // A reader never waits.
    let waiting = Waiting {
        policy: WaitPolicy::Park,
        asymmetry: Asymmetry::Ordinary,
        line_wait: LineWait::detect(),
        spare: 0,
    };
    Ok(Context::enter(Arc::new(segment), 0, waiting)?)
}

#[cfg(all(test, not(miri), not(loom)))]
mod tests {
    use std::{os::unix::fs::FileExt, time::Duration};

    use nix::{
        fcntl::{FcntlArg, SealFlag, fcntl},
        sys::memfd::{MFdFlags, memfd_create},
    };
    use proptest::prelude::*;

    use super::*;
    use crate::{
        Channel, ErrorKind, World,
        context::RankState,
        error::Error,
        segment::{BlockKind, FRONT},
        wait::{Doing, Operation},
        world::{Rank, report::ChannelReport},
    };

    /// Makes a world of three ranks, with channels, in which every rank waits.
    fn blocked_world() -> (Context, Vec<Rank>) {
        let world = World::threads(3).segment_size(1 << 20);
        let context = world.create(WaitPolicy::Park, 1).unwrap();
        let mut ranks = Vec::new();
        for me in 0..3 {
            context.rank(me).unwrap().set_state(RankState::Running);
            ranks.push(Rank::new(Arc::new(context.as_rank(me))));
        }
        (context, ranks)
    }

    /// Makes a file of the segment's length with its first bytes.
    fn copy(context: &Context, bytes: &[u8]) -> fs::File {
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
        let file = fs::File::from(memfd_create(MEMFD_NAME, flags).unwrap());
        file.set_len(FRONT + context.segment.len()).unwrap();
        file.write_all_at(bytes, FRONT).unwrap();
        fcntl(&file, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK)).unwrap();
        file
    }

    fn content(context: &Context) -> Vec<u8> {
        let file = fs::File::from(context.segment.fd().unwrap().try_clone_to_owned().unwrap());
        // This is more than all that these tests store in a segment.
        let mut bytes = vec![0; 128 << 10];
        file.read_exact_at(&mut bytes, FRONT).unwrap();
        bytes
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_corrupt_world_is_reported_or_refused(
            garbage in prop::collection::vec((0usize..(128 << 10) / 8, prop_oneof![
                any::<u64>(), 0u64..100, Just(u64::MAX), (0u64..1024).prop_map(|n| n * 128)
            ]), 0..400)
        ) {
            let (context, ranks) = blocked_world();
            let one = Channel::degree(1);
            let ends: Vec<_> = (0..3)
                .map(|me| ranks[me].receiver::<u64>("next", (me + 1) % 3, one).unwrap())
                .collect();
            for (me, end) in ends.iter().enumerate() {
                let channel = end.descriptor();
                let doing = Doing { operation: Operation::Select, channel };
                context.rank(me as u32).unwrap().record.begin(doing, &[channel, 8, 0], &[], "", 1, None);
            }
            let mut bytes = content(&context);
            for (word, value) in garbage {
                // The mark, the version, the layout and the size alone decide whether anything else is read.
                if word >= 4 {
                    bytes[8 * word..][..8].copy_from_slice(&value.to_ne_bytes());
                }
            }
            let file = copy(&context, &bytes);
            if let Ok(context) = attach(file.into()) {
                let _ = super::super::of_confirmed(&context, Duration::ZERO);
            }
        }
    }

    #[test]
    fn an_intact_copy_is_read_like_the_world_itself() {
        let (context, ranks) = blocked_world();
        let one = Channel::degree(1);
        let ends: Vec<_> = (0..3)
            .map(|me| ranks[me].receiver::<u64>("next", (me + 1) % 3, one).unwrap())
            .collect();
        for (me, end) in ends.iter().enumerate() {
            let doing = Doing { operation: Operation::Receive, channel: end.descriptor() };
            context.rank(me as u32).unwrap().record.begin(doing, &[], &[], "", 1, None);
        }
        let report = report(copy(&context, &content(&context)).into()).unwrap();
        assert_eq!(report.cycles, [[0, 1, 2]]);
        assert_eq!(report.ranks[2].wait.as_ref().unwrap().channels[0].name, "next");
        // The segment is mapped for reading only.
        let attached = attach(copy(&context, &content(&context)).into()).unwrap();
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let base = attached.segment.range(0, 0, "").unwrap().addr().get();
        let holds = |line: &&str| {
            let (start, rest) = line.split_once('-').unwrap();
            let end = rest.split_once(' ').unwrap().0;
            let hex = |text| usize::from_str_radix(text, 16).unwrap();
            (hex(start)..hex(end)).contains(&base)
        };
        let line = maps.lines().find(holds).unwrap();
        assert!(line.contains(" r--s "), "{line}");
    }

    /// Checks that a receiver that listens to callers waits for those that can still call.
    #[test]
    fn who_listens_to_callers_waits_for_those_that_are_there() {
        let (context, ranks) = blocked_world();
        let one = Channel::degree(1);
        let others = |me: usize| (0..3).filter(move |&other| other != me);
        let listen = |me: usize| {
            let callers = ranks[me].callers("any", one).unwrap();
            others(me).for_each(|other| callers.await_call(other));
            callers
        };
        let _callers = [0, 1, 2].map(listen);
        let blocks = context.lock_heap().unwrap().blocks().unwrap();
        for block in blocks.iter().filter(|block| block.kind == BlockKind::Roll) {
            let doing = Doing { operation: Operation::Select, channel: block.key.payload() };
            context.rank(block.owner).unwrap().record.begin(doing, &[], &[], "", 1, None);
        }
        let look = || report(copy(&context, &content(&context)).into()).unwrap();
        let seen = look();
        assert!(seen.ranks.iter().all(|rank| rank.stuck), "{seen:?}");
        let waits = |report: &WorldReport| report.ranks[0].wait.clone().unwrap();
        let ChannelReport { name, senders, receivers, .. } = &waits(&seen).channels[0];
        assert_eq!((&name[..], &senders[..], &receivers[..]), ("any", &[1, 2][..], &[0][..]));
        assert_eq!((waits(&seen).peers, waits(&seen).further_channels), (vec![1, 2], 0));
        ranks[2].withdraw("any", one).unwrap();
        assert_eq!(waits(&look()).peers, [1]);
    }

    /// One operation waits in the call, and two go on beside it: a send in a full channel, and a receive.
    #[test]
    fn what_continues_beside_a_wait_is_reported_with_what_lies_there() {
        let (context, ranks) = blocked_world();
        let spec = Channel::degree(4);
        let [lines, chunks] = ["lines", "chunks"].map(|name| {
            let to = ranks[1].sender::<u64>(name, 0, spec).unwrap();
            (to, ranks[0].receiver::<u64>(name, 1, spec).unwrap())
        });
        let (mut full, end) = (ranks[0].sender::<u64>("full", 2, spec).unwrap(), &ranks[2]);
        let end = end.receiver::<u64>("full", 0, spec).unwrap();
        let (_lines, lines) = lines;
        let (mut chunk, chunks) = chunks;
        (0..3).for_each(|number| chunk.send(&number).unwrap());
        chunks.receive().unwrap();
        (0..4).for_each(|number| full.send(&number).unwrap());
        let mut select = crate::Select::new();
        select.add_sender(&full);
        select.raise();
        let doing = Doing { operation: Operation::Select, channel: lines.descriptor() };
        let beside = [chunks.descriptor(), end.descriptor()];
        context.rank(0).unwrap().record.begin(doing, &[], &beside, "", 1, None);
        let report = report(copy(&context, &content(&context)).into()).unwrap();
        let wait = report.ranks[0].wait.as_ref().unwrap();
        let of = |channel: &ChannelReport| {
            let ring = channel.ring.unwrap();
            let asks = [ring.sender_asks, ring.receiver_asks];
            (channel.name.clone(), channel.senders.clone(), ring.messages, ring.slots, asks)
        };
        assert_eq!(of(&wait.channels[0]), ("lines".to_owned(), vec![1], 0, 4, [false; 2]));
        assert_eq!(of(&wait.beside[0]), ("chunks".to_owned(), vec![1], 2, 4, [false; 2]));
        assert_eq!(of(&wait.beside[1]), ("full".to_owned(), vec![0], 4, 4, [true, false]));
        assert_eq!((wait.channels.len(), wait.beside.len()), (1, 2));
        assert_eq!(wait.peers, [1, 2]);
    }

    /// Otherwise, the list would show a world that can't be read, with the holders of the file.
    #[test]
    fn a_world_that_is_still_being_made_is_not_listed() {
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
        let file = fs::File::from(memfd_create(MEMFD_NAME, flags).unwrap());
        let listed = |file: &fs::File| {
            let file = file.metadata().unwrap();
            let its = (file.dev(), file.ino());
            let found = find(|identity| *identity == its, |pid| pid == std::process::id()).unwrap();
            !found.is_empty()
        };
        assert!(!listed(&file), "a file without length");
        file.set_len(FRONT + (1 << 20)).unwrap();
        assert!(!listed(&file), "a file without a mark");
        let segment = Segment::in_memfd(1 << 20, false, crate::world::parts()).unwrap();
        let file = fs::File::from(segment.fd().unwrap().try_clone_to_owned().unwrap());
        assert!(!listed(&file), "a segment without a world");
        let waiting = Waiting {
            policy: WaitPolicy::Park,
            asymmetry: Asymmetry::Ordinary,
            line_wait: LineWait::detect(),
            spare: 0,
        };
        Context::create(Arc::new(segment), (1, 1), false, waiting).unwrap();
        assert!(listed(&file), "a world");
    }

    #[test]
    fn files_that_are_no_segments_are_refused_by_name() {
        let (context, _ranks) = blocked_world();
        let good = content(&context);
        let refused =
            |bytes: &[u8]| match attach(copy(&context, bytes).into()).map_err(Error::into_kind) {
                Err(ErrorKind::Segment(error)) => error,
                other => panic!("{other:?}"),
            };
        assert!(matches!(refused(&[1; 4096]), SegmentError::NotASegment { .. }));
        let mut other_version = good.clone();
        other_version[8] ^= 1;
        assert!(matches!(refused(&other_version), SegmentError::Version { .. }));
        let mut other_layout = good.clone();
        other_layout[16] ^= 1;
        assert!(matches!(refused(&other_layout), SegmentError::Layout { .. }));
        let unsealed = fs::File::from(memfd_create(MEMFD_NAME, MFdFlags::MFD_CLOEXEC).unwrap());
        unsealed.write_all_at(&good, FRONT).unwrap();
        assert!(matches!(
            attach(unsealed.into()).as_ref().map_err(Error::kind),
            Err(ErrorKind::Segment(SegmentError::NotSealed))
        ));
    }
}
