//! What cache lines alone cost, one after the other: a line holds seven words and their number, and there is no library
//! around it. Nothing that carries 56 bytes and says when they have arrived can take less time.

use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::CachePadded;
use onchip_benches::cpus;

use crate::plan::{Stream, is_numbered, numbered};
use crate::rivals::Checked;
use crate::row::{Setup, Side, Trouble};
use crate::stats::median;

const WORDS: usize = 7;

#[derive(Default)]
#[repr(align(64))]
struct Line {
    /// 1 + the number of the message on the line.
    sequence: AtomicU64,
    words: [AtomicU64; WORDS],
}

struct Lines {
    lines: Box<[Line]>,
    /// The number of messages read. It is written four times in a pass over the lines.
    read: CachePadded<AtomicU64>,
}

impl Lines {
    fn line(&self, number: u64) -> &Line {
        &self.lines[number as usize % self.lines.len()]
    }

    /// Waits until the line of message `number` has been read. While `known` is enough to tell, reads no shared memory.
    fn free(&self, number: u64, known: &mut u64) {
        while number >= *known + self.lines.len() as u64 {
            *known = self.read.load(Ordering::Acquire);
            std::hint::spin_loop();
        }
    }

    fn write(&self, number: u64) {
        let line = self.line(number);
        for (word, value) in line.words.iter().zip(numbered::<WORDS>(number)) {
            word.store(value, Ordering::Relaxed);
        }
        // Release: pairs with the Acquire in `read`.
        line.sequence.store(number + 1, Ordering::Release);
    }

    fn read(&self, number: u64) -> [u64; WORDS] {
        let line = self.line(number);
        while line.sequence.load(Ordering::Acquire) != number + 1 {
            std::hint::spin_loop();
        }
        let mut message = [0; WORDS];
        for (value, word) in message.iter_mut().zip(&line.words) {
            *value = word.load(Ordering::Relaxed);
        }
        if (number + 1).is_multiple_of(self.lines.len() as u64 / 4) {
            // Release: pairs with the Acquire in `free`.
            self.read.store(number + 1, Ordering::Release);
        }
        message
    }
}

/// Uses as many lines as the plan's degree.
pub fn stream(plan: Stream) -> Side {
    Side::new("raw lines", "spin", move |setup| take(setup, plan).map(Into::into))
}

fn take(setup: &Setup, plan: Stream) -> Result<f64, Trouble> {
    let lines = (0..plan.degree).map(|_| Line::default()).collect();
    let lines = Lines { lines, read: CachePadded::default() };
    let send = || {
        let mut known = 0;
        for number in 0..plan.all_messages() {
            lines.free(number, &mut known);
            lines.write(number);
        }
    };
    let receive = || {
        let mut checked = Checked::default();
        let mut number = 0;
        let rates = plan.timed(|| {
            checked.holds(is_numbered(&lines.read(number), number));
            number += 1;
            Ok(())
        })?;
        checked.finish().map(|()| median(&rates))
    };
    cpus::side_by_side(setup.cpus, send, receive).1
}
