//! Ranks that can never continue.
//!
//! A rank that waits for any of several peers is stuck when *all* of them are stuck or have ended. A cycle in the graph
//! of waits alone proves nothing. So the stuck ranks are the largest set of waiting ranks in which no rank has a peer
//! outside the set that still runs. The set is found by removing ranks until nothing changes. A rank that waits for the
//! results of all ranks is stuck when *any* of those ranks is stuck.

use std::collections::VecDeque;

use super::facts::{RankReport, WorldReport};
use crate::wait::Operation;

/// Marks the stuck ranks and names the cycles. Only waits for which `counts` returns true are taken as lasting. Returns
/// whether any rank is stuck.
pub(super) fn judge(report: &mut WorldReport, counts: impl Fn(&RankReport) -> bool) -> bool {
    let ranks = &mut report.ranks;
    let ended: Vec<bool> = ranks.iter().map(|rank| rank.stage.ended()).collect();
    let mut stuck: Vec<bool> = ranks
        .iter()
        .map(|rank| {
            let lasting =
                |wait: &super::WaitReport| wait.gives_up_in.is_none() && wait.further_channels == 0;
            rank.wait.as_ref().is_some_and(lasting) && !rank.helped && counts(rank)
        })
        .collect();
    loop {
        let freed = ranks.iter().find(|rank| {
            let Some(wait) = rank.wait.as_ref().filter(|_| stuck[rank.rank]) else { return false };
            let mut peers = wait.peers.iter();
            match wait.operation {
                Operation::Results => !peers.any(|&peer| stuck[peer]),
                // A rank whose code has ended may be waiting for results. It frees no other rank.
                _ => peers.any(|&peer| !stuck[peer] && !ended[peer]),
            }
        });
        match freed {
            Some(rank) => stuck[rank.rank] = false,
            None => break,
        }
    }
    for rank in ranks.iter_mut() {
        rank.stuck = stuck[rank.rank];
    }
    report.cycles = cycles(&report.ranks, &ended);
    stuck.contains(&true)
}

/// Returns one shortest cycle for each group of stuck ranks that wait for each other.
fn cycles(ranks: &[RankReport], ended: &[bool]) -> Vec<Vec<usize>> {
    let edges: Vec<Vec<usize>> = ranks
        .iter()
        .map(|rank| match &rank.wait {
            Some(wait) if rank.stuck && !ended[rank.rank] => {
                wait.peers.iter().copied().filter(|&p| ranks[p].stuck && !ended[p]).collect()
            }
            _ => Vec::new(),
        })
        .collect();
    let mut back = vec![Vec::new(); edges.len()];
    for (rank, peers) in edges.iter().enumerate() {
        peers.iter().for_each(|&peer| back[peer].push(rank));
    }
    let mut named = vec![false; edges.len()];
    let mut found = Vec::new();
    for rank in 0..edges.len() {
        if named[rank] || edges[rank].is_empty() || back[rank].is_empty() {
            continue;
        }
        let (there, from) = (reach(&edges, rank), reach(&back, rank));
        if there[rank].is_none() {
            continue;
        }
        (0..edges.len())
            .filter(|&r| there[r].is_some() && from[r].is_some())
            .for_each(|r| named[r] = true);
        // This follows the shortest path from `rank` to itself backwards.
        let mut cycle = vec![rank];
        let mut at = there[rank];
        while let Some(before) = at.filter(|&before| before != rank) {
            cycle.push(before);
            at = there[before];
        }
        cycle[1..].reverse();
        found.push(cycle);
    }
    found
}

/// Returns, for each rank that can be reached from `start` over at least one edge, the rank before it on a shortest
/// path.
fn reach(edges: &[Vec<usize>], start: usize) -> Vec<Option<usize>> {
    let mut from = vec![None; edges.len()];
    let mut queue = VecDeque::from([start]);
    while let Some(rank) = queue.pop_front() {
        for &peer in &edges[rank] {
            if from[peer].is_none() {
                from[peer] = Some(rank);
                if peer != start {
                    queue.push_back(peer);
                }
            }
        }
    }
    from
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::{
        super::{RankKind, RankStage, WaitReport},
        *,
    };
    use crate::world::MemoryUse;

    /// What a rank does in a test. The fields are the ranks for which it waits.
    #[derive(Clone, Debug)]
    enum Part {
        Runs,
        Ended,
        Receives(Vec<usize>),
        /// The rank waits while a thread beside it sends for it.
        Helped(Vec<usize>),
        ForAWhile(Vec<usize>),
        Results,
    }
    use Part::*;

    fn world(parts: &[Part]) -> WorldReport {
        let unended = |me: usize| {
            let alive = |&rank: &usize| rank != me && !matches!(parts[rank], Ended | Results);
            (0..parts.len()).filter(alive).collect()
        };
        let ranks = parts.iter().enumerate().map(|(rank, part)| {
            let wait = |operation, peers: Vec<usize>, gives_up_in| WaitReport {
                operation,
                call: None,
                channels: Vec::new(),
                flag: None,
                beside: Vec::new(),
                further_channels: 0,
                peers,
                since: Duration::ZERO,
                gives_up_in,
                version: 0,
            };
            let (stage, wait) = match part.clone() {
                Runs => (RankStage::Running, None),
                Ended => (RankStage::Finished, None),
                Receives(peers) | Helped(peers) => {
                    (RankStage::Running, Some(wait(Operation::Receive, peers, None)))
                }
                ForAWhile(peers) => {
                    let limit = Some(Duration::from_secs(1));
                    (RankStage::Running, Some(wait(Operation::Receive, peers, limit)))
                }
                Results => {
                    (RankStage::Finished, Some(wait(Operation::Results, unended(rank), None)))
                }
            };
            let (blocked_sends, helped) = (Vec::new(), matches!(part, Helped(_)));
            RankReport { rank, pid: None, stage, wait, blocked_sends, helped, stuck: false }
        });
        WorldReport {
            program: String::new(),
            launcher: 0,
            kind: RankKind::Threads,
            age: Duration::ZERO,
            memory: MemoryUse { in_use: 0, touched: 0 },
            resident: 0,
            ranks: ranks.collect(),
            cycles: Vec::new(),
        }
    }

    fn judged(parts: &[Part]) -> (Vec<usize>, Vec<Vec<usize>>) {
        let mut report = world(parts);
        judge(&mut report, |_| true);
        let stuck = report.ranks.iter().filter(|rank| rank.stuck).map(|rank| rank.rank);
        (stuck.collect(), report.cycles)
    }

    #[test]
    fn a_cycle_of_single_waits_is_named_and_who_waits_behind_it_is_stuck() {
        let (stuck, cycles) =
            judged(&[Receives(vec![1]), Receives(vec![2]), Receives(vec![0]), Receives(vec![1])]);
        assert_eq!(stuck, [0, 1, 2, 3]);
        assert_eq!(cycles, [vec![0, 1, 2]]);
    }

    #[test]
    fn a_rank_that_waits_for_itself_is_a_cycle_of_one() {
        assert_eq!(judged(&[Receives(vec![0]), Runs]), (vec![0], vec![vec![0]]));
    }

    #[test]
    fn nobody_is_stuck_while_an_alternative_runs() {
        // 0 and 1 wait for each other, but a message from 2 would free 0 as well.
        assert_eq!(
            judged(&[Receives(vec![1, 2]), Receives(vec![0]), Runs]),
            (vec![], Vec::<Vec<usize>>::new())
        );
        // Now 2 waits for 1, so no rank is left that could free another.
        let (stuck, cycles) = judged(&[Receives(vec![1, 2]), Receives(vec![0]), Receives(vec![1])]);
        assert_eq!(stuck, [0, 1, 2]);
        assert_eq!(cycles, [vec![0, 1]]);
        // A peer that has ended is no alternative.
        assert_eq!(judged(&[Receives(vec![1, 2]), Receives(vec![0]), Ended]).0, [0, 1]);
    }

    #[test]
    fn a_rank_that_others_send_for_may_still_be_answered() {
        assert!(judged(&[Helped(vec![1]), Receives(vec![0])]).0.is_empty());
        assert_eq!(judged(&[Helped(vec![1]), Receives(vec![2]), Ended]).0, [1]);
    }

    #[test]
    fn a_wait_with_a_limit_ends() {
        assert!(judged(&[ForAWhile(vec![1]), Receives(vec![0])]).0.is_empty());
    }

    #[test]
    fn waiting_for_the_ended_is_stuck_without_a_cycle() {
        assert_eq!(judged(&[Receives(vec![1]), Ended]), (vec![0], vec![]));
        assert_eq!(judged(&[Receives(vec![]), Runs]), (vec![0], vec![]));
    }

    #[test]
    fn results_are_waited_for_from_all() {
        assert_eq!(judged(&[Results, Receives(vec![2]), Receives(vec![1]), Runs]).0, [0, 1, 2]);
        assert!(judged(&[Results, Runs, Results]).0.is_empty());
        assert!(judged(&[Results, Results]).0.is_empty());
        // A rank that waits for results sends nothing more.
        assert_eq!(judged(&[Results, Receives(vec![0])]).0, [0, 1]);
    }

    #[test]
    fn groups_are_named_one_by_one() {
        let pair = |a, b| [Receives(vec![b]), Receives(vec![a])];
        let parts: Vec<Part> = [pair(0, 1), pair(2, 3)].concat();
        assert_eq!(judged(&parts).1, [vec![0, 1], vec![2, 3]]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

        /// Compares the result with the definition: a rank that a running rank can free runs, too, and all other ranks
        /// are stuck.
        #[test]
        fn the_stuck_are_those_whom_no_running_rank_can_free_in_the_end(
            graph in prop::collection::vec((0u8..10, prop::collection::vec(0usize..7, 0..4)), 7)
        ) {
            let parts: Vec<Part> = graph.iter().map(|(kind, peers)| match kind {
                0 => Runs,
                1 => Ended,
                2 => ForAWhile(peers.clone()),
                3 => Helped(peers.clone()),
                _ => Receives(peers.clone()),
            }).collect();
            let mut moving: Vec<bool> =
                parts.iter().map(|part| matches!(part, Runs | Helped(_) | ForAWhile(_))).collect();
            for _ in 0..7 {
                for (rank, part) in parts.iter().enumerate() {
                    if let Receives(peers) = part && peers.iter().any(|&peer| moving[peer]) {
                        moving[rank] = true;
                    }
                }
            }
            let expected: Vec<usize> = (0..7)
                .filter(|&rank| !moving[rank] && matches!(parts[rank], Receives(_)))
                .collect();
            let (stuck, cycles) = judged(&parts);
            prop_assert_eq!(&stuck, &expected);
            for cycle in &cycles {
                for (at, rank) in cycle.iter().enumerate() {
                    let next = cycle[(at + 1) % cycle.len()];
                    prop_assert!(stuck.contains(rank));
                    prop_assert!(matches!(&parts[*rank], Receives(peers) if peers.contains(&next)));
                }
            }
            // If there is no cycle, no ranks wait for each other. Then a stuck rank has only peers that have ended, or
            // no peers.
            if !stuck.is_empty() && cycles.is_empty() {
                prop_assert!(stuck.iter().any(|&rank| matches!(&parts[rank], Receives(peers)
                    if peers.iter().all(|&peer| matches!(parts[peer], Ended)))));
            }
        }
    }
}
