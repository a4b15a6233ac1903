//! Communicators of parts of the ranks, made and dropped again.

use onchip::{Error, Result};

use super::Work;
use super::blocking::LENGTHS;

pub(super) fn run(mut work: Work<'_>) -> Result<()> {
    let me = work.me();
    for number in 0..1 + work.random.below(4) {
        let parts = 1 + work.random.index(3);
        let len = work.random.pick(&LENGTHS);
        let ring = work.random.percent(50);
        work.call()?;
        let part = work.world().split(Some((me % parts) as u64), 0)?;
        let part = part.ok_or_else(|| Error::other("a rank that named a part is in none"))?;
        let members: Vec<_> = (me % parts..work.ranks()).step_by(parts).collect();
        let label = |from: usize| work.label(members[from], number);
        let (mine, size) = (part.rank(), part.size());
        let words = label(mine).words(len);
        work.call()?;
        if ring {
            let (next, before) = ((mine + 1) % size, (mine + size - 1) % size);
            let mut into = vec![0u64; len];
            part.send_receive(&words, next, 1, &mut into, before, 1)?;
            label(before).check(&into, len)?;
        } else {
            let mut all = vec![0u64; len * size];
            part.all_gather(&words, &mut all)?;
            for (from, block) in all.chunks_exact(len.max(1)).enumerate() {
                label(from).check(block, len)?;
            }
        }
    }
    Ok(())
}
