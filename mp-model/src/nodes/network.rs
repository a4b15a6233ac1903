//! The LogGP parameters of networks, and where they come from.
//!
//! A. Alexandrov, M. Ionescu, K. Schauser and C. Scheiman, *LogGP: Incorporating Long Messages into the LogP Model*
//! (SPAA 1995). A message of k bytes between two idle nodes takes o + L + kG + o: the paper has (k − 1)G, a byte less.
//!
//! There is one price for a byte. A real library copies short messages on their way, and asks the receiver before it
//! sends a long one (eager and rendezvous); both are left out. Published ping-pongs of 1 KiB to 64 KiB take up to 2.2
//! times what the parameters say, and those of 1 MiB an eighth more (see the tests).

use crate::Time;

/// A network of equal nodes, each of which has one interface for all its ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network {
    /// Its name, in lower case with hyphens.
    pub name: &'static str,
    /// L: how long the first byte is under way from interface to interface.
    pub latency: Time,
    /// o: how long a core is busy with a message that it sends or receives.
    pub overhead: Time,
    /// g: how long an interface is busy with a message, in addition to its bytes.
    pub gap: Time,
    /// 1/G: how many bytes pass an interface in a microsecond, in each direction.
    pub bytes_per_micro: u64,
}

impl Network {
    /// InfiniBand HDR, 200 Gb/s.
    ///
    /// OSU's benchmarks between nodes of Azure's CycleCloud, in V. Sochat and others, *Performance Study*
    /// (doi:10.5281/zenodo.13738495, `analysis/osu-benchmarks/data/osu_latency-128-dataframe.csv` and `osu_bw-128`
    /// there at commit 6f3df68, medians of 56 runs): a message of 4 bytes takes 1.57 µs, which are L + 2o. Of such
    /// messages, `osu_bw` sends 16.13 MB/s, one in 0.248 µs, which is o; of messages of 4 MiB, 24,671 MB/s. What all
    /// cores of a node can send was not measured there: g is that of 215 million messages per second, which NVIDIA's
    /// manual says of ConnectX-6, the adapter for HDR.
    pub const HDR: Network = Network {
        name: "infiniband-hdr",
        latency: Time::from_picos(1_074_000),
        overhead: Time::from_picos(248_000),
        gap: Time::from_picos(4_651),
        bytes_per_micro: 24_671,
    };

    /// Slingshot 10, one interface of 100 Gb/s, of the Cray EX ARCHER2.
    ///
    /// Intel's `PingPong` between two nodes, published by EPCC (github.com/hpc-uk/archer-benchmarks at commit f644ea4,
    /// `synth/IMB/results/ARCHER2_CrayMPICH8015_pingpong/IMB_PingPong_2nodes_CrayMPICH_internode_202012171727.out`):
    /// 2.61 µs for 8 bytes are L + 2o, and 4 MiB go at 11,395 MB/s. A ping-pong does not tell o and g: they are taken
    /// from [`Network::HDR`]. Only algorithms in which a rank sends several messages in a row depend on that.
    pub const SLINGSHOT_10: Network = Network {
        name: "slingshot-10",
        latency: Time::from_picos(2_114_000),
        overhead: Network::HDR.overhead,
        gap: Network::HDR.gap,
        bytes_per_micro: 11_395,
    };

    /// All networks that have a name here.
    pub const ALL: [Network; 2] = [Network::HDR, Network::SLINGSHOT_10];

    /// Returns the network of this name.
    pub fn named(name: &str) -> Option<Network> {
        Network::ALL.into_iter().find(|network| network.name == name)
    }

    /// Returns kG: how long this many bytes take to pass an interface.
    pub fn bytes(&self, bytes: u64) -> Time {
        Time::from_picos(bytes * 1_000_000 / self.bytes_per_micro)
    }

    /// Returns how long an interface is busy with a message.
    pub(super) fn busy(&self, bytes: u64) -> Time {
        self.gap + self.bytes(bytes)
    }
}
