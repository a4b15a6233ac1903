//! Where two levels are faster and where they aren't: 8 bytes to 64 MiB on 2 to 4096 nodes of 64 ranks.

use super::*;

const LENGTHS: [u64; 9] = [8, 64, 512, 1 << 12, 1 << 15, 1 << 18, 1 << 21, 1 << 24, 1 << 26];

fn nodes() -> impl Iterator<Item = usize> {
    (1..=12).map(|power| 1 << power).chain([3, 5, 6, 7, 100, 1000])
}

/// How much longer two levels take than a flat operation, as a ratio.
fn ratio(prediction: Prediction) -> f64 {
    prediction.two_level.time.as_nanos() / prediction.flat.time.as_nanos()
}

/// A flat binomial tree over ranks of neighbouring numbers has two levels, too. Its only disadvantage is then the tree
/// on the node. Long messages gain more.
#[test]
fn broadcasts_on_two_levels_are_always_faster() {
    for network in Network::ALL {
        for nodes in nodes() {
            let cluster = cluster(network, nodes, 64);
            let mut before = Time::ZERO;
            for bytes in LENGTHS {
                let predicted = broadcast(&cluster, bytes);
                let ratio = ratio(predicted);
                let place = format!("{} {nodes} {bytes}: {ratio}", network.name);
                assert!(ratio < 1.0, "{place}");
                assert!(bytes > 64 || ratio > 0.95, "{place}");
                assert!(bytes < 1 << 18 || ratio < 0.9, "{place}");
                assert!(predicted.two_level.time >= before, "{place}");
                before = predicted.two_level.time;
            }
        }
    }
}

/// Of up to 64 bytes, flat recursive doubling is as fast within a twentieth on a power of two of nodes. On other
/// numbers of nodes two levels take up to 30 percent longer, since the ranks beyond a power of two have neighbours on
/// their node, and the leaders beyond it don't. Of 512 bytes, either may be faster. Of 4 to 32 KiB, two levels are
/// faster everywhere: 64 ranks do not share an interface. Of 256 KiB and more, a flat ring is up to twice as fast on
/// few nodes, because each leader gets the whole vector from its node and returns it. With more nodes it is too long.
#[test]
fn all_reduces_on_two_levels_are_faster_unless_short_or_on_few_nodes() {
    for network in Network::ALL {
        for nodes in nodes() {
            let cluster = cluster(network, nodes, 64);
            let mut before = Time::ZERO;
            for bytes in LENGTHS {
                let predicted = all_reduce(&cluster, bytes);
                let (ratio, few) = (ratio(predicted), bytes >> 17);
                let place = format!("{} {nodes} {bytes}: {ratio}", network.name);
                match bytes {
                    8 if nodes.is_power_of_two() => {
                        assert!((1.0..1.05).contains(&ratio), "{place}")
                    }
                    ..=64 if nodes.is_power_of_two() => {
                        assert!((0.9..1.05).contains(&ratio), "{place}");
                    }
                    ..=64 => assert!((0.95..1.3).contains(&ratio), "{place}"),
                    512 => assert!((0.7..1.1).contains(&ratio), "{place}"),
                    4096..=32_768 => assert!(ratio < 0.7, "{place}"),
                    _ if nodes as u64 <= few => assert!((1.05..2.0).contains(&ratio), "{place}"),
                    _ if nodes as u64 >= 4 * few => assert!(ratio < 0.8, "{place}"),
                    // In between, one turns into the other.
                    _ => {}
                }
                if bytes >= 1 << 18 && nodes as u64 <= few {
                    assert_eq!(predicted.flat.algorithm, Algorithm::Ring, "{place}");
                }
                assert!(predicted.two_level.time >= before, "{place}");
                before = predicted.two_level.time;
            }
        }
    }
}

#[test]
fn chunks_overlap_and_never_cost() {
    for network in Network::ALL {
        for nodes in [1, 2, 5, 64] {
            let cluster = cluster(network, nodes, 64);
            for bytes in LENGTHS {
                for predict in [all_reduce, broadcast] {
                    let two = predict(&cluster, bytes).two_level;
                    let reduced = two.reduce.map_or(Time::ZERO, |reduce| reduce.time);
                    let on_node = reduced + two.broadcast.predicted;
                    // No less than what each of the two stages takes, and no more than one after the other.
                    assert!(two.time >= two.chunks * on_node.max(two.leaders.time));
                    assert!(two.time <= two.chunks * (on_node + two.leaders.time));
                    assert!(two.chunks == 1 || bytes / two.chunks >= LEAST_CHUNK);
                    assert!(two.chunk * two.chunks >= bytes);
                }
            }
        }
    }
    let long = all_reduce(&cluster(Network::HDR, 64, 64), 1 << 26).two_level;
    assert!(long.chunks > 1, "{long:?}");
}
