//! Random messages between all ranks, received in random ways, against the rule of matching: a
//! receive gets the oldest message of its source that it takes, and receives get theirs in the
//! order of posting.

use mp_comm::{ANY_SOURCE, ANY_TAG, Communicator, ReceiveRequest, SendRequest, Source, Tag};
use mp_core::{Rank, Result};

use crate::support::{Random, SIZES, on_all};

const TAGS: u64 = 3;
/// In elements of eight bytes.
const LENGTHS: [usize; 8] = [1, 1, 2, 5, 8, 70, 700, 9000];
const LONGEST: usize = 9000;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Message {
    from: usize,
    to: usize,
    tag: u32,
    len: usize,
}

/// What all ranks send, in each one's order. Everybody knows it.
fn plan(seed: u64, ranks: usize, each: usize) -> Vec<Message> {
    let mut random = Random::new(seed);
    let mut plan = Vec::new();
    for from in 0..ranks {
        for _ in 0..each {
            let to = random.below(ranks as u64) as usize;
            let tag = random.below(TAGS) as u32;
            let len = LENGTHS[random.below(LENGTHS.len() as u64) as usize];
            plan.push(Message { from, to, tag, len });
        }
    }
    plan
}

fn content(plan: &[Message], number: usize) -> Vec<u64> {
    (0..plan[number].len as u64).map(|i| number as u64 ^ i << 32).collect()
}

/// The number of the message that has this content, which must be whole.
fn number(plan: &[Message], source: usize, tag: u32, content: &[u64]) -> Result<usize> {
    let number = content[0] as usize;
    ensure!(number < plan.len(), "a message that nobody sent");
    let wanted = plan[number];
    ensure!(
        (wanted.from, wanted.tag, wanted.len) == (source, tag, content.len()),
        "{wanted:?} as from {source} with tag {tag}, {}",
        content.len()
    );
    ensure!(content == self::content(plan, number), "{wanted:?} came damaged");
    Ok(number)
}

/// Sends a message in a way that does not wait.
fn send(
    rank: &Rank,
    world: &Communicator,
    plan: &[Message],
    at: usize,
    random: &mut Random,
    sends: &mut Vec<SendRequest<Vec<u64>>>,
) -> Result<()> {
    let (Message { to, tag, .. }, content) = (plan[at], content(plan, at));
    match random.below(4) {
        0 => world.buffered_send(&content, to, tag)?,
        1 => sends.push(world.immediate_synchronous_send(content, to, tag)),
        2 if content.len() < 100 => {
            // It waits for nobody as long as there are few of them.
            world.send_buffer(rank.buffer_from(&content)?, to, tag)?;
        }
        _ => sends.push(world.immediate_send(content, to, tag)),
    }
    Ok(())
}

/// Receives one after another, with all wildcards.
fn one_by_one(rank: &Rank, seed: u64, each: usize) -> Result<()> {
    let world = Communicator::world(rank);
    let me = world.rank();
    let plan = plan(seed, world.size(), each);
    let mut random = Random::new(seed ^ (me as u64 + 1) << 32);
    let mut mine = (0..plan.len()).filter(|&at| plan[at].from == me).peekable();
    let mut left: Vec<usize> = (0..plan.len()).filter(|&at| plan[at].to == me).collect();
    let mut sends = Vec::new();
    while mine.peek().is_some() || !left.is_empty() {
        let sends_now = left.is_empty() || random.below(2) == 0;
        if let Some(at) = mine.next_if(|_| sends_now) {
            send(rank, &world, &plan, at, &mut random, &mut sends)?;
            continue;
        }
        if left.is_empty() {
            continue;
        }
        let wanted = plan[left[random.below(left.len() as u64) as usize]];
        let source: Source = if random.below(3) == 0 { ANY_SOURCE } else { wanted.from.into() };
        let tag: Tag = if random.below(3) == 0 { ANY_TAG } else { wanted.tag.into() };
        let takes = |at: &usize| {
            let Message { from, tag: is, .. } = plan[*at];
            (source == ANY_SOURCE || source == Source::Rank(from))
                && (tag == ANY_TAG || tag == Tag::Is(is))
        };
        // While others may wait for one's own messages, only what is there.
        let probed = match (mine.peek(), random.below(2)) {
            (Some(_), _) => match world.try_probe(source, tag)? {
                None => continue,
                probed => probed,
            },
            (None, 0) => Some(world.probe(source, tag)?),
            (None, _) => None,
        };
        let (content, status) = match (probed, random.below(2)) {
            (Some(probed), _) => {
                let mut content = vec![0; probed.count];
                let status = world.receive_into(&mut content, probed.source, probed.tag)?;
                ensure!(status == probed, "{status:?} after {probed:?} was probed");
                (content, status)
            }
            (None, 0) => {
                let mut content = vec![0; LONGEST];
                let status = world.receive_into(&mut content, source, tag)?;
                content.truncate(status.count);
                (content, status)
            }
            _ => world.receive_vec(source, tag)?,
        };
        let got = number(&plan, status.source, status.tag, &content)?;
        let oldest = left.iter().position(|at| plan[*at].from == status.source && takes(at));
        let place = oldest.filter(|&place| left[place] == got);
        ensure!(place.is_some(), "{:?} is not the oldest for {source:?}, {tag:?}", plan[got]);
        place.map(|place| left.remove(place));
    }
    for sent in sends {
        sent.wait()?;
    }
    Ok(())
}

#[test]
fn receives_get_the_oldest_message_they_take() {
    for size in SIZES {
        for seed in 0..3 {
            on_all(size, |rank| one_by_one(rank, seed, 60));
        }
    }
}

/// A receive that was posted: which way, as the how manieth, and what for.
struct Posted {
    way: usize,
    order: usize,
    source: Option<usize>,
    tag: Option<u32>,
    request: ReceiveRequest<Vec<u64>>,
}

/// Many receives posted at once, in four communicators of the same ranks: one for each kind of
/// wildcards, so that every receive finds a message whatever the others take.
fn all_at_once(rank: &Rank, seed: u64, each: usize) -> Result<()> {
    let world = Communicator::world(rank);
    let me = world.rank();
    let mut ways = Vec::new();
    for _ in 0..3 {
        ways.push(world.duplicate()?);
    }
    ways.push(world);
    let plans: Vec<_> = (0..4).map(|way| plan(seed * 4 + way, ways[0].size(), each)).collect();
    let mut random = Random::new(seed ^ (me as u64 + 1) << 32);
    // By turns, each in its order.
    let of_all = |at| (0..4).map(move |way| (way, at));
    let mut mine = (0..plans[0].len())
        .flat_map(of_all)
        .filter(|&(way, at)| plans[way][at].from == me)
        .peekable();
    // What is to be received in each way, and not posted for yet.
    let mut left: Vec<(usize, usize)> = (0..4)
        .flat_map(|way| (0..plans[way].len()).map(move |at| (way, at)))
        .filter(|&(way, at)| plans[way][at].to == me)
        .collect();
    random.shuffle(&mut left);
    let (mut sends, mut posted) = (Vec::new(), Vec::<Posted>::new());
    let mut done: Vec<Vec<(usize, usize)>> = vec![Vec::new(); 4];
    let mut order = 0;
    while mine.peek().is_some() || !left.is_empty() || !posted.is_empty() {
        match random.below(3) {
            0 => {
                if let Some((way, at)) = mine.next() {
                    send(rank, &ways[way], &plans[way], at, &mut random, &mut sends)?;
                }
            }
            1 => {
                if let Some((way, at)) = left.pop() {
                    let Message { from, tag, .. } = plans[way][at];
                    let source = (way & 1 == 0).then_some(from);
                    let tag = (way & 2 == 0).then_some(tag);
                    let request = ways[way].immediate_receive(
                        vec![0; LONGEST],
                        source.map_or(ANY_SOURCE, Source::from),
                        tag.map_or(ANY_TAG, Tag::from),
                    );
                    posted.push(Posted { way, order, source, tag, request });
                    order += 1;
                }
            }
            // Not before all is on its way: the one waited for could be one's own.
            _ if mine.peek().is_none() && left.is_empty() => {
                let at = random.below(posted.len() as u64) as usize;
                let Posted { way, order, source, tag, request } = posted.swap_remove(at);
                let (content, status) = request.wait()?;
                ensure!(source.is_none_or(|source| source == status.source), "{status:?}");
                ensure!(tag.is_none_or(|tag| tag == status.tag), "{status:?}");
                let content = &content[..status.count];
                let got = number(&plans[way], status.source, status.tag, content)?;
                done[way].push((order, got));
            }
            _ => {
                for posted in posted.iter_mut().take(3) {
                    posted.request.test()?;
                }
            }
        }
    }
    for (way, mut done) in done.into_iter().enumerate() {
        // In the order of posting, and of those that could have taken each other's.
        done.sort_unstable();
        let plan = &plans[way];
        let wanted = plan.iter().filter(|message| message.to == me).count();
        ensure!(done.len() == wanted, "{} of {wanted}", done.len());
        let alike = |a: usize, b: usize| {
            let tags = way & 2 != 0 || plan[a].tag == plan[b].tag;
            plan[a].from == plan[b].from && tags
        };
        for (i, &(_, later)) in done.iter().enumerate() {
            for &(_, sooner) in done[..i].iter().filter(|&&(_, sooner)| alike(sooner, later)) {
                let (first, second) = (plan[later], plan[sooner]);
                ensure!(
                    sooner < later,
                    "way {way}: {first:?} went to a later receive than {second:?}"
                );
            }
        }
    }
    for sent in sends {
        sent.wait()?;
    }
    Ok(())
}

#[test]
fn posted_receives_get_their_messages_in_order() {
    for size in SIZES {
        for seed in 0..2 {
            on_all(size, |rank| all_at_once(rank, seed, 25));
        }
    }
}
