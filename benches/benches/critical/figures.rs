//! The content of each figure of the thesis.

use onchip::critical::{Backoff, Scheme, Section};

use crate::point::{Measured, Point, Used};

const CLIENTS: [usize; 4] = [1, 2, 4, 8];
/// The number of clients in the figures of longer operations: as many as there are cores.
const FEW: usize = 2;
/// A number of clients with which a combiner finds operations to combine.
const MANY: usize = 8;
/// The limit of the combiners in chapter 6.
const MAX_OPS: usize = 200;
/// The most turns of an empty loop between two operations: 50 in chapter 6. In chapter 7 it is up to 1000 cycles, and a
/// turn takes some cycles.
const IDLING_6: u32 = 50;
const IDLING_7: u32 = 300;

const HYB: Scheme = Scheme::HybLock;
const COMB: Scheme = Scheme::HybComb;
const CC: Scheme = Scheme::CcSynch;
const H: Scheme = Scheme::HSynch;
const SLOT: Scheme = Scheme::SlotServer;
const MP: Scheme = Scheme::MpServer(0);

/// The quantity on the vertical axis.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    Throughput,
    Latency,
}

/// One diagram.
#[derive(Clone, Copy)]
pub struct Panel {
    pub figure: &'static str,
    pub caption: &'static str,
    pub quantity: Quantity,
}

/// Diagrams of the same points.
pub struct Group {
    pub panels: Vec<Panel>,
    pub x_label: &'static str,
    pub lines: Vec<(String, Vec<(f64, Point)>)>,
}

/// A measured point of a line in a figure.
pub struct Taken {
    pub line: usize,
    pub x: f64,
    pub measured: Measured,
}

/// A measured group of panels.
pub struct Drawn {
    pub panels: Vec<Panel>,
    pub lines: Vec<String>,
    pub x_label: &'static str,
    pub points: Vec<Taken>,
}

impl Group {
    pub fn name(&self) -> String {
        let names: Vec<&str> = self.panels.iter().map(|panel| panel.figure).collect();
        names.join(" ")
    }
}

fn throughput(figure: &'static str, caption: &'static str) -> Panel {
    Panel { figure, caption, quantity: Quantity::Throughput }
}

fn latency(figure: &'static str, caption: &'static str) -> Panel {
    Panel { figure, caption, quantity: Quantity::Latency }
}

fn section(scheme: Scheme) -> Section {
    Section::new(scheme).max_ops(MAX_OPS)
}

/// Returns the slot server as in chapter 7.
fn server(backoff: Backoff, streaming: bool) -> Section {
    Section::new(SLOT).backoff(backoff).streaming(streaming)
}

fn backoffs() -> [(&'static str, Backoff); 4] {
    [
        ("base", Backoff::None),
        ("B4", Backoff::Fixed(4)),
        ("B16", Backoff::Fixed(16)),
        ("tuned", Backoff::Tuned),
    ]
}

struct Maker {
    quick: bool,
    idling: u32,
}

impl Maker {
    fn some<T: Copy>(&self, all: &[T]) -> Vec<T> {
        if self.quick { all.iter().copied().take(2).collect() } else { all.to_vec() }
    }

    fn point(&self, used: Used, clients: usize) -> Point {
        Point { used, clients, idling: self.idling, quick: self.quick }
    }

    fn clients(&self, name: impl Into<String>, used: Used) -> (String, Vec<(f64, Point)>) {
        let at = |clients| (clients as f64, self.point(used, clients));
        (name.into(), self.some(&CLIENTS).into_iter().map(at).collect())
    }

    fn increments(
        &self,
        name: impl Into<String>,
        section: Section,
        counts: &[u64],
    ) -> (String, Vec<(f64, Point)>) {
        let at = |count| (count as f64, self.point(Used::Increments(section, count), FEW));
        (name.into(), self.some(counts).into_iter().map(at).collect())
    }

    fn max_ops(&self, scheme: Scheme) -> (String, Vec<(f64, Point)>) {
        let at = |max_ops: usize| {
            let used = Used::Counter(Section::new(scheme).max_ops(max_ops));
            (max_ops as f64, self.point(used, MANY))
        };
        (scheme.to_string(), self.some(&[1, 8, 64, 512, 4096]).into_iter().map(at).collect())
    }
}

const LOCKS: [Scheme; 4] = [HYB, Scheme::Mcs, Scheme::Clh, Scheme::Tas];
/// The slot server is called SHM-SERVER in chapter 6.
const DELEGATION: [Scheme; 4] = [MP, COMB, SLOT, CC];
const UP_TO_25: [u64; 5] = [0, 1, 5, 15, 25];
const UP_TO_200: [u64; 5] = [0, 25, 64, 100, 200];

/// Returns all figures, in their order.
pub fn all(quick: bool) -> Vec<Group> {
    let mut all = chapter_6(&Maker { quick, idling: IDLING_6 });
    all.extend(chapter_7(&Maker { quick, idling: IDLING_7 }));
    all
}

fn chapter_6(make: &Maker) -> Vec<Group> {
    let counters = |schemes: [Scheme; 4]| {
        schemes.map(|scheme| make.clients(scheme.name(), Used::Counter(section(scheme)))).into()
    };
    let longer = |schemes: [Scheme; 4]| {
        schemes.map(|scheme| make.increments(scheme.name(), section(scheme), &UP_TO_25)).into()
    };
    let stacks = DELEGATION.into_iter().chain([HYB]);
    vec![
        Group {
            panels: vec![throughput("6.4a", "locks: a counter"), latency("6.4b", "locks: latency")],
            x_label: "clients",
            lines: counters(LOCKS),
        },
        Group {
            panels: vec![throughput("6.4c", "locks: longer sections, 2 clients")],
            x_label: "increments",
            lines: longer(LOCKS),
        },
        Group {
            panels: vec![
                throughput("6.5a", "delegation: a counter"),
                latency("6.5b", "delegation: latency"),
            ],
            x_label: "clients",
            lines: counters(DELEGATION),
        },
        Group {
            panels: vec![throughput("6.5c", "delegation: longer sections, 2 clients")],
            x_label: "increments",
            lines: longer(DELEGATION),
        },
        Group {
            panels: vec![throughput("6.6a", "a counter, 8 clients")],
            x_label: "MAX_OPS",
            lines: vec![make.max_ops(COMB), make.max_ops(CC)],
        },
        Group {
            panels: vec![throughput("6.8a", "queues")],
            x_label: "clients",
            lines: DELEGATION
                .into_iter()
                .map(|scheme| make.clients(format!("{scheme}-1"), Used::Queue(section(scheme))))
                .chain([
                    make.clients(format!("{MP}-2"), Used::TwoLockQueue(section(MP))),
                    make.clients(format!("{HYB}-2"), Used::TwoLockQueue(section(HYB))),
                    make.clients("ring", Used::RingQueue),
                ])
                .collect(),
        },
        Group {
            panels: vec![throughput("6.8b", "stacks")],
            x_label: "clients",
            lines: stacks
                .map(|scheme| make.clients(scheme.name(), Used::Stack(section(scheme))))
                .chain([make.clients("Treiber", Used::TreiberStack)])
                .collect(),
        },
    ]
}

fn chapter_7(make: &Maker) -> Vec<Group> {
    let servers = |streaming: bool| {
        let suffix = if streaming { "-SS" } else { "" };
        backoffs().map(|(name, backoff)| {
            let used = Used::ShortCounter(server(backoff, streaming));
            make.clients(format!("srv-{name}{suffix}"), used)
        })
    };
    let plain = server(Backoff::None, false);
    let tuned = server(Backoff::Tuned, false);
    let fixed = server(Backoff::Fixed(16), false);
    vec![
        Group {
            panels: vec![
                throughput("7.5", "a server: backoff"),
                latency("7.7", "a server: latency, backoff"),
            ],
            x_label: "clients",
            lines: { servers(false).into_iter() }
                .chain([("srv-base-shuf", plain), ("srv-B16-shuf", fixed)].map(
                    |(name, section)| {
                        make.clients(name, Used::ShortCounter(section.shuffled(true)))
                    },
                ))
                .collect(),
        },
        Group {
            panels: vec![
                throughput("7.6", "a server: streaming stores"),
                latency("7.7", "a server: latency, streaming stores"),
            ],
            x_label: "clients",
            lines: servers(true).into(),
        },
        Group {
            panels: vec![throughput("7.8", "a server: longer sections, 2 clients")],
            x_label: "increments",
            lines: vec![
                make.increments("srv-base", plain, &UP_TO_200),
                make.increments("srv-B16", fixed, &UP_TO_200),
                make.increments("srv-tuned", tuned, &UP_TO_200),
            ],
        },
        Group {
            panels: vec![throughput("7.9", "counters")],
            x_label: "clients",
            lines: vec![
                make.clients("srv-base", Used::ShortCounter(plain)),
                make.clients("srv-tuned", Used::ShortCounter(tuned)),
                make.clients("srv-SS", Used::ShortCounter(server(Backoff::None, true))),
                make.clients(CC.name(), Used::Counter(section(CC))),
                make.clients(H.name(), Used::Counter(section(H).groups(2))),
                make.clients("fetch-and-add", Used::FetchAdd),
            ],
        },
        Group {
            panels: vec![throughput("7.10", "stacks")],
            x_label: "clients",
            lines: vec![
                make.clients("srv-base", Used::Stack(plain)),
                make.clients("srv-tuned", Used::Stack(tuned)),
                make.clients(CC.name(), Used::Stack(section(CC))),
                make.clients(H.name(), Used::Stack(section(H).groups(2))),
                make.clients("Treiber", Used::TreiberStack),
            ],
        },
        Group {
            panels: vec![throughput("7.11", "queues")],
            x_label: "clients",
            lines: vec![
                make.clients("srv-base-1", Used::Queue(plain)),
                make.clients("srv-tuned-1", Used::Queue(tuned)),
                make.clients("srv-base-2", Used::TwoLockQueue(plain)),
                make.clients(format!("{CC}-2"), Used::TwoLockQueue(section(CC))),
                make.clients(format!("{H}-2"), Used::TwoLockQueue(section(H).groups(2))),
                make.clients("ring", Used::RingQueue),
            ],
        },
    ]
}
