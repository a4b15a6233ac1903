//! Broadcasts that call handlers.

use std::sync::mpsc;

use onchip::Result;
use onchip::broadcast::asynchronous::{AsyncBroadcast, AsyncSettings, Order};

use super::Work;
use crate::content::wrong;

pub(super) fn run(mut work: Work<'_>) -> Result<()> {
    let (me, ranks) = (work.me(), work.ranks());
    let settings = AsyncSettings {
        chunk_bytes: work.random.pick(&[64, 1000, 16 << 10]),
        window: 1 + work.random.below(8) as u32,
        order: work.random.pick(&[Order::PerSource, Order::Total]),
        ..AsyncSettings::default()
    };
    let total = settings.order == Order::Total;
    let longest = work.random.pick(&[1, 20, 600]);
    let lengths: Vec<_> =
        (0..1 + work.random.below(15)).map(|_| work.random.index(longest + 1)).collect();
    let (sender, news) = mpsc::channel::<(usize, Vec<u8>)>();
    let name = work.name("asynchronous");
    work.call()?;
    let broadcasts = AsyncBroadcast::open(work.rank, &name, settings, move |source, message| {
        sender.send((source, message.to_vec())).unwrap_or_default();
    })?;
    let sent: Result<()> = (0..).zip(&lengths).try_for_each(|(number, &len)| {
        work.call()?;
        let words = work.label(me, number).words(len);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        broadcasts.broadcast(&bytes)
    });
    work.call()?;
    let ended = sent.and_then(|()| broadcasts.finish());
    // The messages before an error must be right, too.
    let mut next = vec![0; ranks];
    for (source, bytes) in news.iter() {
        let number = next[source];
        let Some(&len) = lengths.get(number as usize) else {
            return wrong(format!("message {number} of rank {source}, which sends fewer"));
        };
        let (words, rest) = bytes.as_chunks();
        let words: Vec<u64> = words.iter().map(|&word| u64::from_le_bytes(word)).collect();
        work.label(source, number).check(&words, len)?;
        if !rest.is_empty() {
            return wrong(format!("{} bytes from rank {source}", bytes.len()));
        }
        next[source] += 1;
    }
    ended?;
    for (source, &got) in next.iter().enumerate() {
        if got != lengths.len() as u64 && (total || source != me) {
            return wrong(format!("{got} messages of rank {source} of {}", lengths.len()));
        }
    }
    Ok(())
}
