//! What errors say.

use std::sync::Arc;

use super::*;
use crate::Operation;

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
