//! The standard library's bounded channel.

use std::sync::mpsc::sync_channel;

use crate::plan::Pairs;
use crate::rivals::pairs::{End, take};
use crate::row::Side;

pub fn pairs(plan: Pairs) -> Side {
    Side::new("std sync_channel", "adaptive", move |setup| {
        let ends = || {
            let (there_in, there_out) = sync_channel::<u64>(Pairs::DEGREE as usize);
            let (back_in, back_out) = sync_channel::<u64>(Pairs::DEGREE as usize);
            let asking = End {
                send: move |m| there_in.send(m).is_ok(),
                receive: move || back_out.recv().ok(),
            };
            let answering = End {
                send: move |m| back_in.send(m).is_ok(),
                receive: move || there_out.recv().ok(),
            };
            (asking, answering)
        };
        take(setup, plan, ends).map(Into::into)
    })
}
