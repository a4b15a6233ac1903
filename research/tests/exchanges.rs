//! Exchanges on simulated machines: every block must come to its place.

mod support;
#[path = "../../mp-collectives/tests/support/transcript.rs"]
mod transcript;

use mp_collectives::collectives::{Collective, Machine, Settings};
use mp_collectives::exchange::{
    AllGather, AllToAll, Blocks, ChunkExchange, ChunkOptions, Cut, Gather, LineExchange,
    ReduceOptionsError, Scatter, SharedAllGather, Traffic, Way, WayToAll, Ways, WaysError,
};
use mp_core::mpb::MpbAccess;
use onchip_research::sim::{self, Layout, run};
use proptest::prelude::*;

use support::Erratic;
use transcript::{Buffer, OPERATIONS, Operation, Step};

const LINE_BYTES: usize = 32;

fn machine(cores: usize, lines: usize) -> sim::Machine {
    sim::Machine {
        layout: Layout::shared(cores),
        lines,
        line_bytes: LINE_BYTES,
        ..sim::Machine::scc()
    }
}

/// The algorithm of a step.
#[derive(Clone, Copy, Debug)]
enum By {
    Lines,
    Chunks,
    /// For blocks that go to all ranks; otherwise chunks.
    Shared,
    Ways,
}

const BY: [By; 4] = [By::Lines, By::Chunks, By::Shared, By::Ways];

/// All algorithms, each with its own lines in the same MPBs.
struct All {
    ways: Ways,
    lines: LineExchange,
    chunks: ChunkExchange,
    shared: SharedAllGather,
}

#[derive(Clone, Copy, Debug)]
struct Sizes {
    slots: usize,
    chunk_lines: usize,
    buffers: usize,
}

impl Sizes {
    fn settings(self) -> Settings {
        let Sizes { slots, chunk_lines, .. } = self;
        let (slots, chunk_lines) = (Some(slots), Some(chunk_lines));
        Settings { slots, chunk_lines, ..Settings::default() }
    }

    fn firsts(self, cores: usize) -> [usize; 4] {
        let Sizes { slots, chunk_lines, buffers } = self;
        let machine = Machine { ranks: cores, cores, payload: LINE_BYTES - 8 };
        let options = ChunkOptions { chunk_lines, buffers, first_line: 0 };
        let ways = Ways::lines(machine, &self.settings()).unwrap();
        let lines = ways + LineExchange::lines(slots, cores).unwrap();
        let chunks = lines + options.lines(cores).unwrap();
        [ways, lines, chunks, chunks + SharedAllGather::lines(options, cores).unwrap()]
    }
}

impl All {
    fn new<M: MpbAccess>(mpb: &M, sizes: Sizes) -> All {
        let Sizes { slots, chunk_lines, buffers } = sizes;
        let [first, second, third, _] = sizes.firsts(mpb.ranks());
        let options = |first_line| ChunkOptions { chunk_lines, buffers, first_line };
        All {
            ways: Ways::new(mpb, mpb.ranks(), &sizes.settings()).unwrap(),
            lines: LineExchange::new(mpb, slots, first).unwrap(),
            chunks: ChunkExchange::new(mpb, options(second)).unwrap(),
            shared: SharedAllGather::new(mpb, options(third)).unwrap(),
        }
    }

    async fn exchange<T: Traffic, M: MpbAccess>(&mut self, mpb: &mut M, mut traffic: T, by: By) {
        let traffic = &mut traffic;
        let done = match by {
            By::Lines => self.lines.exchange(mpb, traffic).await,
            By::Chunks | By::Shared => self.chunks.exchange(mpb, traffic).await,
            By::Ways => self.ways.exchange(mpb, traffic).await,
        };
        done.unwrap();
    }

    async fn all_gather<M: MpbAccess>(&mut self, mpb: &mut M, mut traffic: AllGather<'_>, by: By) {
        match by {
            By::Shared => self.shared.all_gather(mpb, &mut traffic).await.unwrap(),
            By::Ways => self.ways.all_gather(mpb, &mut traffic).await.unwrap(),
            _ => self.exchange(mpb, traffic, by).await,
        }
    }

    async fn step<M: MpbAccess>(&mut self, mpb: &mut M, step: Step, by: By) {
        let Step { operation, varying, in_place, root, .. } = step;
        let (me, ranks) = (mpb.rank(), mpb.ranks());
        let here = me == root || matches!(operation, Operation::AllGather | Operation::AllToAll);
        let receiving = if here { step.receiving(me, ranks) } else { Buffer::default() };
        let (mut to, own) = (receiving.before, step.own(me));
        let blocks = if varying { Blocks::At(&receiving.blocks) } else { Blocks::Equal };
        match operation {
            Operation::Gather if in_place => {
                let mut buffer = if here { to } else { own.clone() };
                let traffic = Gather::new(mpb, None, &mut buffer, blocks, root).unwrap();
                self.exchange(mpb, traffic, by).await;
                assert_eq!(buffer, if here { receiving.after } else { own }, "{step:?}");
                return;
            }
            Operation::Gather => {
                let traffic = Gather::new(mpb, Some(&own), &mut to, blocks, root).unwrap();
                self.exchange(mpb, traffic, by).await;
            }
            Operation::Scatter => {
                let from = if here { step.sending(me, ranks) } else { Buffer::default() };
                let blocks = if varying { Blocks::At(&from.blocks) } else { Blocks::Equal };
                let (mut own, after) = step.scattered(me);
                if in_place {
                    let mut buffer = if here { from.before } else { own };
                    let traffic =
                        Scatter::new(mpb, Cut::InPlace(&mut buffer), blocks, root).unwrap();
                    self.exchange(mpb, traffic, by).await;
                    assert_eq!(buffer, if here { from.after } else { after }, "{step:?}");
                } else {
                    let cut = Cut::Apart { all: &from.before, own: &mut own };
                    let traffic = Scatter::new(mpb, cut, blocks, root).unwrap();
                    self.exchange(mpb, traffic, by).await;
                    assert_eq!(own, after, "{step:?}");
                }
                return;
            }
            Operation::AllGather => {
                let own = (!in_place).then_some(&own[..]);
                let traffic = AllGather::new(mpb, own, &mut to, blocks).unwrap();
                self.all_gather(mpb, traffic, by).await;
            }
            Operation::AllToAll if in_place => {
                let traffic = AllToAll::new(mpb, None, (&mut to[..], blocks)).unwrap();
                self.exchange(mpb, traffic, by).await;
            }
            Operation::AllToAll => {
                let from = step.sending(me, ranks);
                let send = if varying { Blocks::At(&from.blocks) } else { Blocks::Equal };
                let (send, receive) = (Some((&from.before[..], send)), (&mut to[..], blocks));
                let traffic = AllToAll::new(mpb, send, receive).unwrap();
                self.exchange(mpb, traffic, by).await;
            }
        }
        assert_eq!(to, receiving.after, "rank {me}, {step:?}");
    }
}

/// Runs all steps on cores that are sometimes late, before any operation.
fn series(cores: usize, sizes: Sizes, steps: &[(Step, By)]) {
    let [.., lines] = sizes.firsts(cores);
    let run = run(machine(cores, lines), async |core| {
        let core = &mut Erratic::new(core);
        let mut all = All::new(core, sizes);
        for &(step, by) in steps {
            all.step(core, step, by).await;
        }
    });
    run.unwrap_or_else(|error| panic!("{cores} cores, {sizes:?}: {error}"));
}

#[test]
fn all_forms_on_all_numbers_of_cores() {
    for cores in (1..=12).chain([16, 33, 48]) {
        let counts = [0, 1, 23, 24, 25, 48, 49, 64, 65, 300];
        let steps: Vec<_> = (0..if cores > 12 { 64 } else { 160 })
            .map(|number| {
                let form = number % 16;
                let step = Step {
                    number,
                    operation: OPERATIONS[form / 4],
                    varying: form % 2 == 1,
                    in_place: form / 2 % 2 == 1,
                    root: number * 5 % cores,
                    count: counts[(number * 7 + number / 16) % counts.len()],
                };
                (step, BY[(number / 3 + number / 16) % 4])
            })
            .collect();
        series(cores, Sizes { slots: 4, chunk_lines: 2, buffers: 3 }, &steps);
    }
}

fn any_step() -> impl Strategy<Value = (Step, By)> {
    let operation = proptest::sample::select(OPERATIONS.to_vec());
    let by = proptest::sample::select(BY.to_vec());
    (operation, any::<bool>(), any::<bool>(), 0_usize..60, 0_usize..400, by).prop_map(
        |(operation, varying, in_place, root, count, by)| {
            let step = Step { number: 0, operation, varying, in_place, root, count };
            (step, by)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn any_series_with_any_sizes(
        cores in 1_usize..8,
        slots in 1_usize..9,
        chunk_lines in 1_usize..5,
        buffers in 1_usize..7,
        mut steps in prop::collection::vec(any_step(), 1..20),
    ) {
        for (number, (step, _)) in steps.iter_mut().enumerate() {
            step.number = number;
            step.root %= cores;
        }
        series(cores, Sizes { slots, chunk_lines, buffers }, &steps);
    }
}

#[test]
fn what_can_not_be() {
    let run = run(machine(2, 26), async |core| {
        let no_room = |first_line| Some(ReduceOptionsError::NoRoom { first_line, lines: 26 });
        let options =
            |chunk_lines, buffers, first_line| ChunkOptions { chunk_lines, buffers, first_line };
        let chunks = |a, b, c| ChunkExchange::new(core, options(a, b, c)).err();
        assert_eq!((chunks(2, 8, 0), chunks(2, 8, 7)), (None, no_room(7)));
        assert_eq!(chunks(usize::MAX, 2, 0), no_room(0));
        assert_eq!(chunks(2, 0, 0), Some(ReduceOptionsError::NoBuffer));
        assert_eq!(chunks(0, 2, 0), Some(ReduceOptionsError::NoBuffer));
        let shared = |a, b, c| SharedAllGather::new(core, options(a, b, c)).err();
        assert_eq!((shared(2, 8, 0), shared(2, 8, 7)), (None, no_room(7)));
        let ways = |chunk_lines| {
            let (slots, chunk_lines) = (Some(2), Some(chunk_lines));
            let settings = Settings { slots, chunk_lines, ..Settings::default() };
            Ways::new(core, 2, &settings).map(|ways| {
                [(Collective::Gather, 25), (Collective::AllGather, 24)]
                    .map(|(collective, bytes)| ways.explain(collective, bytes).algorithm)
            })
        };
        assert_eq!(ways(2).unwrap_err(), WaysError::Chunks(no_room(22).unwrap()));
        let fits = ways(1).unwrap();
        assert_eq!(fits, [Way::Chunks.into(), WayToAll::Lines.into()]);
        assert_eq!(ways(usize::MAX).unwrap_err(), WaysError::Chunks(no_room(0).unwrap()));
    });
    run.unwrap();
}
