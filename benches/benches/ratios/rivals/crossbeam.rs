//! crossbeam-channel as programs usually use it: bounded, blocking.

use crossbeam_channel::bounded;

use crate::plan::Pairs;
use crate::rivals::pairs::{End, take};
use crate::row::Side;

pub fn pairs(plan: Pairs) -> Side {
    Side::new("crossbeam", "adaptive", move |setup| {
        let ends = || {
            let (there_in, there_out) = bounded::<u64>(Pairs::DEGREE as usize);
            let (back_in, back_out) = bounded::<u64>(Pairs::DEGREE as usize);
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
