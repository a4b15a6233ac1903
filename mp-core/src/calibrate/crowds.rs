//! Several cores that access one line: contention (section 2.2.2) and invalidation (section 2.3).

use std::sync::OnceLock;

use super::{
    Outcome, Point, Unmeasured,
    chains::{Chain, SHARED},
    copies::slowest,
    sample::Sample,
    team::{Limits, play},
};

/// Returns the numbers of cores to measure with, not counting the core that owns the lines, up to all that there are.
/// There must be at least `least`.
fn crowds(cores: usize, least: usize) -> Outcome<Vec<usize>> {
    let most = cores.saturating_sub(1);
    if most < least {
        return Err(Unmeasured::FewCores { needed: least + 1, cores });
    }
    let steps = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64];
    Ok(steps.into_iter().filter(|&step| step < most).chain([most.min(64)]).collect())
}

fn points(
    cpus: &[usize],
    least: usize,
    of: impl Fn(&[usize]) -> Outcome<Sample>,
) -> Outcome<Vec<Point>> {
    let point = |n: usize| Ok(Point { n: n as u64, sample: of(&cpus[..=n])? });
    crowds(cpus.len(), least)?.into_iter().map(point).collect()
}

/// Measures how n cores read the lines that the first CPU has written, all at the same time and in the same order.
pub(super) fn readers(cpus: &[usize], limits: Limits) -> Outcome<Vec<Point>> {
    points(cpus, 2, |cpus| {
        let chain = OnceLock::new();
        let said = play(cpus, limits, |member| {
            let mut values = Vec::new();
            while member.again() {
                if member.seat == 0 {
                    chain.get_or_init(|| Chain::new(SHARED)).write();
                }
                member.pass();
                if let Some(chain) = chain.get().filter(|_| member.seat > 0) {
                    values.push(chain.read());
                }
                member.pass();
            }
            values
        })?;
        Ok(Sample::of(slowest(&said[1..])))
    })
}

/// Measures how the first CPU writes lines that n other cores have just read. With one other core, this is the cost of
/// writing a line that another core has.
pub(super) fn sharers(cpus: &[usize], limits: Limits) -> Outcome<Vec<Point>> {
    points(cpus, 1, |cpus| {
        let chain = OnceLock::new();
        let said = play(cpus, limits, |member| {
            let mut values = Vec::new();
            while member.again() {
                if member.seat == 0 {
                    chain.get_or_init(|| Chain::new(SHARED)).write();
                }
                member.pass();
                if let Some(chain) = chain.get().filter(|_| member.seat > 0) {
                    chain.read();
                }
                member.pass();
                if let Some(chain) = chain.get().filter(|_| member.seat == 0) {
                    values.push(chain.rewrite());
                }
                member.pass();
            }
            values
        })?;
        Ok(Sample::of(said.into_iter().next().unwrap_or_default()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crowds_grow_to_all_that_there_are() {
        assert_eq!(crowds(2, 2), Err(Unmeasured::FewCores { needed: 3, cores: 2 }));
        assert_eq!(crowds(1, 1), Err(Unmeasured::FewCores { needed: 2, cores: 1 }));
        assert_eq!(crowds(2, 1).unwrap(), [1]);
        assert_eq!(crowds(3, 2).unwrap(), [1, 2]);
        assert_eq!(crowds(8, 2).unwrap(), [1, 2, 3, 4, 6, 7]);
        assert_eq!(crowds(9, 1).unwrap(), [1, 2, 3, 4, 6, 8]);
        assert_eq!(crowds(200, 2).unwrap().last(), Some(&64));
    }
}
