//! Predictions beside published measurements. The sources are those of [`Network`].

use super::*;

fn micros(time: Time) -> f64 {
    time.as_micros()
}

/// Ping-pongs between two nodes, in µs: those of 1 KiB to 64 KiB take up to 2.2 times what LogGP says, and others up to
/// a fifth more.
#[test]
fn ping_pongs() {
    let hdr = [(4, 1.57), (64, 1.77), (1024, 2.62), (8192, 3.99), (65_536, 8.98), (1 << 20, 49.63)];
    let slingshot = [(8, 2.61), (64, 2.83), (1024, 3.95), (8192, 5.91), (65_536, 13.65)];
    let long = [(1 << 20, 106.14), (4 << 20, 368.07)];
    let all = slingshot.into_iter().chain(long).map(|one| (Network::SLINGSHOT_10, one));
    for (network, (bytes, measured)) in hdr.map(|one| (Network::HDR, one)).into_iter().chain(all) {
        let took = 2 * network.overhead + network.latency + network.bytes(bytes);
        let ratio = measured / micros(took);
        let most = if (1024..=65_536).contains(&bytes) { 2.2 } else { 1.2 };
        assert!((0.99..most).contains(&ratio), "{} {bytes}: {ratio}", network.name);
    }
}

/// Intel's `Allreduce` on ARCHER2, Cray MPICH 8.0.15, 128 ranks on each node: `t_avg` in µs on 1, 2, 4, 8, 16 and 32
/// nodes (in the same repository, `ARCHER2_CrayMPICH8015/IMB_Allreduce_*`, of November 2020).
const ARCHER2: [(u64, [f64; 6]); 5] = [
    (8, [4.94, 8.42, 10.24, 13.07, 16.24, 21.26]),
    (1024, [17.35, 21.71, 24.93, 28.84, 33.99, 41.50]),
    (16_384, [160.51, 182.59, 192.85, 202.97, 203.24, 224.73]),
    (65_536, [396.58, 435.84, 457.23, 469.66, 481.78, 562.92]),
    (4 << 20, [18_480.30, 19_238.60, 19_537.04, 19_988.30, 20_442.44, 21_308.98]),
];

/// What its nodes add to the time on one node, against what its leaders take by the model: 2.65 µs for each of the
/// rounds of 8 bytes on 2 to 16 nodes, where 2.6 to 3.5 were measured. The model is always optimistic, but for 4 MiB on
/// 4 nodes (5 percent). It has 60 to 100 percent of what 8 bytes and 1 KiB add, 29 to 63 percent of what 16 and 64 KiB
/// do, of which a ping-pong, too, takes up to twice as long as it says, and 51 to 105 percent of what 4 MiB do. The
/// whole, with the published time on one node, is 23 percent too little at most.
///
/// This supposes that the library's work on a node is the same on several, and that combining costs what it does on the
/// dual-socket machine of the paper on cache lines, whose cores are not those of ARCHER2.
#[test]
fn what_nodes_add_to_all_reduces_of_archer2() {
    for (bytes, measured) in ARCHER2 {
        let on_one = measured[0];
        for (power, whole) in (1..).zip(&measured[1..]) {
            let cluster = cluster(Network::SLINGSHOT_10, 1 << power, 64);
            let leaders = Algorithm::best(&Algorithm::ALL_REDUCES, cluster.world(1), bytes);
            let added = micros(leaders.unwrap().time);
            let (of_added, of_whole) = (added / (whole - on_one), (on_one + added) / whole);
            let place = format!("{bytes} bytes on {} nodes: {of_added}, {of_whole}", 1 << power);
            let least = if (16_384..=65_536).contains(&bytes) { 0.28 } else { 0.5 };
            assert!((least..1.06).contains(&of_added), "{place}");
            assert!((0.77..1.01).contains(&of_whole), "{place}");
        }
    }
}
