//! Every numbered figure and table of the five papers, and where it is reproduced or why it is not.

/// A figure or a table of a paper.
pub struct Item {
    /// The paper and its number there: `Thesis 3.4`, `SPAA table 1`.
    pub number: &'static str,
    /// What it shows.
    pub shows: &'static str,
    /// What there is of it here.
    pub place: Place,
}

/// Where a figure or a table is.
pub enum Place {
    /// On this page, in the section of this [id](super::Entry::id).
    Section(&'static str),
    /// Not on the page, because it has no values or only those that simulations take from it. The kind of its contents,
    /// and the file of this repository that corresponds to it.
    File(&'static str, &'static str),
}

use Place::{File, Section};

const fn item(number: &'static str, shows: &'static str, place: Place) -> Item {
    Item { number, shows, place }
}

const HARDWARE: &str = "drawing of hardware, which is simulated";
const MODEL: &str = "drawing of the model's costs";
const COSTS: &str = "what simulations begin with";
const FORMULAS: &str = "formulas, as functions";
const RMRS: &str = "drawing; tests count its remote accesses";
const PSEUDO_CODE: &str = "pseudo-code, as programs";
const COMPARED: &str = "equations; tests compare them";
const GRAPH: &str = "graph; tests count its edges";

const CHIP: &str = "research/src/sim/machine.rs";
const PRIMITIVES: &str = "research/src/scc/primitives.rs";
const PARAMETERS: &str = "research/src/scc/parameters.rs";
const BROADCASTS: &str = "research/src/scc/broadcast.rs";
const SECTIONS: &str = "research/src/critical/tests.rs";
const LINES: &str = "mp-model/src/cla/parameters.rs";
const NOTIFICATIONS: &str = "research/src/cla/patterns.rs";
const TREES: &str = "mp-model/src/cla/patterns.rs";
const EQUATIONS: &str = "research/tests/cla/against_equations.rs";

/// All figures and tables, in the papers' order. Last are the sections of the page that belong to none of them.
pub const ITEMS: &[Item] = &[
    item("Thesis 2.1", "architecture of the Intel SCC", File(HARDWARE, CHIP)),
    item("Thesis 3.1", "message propagation and notification trees", Section("Thesis 3.1")),
    item("Thesis 3.2", "latency and throughput of broadcasts, measured", Section("Thesis 3.2")),
    item("Thesis 3.3", "latency of broadcasting an interrupt", Section("Thesis 3.3")),
    item("Thesis 3.4", "throughput of asynchronous broadcasts", Section("Thesis 3.4")),
    item("Thesis table 3.1", "synchronous and asynchronous latency", Section("Thesis table 3.1")),
    item("Thesis 4.1", "model of communication", File(MODEL, PRIMITIVES)),
    item("Thesis 4.2", "performance of get and put", Section("Thesis 4.2")),
    item("Thesis 4.3", "contention for an MPB", Section("Thesis 4.3")),
    item("Thesis 4.4", "model of broadcasts", File(FORMULAS, BROADCASTS)),
    item("Thesis 4.5", "analytical latency of broadcasts", Section("Thesis 4.5")),
    item("Thesis table 4.1", "parameters of the model", File(COSTS, PARAMETERS)),
    item("Thesis table 4.2", "analytical throughput of broadcasts", Section("Thesis table 4.2")),
    item("Thesis 5.1", "hand-over of a lock, shared memory", File(RMRS, SECTIONS)),
    item("Thesis 5.2", "mutual exclusion server, shared memory", File(RMRS, SECTIONS)),
    item("Thesis 6.1", "hand-over of a lock, messages", File(RMRS, SECTIONS)),
    item("Thesis 6.2", "mutual exclusion server, messages", File(RMRS, SECTIONS)),
    item(
        "Thesis 6.3",
        "an execution of HYBCOMB",
        File("drawing of an example", "mp-delegate/src/critical/combiners/hyb_comb.rs"),
    ),
    item("Thesis 6.4", "performance of classic locks", Section("Thesis 6.4")),
    item("Thesis 6.5", "performance of delegation", Section("Thesis 6.5")),
    item("Thesis 6.6", "analysis of the techniques", Section("Thesis 6.6")),
    item("Thesis 6.7", "latency of a concurrent counter", Section("Thesis 6.7")),
    item("Thesis 6.8", "concurrent queues and stacks", Section("Thesis 6.8")),
    item("Thesis 7.1", "server and client, baseline", File(RMRS, SECTIONS)),
    item("Thesis 7.2", "server and client, spinning meets prefetching", File(RMRS, SECTIONS)),
    item("Thesis 7.3", "server and client, backoff", File(RMRS, SECTIONS)),
    item("Thesis 7.4", "server and client, streaming stores", File(RMRS, SECTIONS)),
    item("Thesis 7.5", "impact of local backoff", Section("Thesis 7.5")),
    item("Thesis 7.6", "impact of streaming stores", Section("Thesis 7.6")),
    item("Thesis 7.7", "latency with backoff and streaming stores", Section("Thesis 7.7")),
    item("Thesis 7.8", "throughput with long critical sections", Section("Thesis 7.8")),
    item("Thesis 7.9", "concurrent counters", Section("Thesis 7.9")),
    item("Thesis 7.10", "concurrent stacks", Section("Thesis 7.10")),
    item("Thesis 7.11", "concurrent queues", Section("Thesis 7.11")),
    item("SPAA 1", "architecture of the Intel SCC", File(HARDWARE, CHIP)),
    item("SPAA 2", "model of communication", File(MODEL, PRIMITIVES)),
    item("SPAA 3", "performance of get and put", Section("Thesis 4.2")),
    item("SPAA 4", "contention for an MPB", Section("Thesis 4.3")),
    item("SPAA 5", "message propagation and notification trees", Section("Thesis 3.1")),
    item("SPAA 6", "analytical latency of broadcasts", Section("Thesis 4.5")),
    item("SPAA 7", "model of broadcasts", File(FORMULAS, BROADCASTS)),
    item("SPAA 8", "latency and throughput of broadcasts, measured", Section("Thesis 3.2")),
    item("SPAA table 1", "parameters of the model", File(COSTS, PARAMETERS)),
    item("SPAA table 2", "analytical throughput of broadcasts", Section("Thesis table 4.2")),
    item("MARC 1", "architecture of the Intel SCC", File(HARDWARE, CHIP)),
    item("MARC 2", "latency of broadcasting an interrupt", Section("Thesis 3.3")),
    item("MARC 3", "throughput of asynchronous broadcasts", Section("Thesis 3.4")),
    item("MARC table 1", "synchronous and asynchronous latency", Section("Thesis table 3.1")),
    item(
        "CLa 1",
        "architectures of Sandy Bridge and Xeon Phi",
        File(HARDWARE, "mp-model/src/cla/machine.rs"),
    ),
    item("CLa 2", "contention, congestion, transfers of several lines", Section("CLa 2")),
    item("CLa 3", "effect of directories", Section("CLa 3")),
    item("CLa 4", "many-to-one synchronization", File(PSEUDO_CODE, NOTIFICATIONS)),
    item("CLa 5", "many-to-one synchronization", File(GRAPH, EQUATIONS)),
    item("CLa 6", "synchronization on Sandy Bridge", Section("CLa 6")),
    item("CLa 7", "synchronization on Xeon Phi", Section("CLa 7")),
    item("CLa 8", "one-to-many synchronization", File(PSEUDO_CODE, NOTIFICATIONS)),
    item("CLa 9", "one-to-many synchronization", File(GRAPH, EQUATIONS)),
    item("CLa 10", "dissemination barrier", File(GRAPH, EQUATIONS)),
    item("CLa 11", "performance of barriers", Section("CLa 11")),
    item("CLa 12", "broadcast of one line", File(PSEUDO_CODE, TREES)),
    item("CLa 13", "broadcast of one line", File(GRAPH, EQUATIONS)),
    item("CLa 14", "performance of collectives, Sandy Bridge", Section("CLa 14")),
    item("CLa 15", "performance of collectives, Xeon Phi", Section("CLa 15")),
    item("CLa 16", "reduction of one line", File(PSEUDO_CODE, TREES)),
    item("CLa 17", "reduction of one line", File(GRAPH, EQUATIONS)),
    item("CLa table 1", "transfers of one line", File(COSTS, LINES)),
    item("CLa table 2", "contention on Xeon Phi", File(COSTS, LINES)),
    item("CLa table 3", "several lines, Sandy Bridge", File(COSTS, LINES)),
    item("CLa table 4", "several lines, Xeon Phi", File(COSTS, LINES)),
    item("CLa table 5", "models of many-to-one", File(COMPARED, EQUATIONS)),
    item("CLa table 6", "models of one-to-many", File(COMPARED, EQUATIONS)),
    item(
        "Buono 1",
        "cases of overlap of communication and calculation",
        File("drawing, as a model of costs", "mp-delegate/src/threads/pays.rs"),
    ),
    item(
        "Buono 2",
        "distribution, centralized and parallel",
        File("drawing of an algorithm", "mp-delegate/src/threads/distribute.rs"),
    ),
    item(
        "Buono 3",
        "implementation of the delegation mechanism",
        File("drawing of a queue", "mp-core/src/lane/mod.rs"),
    ),
    item("Buono 4", "task farm, implementations", Section("Buono table 1")),
    item("Buono 5", "task farm, allocation policies", Section("Buono table 2")),
    item("Buono 6", "stencil, 1080 × 1080", Section("Buono table 3")),
    item("Buono 7", "stencil, 8640 × 8640", Section("Buono table 4")),
    item("Buono 8", "gain of communication threads and of more workers", Section("Buono 8")),
    item("Buono table 1", "task farm, implementations", Section("Buono table 1")),
    item("Buono table 2", "task farm, allocation policies", Section("Buono table 2")),
    item("Buono table 3", "stencil, 1080 × 1080", Section("Buono table 3")),
    item("Buono table 4", "stencil, 8640 × 8640", Section("Buono table 4")),
    item("no figure", "OC-Bcast on larger chips (thesis, section 4.3.2)", Section("Thesis 4.3.2")),
    item(
        "no figure",
        "what moving a line costs, and how much hangs on it",
        Section("Costs of lines"),
    ),
    item("no figure", "where delegation beats locks (guide, page 8)", Section("Guide 8")),
];
