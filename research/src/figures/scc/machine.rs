//! The simulated SCC, as the thesis' algorithms need it, and their names.

use mp_collectives::broadcast::Options;

use crate::experiments::{Algorithm, scc_with_rcce};
use crate::scc::Parameters;
use crate::sim::{InterruptCosts, Machine};

/// The degrees that the thesis shows: the least with any parallelism, the least with a depth of two, and one with all
/// ranks as children of the root (section 3.3.1).
pub(super) const DEGREES: [usize; 3] = [2, 7, 47];

pub(super) const LINES: &str = "message size (cache lines)";

/// Returns the SCC with the fitted costs of software.
pub(super) fn scc() -> Machine {
    let interrupts = InterruptCosts::FITTED;
    Machine { costs: Parameters::FITTED, interrupts, ..Machine::scc() }
}

pub(super) fn oc_bcast(degree: usize) -> Algorithm {
    Algorithm::OcBcast(Options::scc(degree))
}

/// Returns the SCC as an algorithm needs it.
pub(super) fn machine(algorithm: Algorithm) -> Machine {
    match algorithm {
        Algorithm::OcBcast(_) => scc(),
        Algorithm::Binomial | Algorithm::ScatterAllgather => scc_with_rcce(scc()),
    }
}

pub(super) fn name(algorithm: Algorithm) -> String {
    match algorithm {
        Algorithm::OcBcast(options) => format!("k = {}", options.degree),
        Algorithm::Binomial => "binomial".to_owned(),
        Algorithm::ScatterAllgather => "scatter-allgather".to_owned(),
    }
}
