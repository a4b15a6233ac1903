//! Tests of the errors' texts.

use std::{sync::Arc, time::Duration};

use super::*;
use crate::{ChannelSpec, Operation, mpb::Mpbs};

#[test]
fn errors_say_what_is_wrong_where_and_what_to_do() {
    let channel: Arc<str> = "pages".into();
    let full = |degree| ErrorKind::Full { channel: channel.clone(), degree };
    for (error, text) in [
        (
            ErrorKind::PeerLost {
                rank: 1,
                world_rank: 1,
                place: Place::Named { operation: Operation::Receive, name: channel.clone() },
            },
            "rank 1 was lost (receive on channel \"pages\"): it panicked, or its process ended",
        ),
        (
            ErrorKind::Disconnected { channel: channel.clone() },
            "nobody is left at the other end of \"pages\": the other rank has dropped its end or has returned, so \
             that nothing more will be sent or received there",
        ),
        (
            full(0),
            "channel \"pages\" of degree 0 is full: no receiver is waiting; try again, or send with a call that \
             waits",
        ),
        (
            full(2),
            "channel \"pages\" of degree 2 is full: its receivers have not taken what was sent; try again, or send \
             with a call that waits",
        ),
        (
            ErrorKind::GuardsHeld { channel: channel.clone(), held: 2 },
            "all 2 slots of channel \"pages\" are held by guards of this receiver: drop one before the next \
             receive, or open the channel with a higher degree",
        ),
        (
            ErrorKind::NoSuchRank { rank: 7, size: 3 },
            "there is no rank 7: there are 3, numbered from 0",
        ),
    ] {
        let error = Error::from(error);
        assert_eq!((error.to_string(), format!("{error:?}")), (text.to_owned(), text.to_owned()));
    }
}

/// Makes a table with an example of each kind, and the facts that its text must name. A kind without an example doesn't
/// compile.
macro_rules! examples {
    ($($kind:ident $facts:tt names $named:expr;)+) => {
        fn examples() -> Vec<(ErrorKind, &'static [&'static str])> {
            vec![$((ErrorKind::$kind $facts, &$named)),+]
        }

        #[allow(dead_code, reason = "only that it compiles shows that no kind is missing")]
        fn each_has_an_example(kind: &ErrorKind) {
            match kind {
                $(ErrorKind::$kind { .. } => {})+
            }
        }
    };
}

examples! {
    PeerLost { rank: 2, world_rank: 5, place: Place::Communicator }
        names ["rank 2 of the communicator", "rank 5 of the world", "lost", "acknowledge", "shrink"];
    PeerEnded { rank: 2 } names ["rank 2", "ended"];
    PeerBroken { rank: 2, reason: "no memory".into() } names ["rank 2", "no memory"];
    Disconnected { channel: "pages".into() } names ["\"pages\"", "dropped its end"];
    NobodyLeft {} names ["nobody is left", "all other ranks"];
    Revoked { place: Place::Communicator } names ["communicator", "revoked", "shrink"];
    Timeout { place: receive(), limit: Duration::from_millis(5) }
        names ["receive on channel \"pages\"", "5ms"];
    WaitsForItself {} names ["wait for ever", "nonblocking"];
    Full { channel: "pages".into(), degree: 2 } names ["\"pages\"", "degree 2", "full", "try again"];
    OnAnotherNode { rank: 2, what: "message passing buffers" } names ["rank 2", "another node", "passing buffers", "one for each pair"];
    GuardsHeld { channel: "pages".into(), held: 2 } names ["all 2 slots", "\"pages\"", "drop one"];
    TooLong { channel: "pages".into(), len: 9, max: 4 }
        names ["9 elements", "\"pages\"", "up to 4", "max_len", "send_buffer"];
    Truncated { source_rank: 2, tag: 7, count: 9, room: 4 }
        names ["9 elements", "rank 2", "tag 7", "buffer of 4", "receive_vec"];
    BlockTooLong { source_rank: 2, bytes: 9, room: 4 } names ["9 bytes", "rank 2", "of 4 bytes", "agree"];
    WrongElements {
        source_rank: 2,
        tag: 7,
        count: 9,
        ours: Box::new(ElementType::of::<u64>()),
        theirs: Box::new(ElementType::of::<f32>()),
    } names ["9 × f32", "rank 2", "tag 7", "receive of u64"];
    NotSent { to: Recipient::Rank(2), reason: "the segment is full".into() }
        names ["to rank 2", "not sent", "the segment is full"];
    Mismatch {
        channel: "pages".into(),
        ours: Box::new(spec("u64")),
        theirs: Box::new(spec("f32")),
    } names ["\"pages\"", "alike", "u64", "f32"];
    BadChannel { channel: "pages".into(), reason: "too long".into() } names ["\"pages\"", "too long"];
    MpbMismatch { mpbs: "steps".into(), ours: Mpbs::lines(4).into(), theirs: Mpbs::lines(8).into() }
        names ["\"steps\"", "4", "8", "alike"];
    MpbRanksMismatch { mpbs: "steps".into(), ours: [0, 1].into(), theirs: [1, 0].into() }
        names ["\"steps\"", "[0, 1]", "[1, 0]", "same order"];
    BadMpbs { mpbs: "steps".into(), reason: "no lines".into() } names ["\"steps\"", "no lines"];
    NoSuchLines { mpbs: "steps".into(), first: 7, count: 2, lines: 8 }
        names ["2 lines", "line 7", "\"steps\"", "8 lines"];
    PayloadTooLong { mpbs: "steps".into(), bytes: 60, most: 56 }
        names ["60 bytes", "\"steps\"", "56", "lines of its own"];
    NoSuchRank { rank: 7, size: 3 } names ["no rank 7", "3", "from 0"];
    CallsDiffer(Box::new(Calls::new(vec![Call::new("barrier"), Call::new("split")])))
        names ["same call", "rank 0 called barrier", "rank 1 called split"];
    RankMissing { rank: 2, call: Box::new(Call::new("barrier")), limit: Duration::from_secs(1) }
        names ["rank 2", "1s", "barrier", "limit"];
    BadCall { reason: "rank 2 is named twice".into() } names ["not possible", "rank 2 is named twice"];
    BadSettings { reason: "no buffers".into() } names ["settings", "not possible", "no buffers"];
    FailedBefore { reason: "a panic".into() } names ["an earlier operation failed", "a panic"];
    OperationPanicked { place: Place::Object("sums".into()), message: "7 is odd".into() }
        names ["panicked", "operation on object \"sums\"", "7 is odd"];
    Poisoned { object: "sums".into() } names ["\"sums\"", "poisoned", "clear the poison"];
    NestedOperation { object: "sums".into() } names ["\"sums\"", "in the middle", "after"];
    OutcomeUnknown { object: "sums".into() } names ["\"sums\"", "may have been executed, or not"];
    ResultForgotten { object: "sums".into(), kept: 4 } names ["\"sums\"", "last 4", "earlier"];
    ObjectMismatch { object: "sums".into() } names ["\"sums\"", "something else", "same type"];
    BadObject { object: "sums".into(), reason: "no seats".into() } names ["\"sums\"", "no seats"];
    ObjectFull { reason: "there is no room for 7".into() } names ["full", "no room for 7", "more room"];
    ObjectBusy {} names ["not executed", "try again", "apply"];
    OutOfMemory { bytes: 64 } names ["no memory", "64 bytes"];
    RanksFailed(RanksFailed {
        failures: vec![RankFailure { rank: 2, cause: Cause::Panic("out of paper".into()) }],
    }) names ["rank 2", "panicked", "out of paper"];
    BadWorld("a world has at least one rank".into()) names ["at least one rank"];
    Segment(SegmentError::NoMembarrier) names ["membarrier", "seccomp"];
    Topology(topology::Error::CpuList { text: "x".into() }) names ["\"x\"", "0,2-5"];
    Encoding(postcard::Error::WontImplement) names ["between processes", "postcard"];
    Os { call: "mmap", source: io::Error::other("refused") } names ["mmap", "refused"];
    OpenFiles { needed: 9, allowed: 4 } names ["9 open files", "4", "ulimit -Hn"];
    Other("no such picture".into()) names ["no such picture"];
}

fn spec(type_name: &str) -> ChannelSpec {
    ChannelSpec {
        type_name: type_name.to_owned(),
        element_size: 8,
        element_align: 8,
        slice: false,
        degree: 1,
        max_len: 1,
    }
}

fn receive() -> Place {
    Place::Named { operation: Operation::Receive, name: "pages".into() }
}

#[test]
fn each_kind_of_error_names_its_facts() {
    for (kind, named) in examples() {
        let text = Error::from(kind).to_string();
        for fact in named {
            assert!(text.contains(fact), "{fact:?} is not in {text:?}");
        }
    }
}

#[test]
fn places_choose_the_words() {
    let lost = |place| ErrorKind::PeerLost { rank: 1, world_rank: 1, place }.to_string();
    let named = lost(receive());
    assert!(named.starts_with("rank 1 was lost (receive on channel \"pages\")"), "{named}");
    let object = lost(Place::Object("sums".into()));
    assert!(object.contains("an operation on object \"sums\"") && object.contains("not executed"));
    let place = Place::Named { operation: Operation::Flag, name: "steps".into() };
    let revoked = ErrorKind::Revoked { place }.to_string();
    assert!(revoked.starts_with("the MPBs \"steps\" were revoked"), "{revoked}");
    let (place, limit) = (Place::Object("sums".into()), Duration::from_secs(1));
    let late = ErrorKind::Timeout { place, limit }.to_string();
    assert!(late.ends_with("1s: it was not begun, and never will be"), "{late}");
    let to = Recipient::Channel("pages".into());
    let unsent = ErrorKind::NotSent { to, reason: "the thread was stopped".into() }.to_string();
    assert_eq!(unsent, "a message on channel \"pages\" was not sent: the thread was stopped");
}
