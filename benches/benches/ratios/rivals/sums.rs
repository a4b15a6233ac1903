//! What sums of vectors cost two threads, without a library around them. Boxes go through rtrb rings and back, so that
//! each box belongs to one thread at a time. In one variant the boxes are the vectors themselves, which needs threads
//! that reach each other's memory. In the other, each thread has its own vectors, and copies what the other needs into
//! boxes, as ranks must do.

use std::hint::black_box;
use std::sync::Arc;

use multiversion::multiversion;
use onchip_benches::content::{is_stamped, stamp};
use onchip_benches::{collective, cpus};
use rtrb::{Consumer, Producer, RingBuffer};

use crate::plan::{Collective, Operation, timed};
use crate::rivals::rtrb::{pop, push};
use crate::rivals::{Checked, failed};
use crate::row::{Sample, Setup, Side, Trouble};
use crate::stats::median;

/// A way for threads with their own vectors. The fastest way depends on the distance, so all are tried.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// Each thread copies one half of its vector into `boxes` boxes. The other thread adds there, and leaves the sums.
    Halves { boxes: usize },
    /// Thread 1 copies its whole vectors into `boxes` boxes, one after the other. Thread 0 adds from the boxes.
    FirstAlone { boxes: usize },
}

// One way is not tried: each thread could add one half of both vectors in place. Only the stamps change vectors here,
// so each half would stay in the cache of one core, and nothing would move.

/// Measures threads that reach each other's memory. In a reduction thread 0 adds everything, while thread 1 is ahead by
/// a few vectors. In an all-reduce each thread reads the other's vector and writes the whole sum to its own memory.
pub fn added(plan: Collective) -> Side {
    Side::new("raw sums", "spin", move |setup| {
        let took = match plan.operation {
            Operation::Reduce => first_alone(setup, plan)?,
            Operation::AllReduce => each(setup, plan)?,
            operation => return Err(failed(format!("nothing is added in a {}", operation.name()))),
        };
        Ok(took.into())
    })
}

/// Measures threads with their own vectors.
pub fn staged(plan: Collective) -> Side {
    let ways = [4, 8, 16].map(|boxes| match plan.operation {
        Operation::Reduce => Way::FirstAlone { boxes: 2 * boxes },
        _ => Way::Halves { boxes },
    });
    Side::new("raw staged sums", "spin", move |setup| {
        let mut best: Option<(f64, Way)> = None;
        for way in ways {
            let took = match way {
                Way::Halves { boxes } => staged_halves(setup, plan, boxes)?,
                Way::FirstAlone { boxes } => staged_first_alone(setup, plan, boxes)?,
            };
            if best.is_none_or(|(least, _)| took < least) {
                best = Some((took, way));
            }
        }
        let (value, way) = best.ok_or_else(|| failed("no way to add"))?;
        Ok(Sample { value, probes: None, remark: Some(format!("the best way: {way:?}")) })
    })
}

type Piece = Box<[f64]>;

/// Returns zeros. They are written, so that each page has its own memory and is not the one shared page of zeros.
fn zeros(len: usize) -> Piece {
    let mut piece = black_box(vec![0.0; len]);
    piece.fill(0.0);
    piece.into_boxed_slice()
}

#[multiversion(targets("x86_64+avx512f+avx512vl", "x86_64+avx2"))]
fn add(into: &mut [f64], of: &[f64]) {
    for (into, of) in into.iter_mut().zip(of) {
        *into += of;
    }
}

#[multiversion(targets("x86_64+avx512f+avx512vl", "x86_64+avx2"))]
fn add_both(a: &mut [f64], b: &mut [f64]) {
    for (a, b) in a.iter_mut().zip(b) {
        *a += *b;
        *b = *a;
    }
}

#[multiversion(targets("x86_64+avx512f+avx512vl", "x86_64+avx2"))]
fn add_to(out: &mut [f64], a: &[f64], b: &[f64]) {
    for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
        *out = a + b;
    }
}

/// The ends of the rings through which a thread lends boxes and gets them back.
struct Link<T> {
    lend: Producer<T>,
    borrow: Consumer<T>,
    give_back: Producer<T>,
    get_back: Consumer<T>,
}

fn links<T>(capacity: usize) -> [Link<T>; 2] {
    let [there, back, answer_there, answer_back] =
        std::array::from_fn(|_| RingBuffer::<T>::new(capacity));
    [
        Link { lend: there.0, borrow: back.1, give_back: answer_there.0, get_back: answer_back.1 },
        Link { lend: back.0, borrow: there.1, give_back: answer_back.0, get_back: answer_there.1 },
    ]
}

/// Returns nanoseconds for each call. `party` returns the work of thread 0 or 1 in each call.
fn timed_both<T: Send, W>(
    setup: &Setup,
    plan: Collective,
    capacity: usize,
    party: impl Fn(usize, Link<T>) -> W + Sync,
) -> Result<f64, Trouble>
where
    W: FnMut(&mut Checked),
{
    let [first, second] = links(capacity);
    let run = |me: usize, link: Link<T>| {
        let mut checked = Checked::default();
        let mut work = party(me, link);
        let took = timed(plan.batches, plan.calls, || -> Result<(), Trouble> {
            work(&mut checked);
            Ok(())
        })?;
        checked.finish().map(|()| took)
    };
    let (first, second) = cpus::side_by_side(setup.cpus, || run(0, first), || run(1, second));
    Ok(median(&collective::slowest(&[first?, second?])))
}

fn first_alone(setup: &Setup, plan: Collective) -> Result<f64, Trouble> {
    timed_both(setup, plan, Collective::TURNS, |me, mut link: Link<Piece>| {
        let mut turns: [Piece; Collective::TURNS] = std::array::from_fn(|_| zeros(plan.words()));
        let mut number = 0;
        move |checked: &mut Checked| {
            number += 1;
            let vector = &mut turns[number as usize % Collective::TURNS];
            if me == 1 {
                if number > Collective::TURNS as u64 {
                    *vector = pop(&mut link.get_back);
                }
                stamp(vector, given(me, number));
                push(&mut link.lend, std::mem::take(vector));
            } else {
                stamp(vector, given(me, number));
                let lent = pop(&mut link.borrow);
                add(vector, &lent);
                push(&mut link.give_back, lent);
                checked.holds(is_stamped(vector, sum(2, number)));
            }
        }
    })
}

fn each(setup: &Setup, plan: Collective) -> Result<f64, Trouble> {
    timed_both(setup, plan, 1, |me, mut link: Link<Arc<Piece>>| {
        let mut turns: [Arc<Piece>; Collective::TURNS] =
            std::array::from_fn(|_| Arc::new(zeros(plan.words())));
        let mut out = zeros(plan.words());
        let mut number = 0;
        move |checked: &mut Checked| {
            number += 1;
            let vector = &mut turns[number as usize % Collective::TURNS];
            let Some(own) = Arc::get_mut(vector) else { return checked.holds(false) };
            stamp(own, given(me, number));
            push(&mut link.lend, vector.clone());
            let lent = pop(&mut link.borrow);
            add_to(&mut out, vector, &lent);
            push(&mut link.give_back, lent);
            drop(pop(&mut link.get_back));
            let Some(own) = Arc::get_mut(vector) else { return checked.holds(false) };
            std::mem::swap(own, &mut out);
            checked.holds(is_stamped(own, sum(2, number)));
        }
    })
}

fn staged_halves(setup: &Setup, plan: Collective, boxes: usize) -> Result<f64, Trouble> {
    let half = plan.words() / 2;
    timed_both(setup, plan, boxes, |me, mut link: Link<Piece>| {
        let mut turns: [Piece; Collective::TURNS] = std::array::from_fn(|_| zeros(plan.words()));
        let mut staged: Vec<Piece> = (0..boxes).map(|_| zeros(half / boxes)).collect();
        let mut number = 0;
        move |checked: &mut Checked| {
            number += 1;
            let vector = &mut turns[number as usize % Collective::TURNS];
            stamp(vector, given(me, number));
            let (low, high) = vector.split_at_mut(half);
            let (own, others) = if me == 0 { (low, high) } else { (high, low) };
            for (part, mut piece) in others.chunks(half / boxes).zip(staged.drain(..)) {
                piece.copy_from_slice(part);
                push(&mut link.lend, piece);
            }
            for part in own.chunks_mut(half / boxes) {
                let mut lent = pop(&mut link.borrow);
                add_both(part, &mut lent);
                push(&mut link.give_back, lent);
            }
            for part in others.chunks_mut(half / boxes) {
                let piece = pop(&mut link.get_back);
                part.copy_from_slice(&piece);
                staged.push(piece);
            }
            checked.holds(is_stamped(vector, sum(2, number)));
        }
    })
}

fn staged_first_alone(setup: &Setup, plan: Collective, boxes: usize) -> Result<f64, Trouble> {
    const UNDER_WAY: usize = 4;
    let length = plan.words() / boxes;
    timed_both(setup, plan, UNDER_WAY, |me, mut link: Link<Piece>| {
        let mut turns: [Piece; Collective::TURNS] = std::array::from_fn(|_| zeros(plan.words()));
        if me == 0 {
            (0..UNDER_WAY).for_each(|_| push(&mut link.give_back, zeros(length)));
        }
        let mut number = 0;
        move |checked: &mut Checked| {
            number += 1;
            let vector = &mut turns[number as usize % Collective::TURNS];
            stamp(vector, given(me, number));
            for part in vector.chunks_mut(length) {
                if me == 1 {
                    let mut piece = pop(&mut link.get_back);
                    piece.copy_from_slice(part);
                    push(&mut link.lend, piece);
                } else {
                    let lent = pop(&mut link.borrow);
                    add(part, &lent);
                    push(&mut link.give_back, lent);
                }
            }
            if me == 0 {
                checked.holds(is_stamped(vector, sum(2, number)));
            }
        }
    })
}

/// What a rank gives in call `number`, all over its vector or on the stamped elements.
pub fn given(rank: usize, number: u64) -> f64 {
    (number + rank as u64) as f64
}

/// The sum of that over the first so many ranks.
pub fn sum(ranks: usize, number: u64) -> f64 {
    let ranks = ranks as u64;
    (ranks * number + ranks * (ranks - 1) / 2) as f64
}
