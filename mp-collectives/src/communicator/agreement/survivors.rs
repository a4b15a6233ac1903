//! What the surviving ranks of a communicator do about lost ranks (User Level Failure Mitigation).
//!
//! **Revoking.** The rank that revokes sets a word on the board (`board.rs`). Then it changes the world's news and
//! marks all MPBs whose names have the communicator's prefix, so that waits for their flags end as they do after a
//! death. A rank that opens such MPBs looks at the news afterwards: either it opened them before they were marked, or
//! it sees the news. All waits of communicators end when the news changes, so a revocation also reaches ranks to which
//! no channel leads. The rank that revoked may die before it has notified all ranks; a rank that finds such a
//! revocation completes it. Each rank fails its pending operations in that communicator. The rest of a message that is
//! partly sent is copied into the engine, because messages of other communicators follow it. The receiver drops what
//! arrives. If the message has a number, the receiver answers with an `ACK` that says so, since the sender may have
//! dropped the communicator. The number of a send that was revoked is not used again, because its receiver may still
//! answer it.
//! **Deciding.** `agree` and `shrink` are one decision each (`mp_core::memory::Consensus`): on the flags and the
//! acknowledged deaths, or on the group and an unused context. A rank is gone if it was lost, has ended, or has dropped
//! the communicator. A shrunk communicator uses the same channels, and its collective operations open MPBs of their
//! own.
//!
//! **Several nodes.** Each node has a board of its own. The relays of the nodes, which do not end before all ranks have,
//! tell each other of revocations and gather the contributions (`mp_core::memory::Ballot`). A node marks its ranks' MPBs
//! itself when it hears of a revocation.
//!
//! **Not implemented** is the replacement of a lost rank (MPI's spawning). The survivors would have to open new
//! channels of a name with the number of a rank that has ended, and names and rolls of channels count that number as
//! gone. A generation in the rank's number would solve that; the burial, the pairing of names and the contexts need no
//! change.

use mp_core::{Call, Callers, Calls, ErrorKind, Result};

use crate::communicator::{
    agreement::{
        board::Contributions,
        words::{is_in, ranks_of, set_of, set_words},
    },
    numbers,
    point_to_point::Communicator,
};
use crate::errors::bad_call;

/// What the survivors of a communicator have [agreed](Communicator::agree) on. It is the same at all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// All flags that were contributed, combined by a bitwise and.
    pub flag: u64,
    /// The ranks that are lost and that were not [acknowledged](Communicator::acknowledge) by all ranks that agreed, in
    /// ascending order. In the cases where MPI's call fails after a death, this is not empty.
    pub unacknowledged: Vec<usize>,
}

/// The calls by which ranks decide something.
const AGREE: u64 = 1;
const SHRINK: u64 = 2;

/// The result of a decision.
struct Decision {
    flag: u64,
    context: u64,
    /// The members that had contributed and were not gone.
    group: Vec<usize>,
    unacknowledged: Vec<usize>,
}

/// Returns the decision that follows from the members' contributions.
fn propose(Contributions { words, gone, lost }: &Contributions) -> Vec<u64> {
    let all = || words.iter().flatten();
    let flag = all().fold(u64::MAX, |flag, words| flag & words[1]);
    let context = all().map(|words| words[2]).max().unwrap_or_default();
    let len = words.len();
    let group = set_of(len, |member| words[member].is_some() && !gone[member]);
    let shrink = set_of(len, |member| {
        let called = words[member].as_ref().map(|words| words[0]);
        is_in(&group, member) && called == Some(SHRINK)
    });
    let unacknowledged =
        set_of(len, |member| lost[member] && !all().all(|words| is_in(&words[3..], member)));
    [vec![flag, context], group, shrink, unacknowledged].concat()
}

impl Communicator {
    /// Returns the ranks that are known to be lost, because they panicked or died (`MPI_Comm_get_failed`), in ascending
    /// order. A rank that ended normally, even with an error, is not lost.
    pub fn failed_ranks(&self) -> Vec<usize> {
        let engine = self.engine.work();
        let world = self.members.all().iter().enumerate();
        let lost = world.filter(|&(_, &world)| engine.is_lost(world));
        lost.map(|(rank, _)| rank).collect()
    }

    /// Acknowledges all [lost ranks](Self::failed_ranks), and returns them (`MPI_Comm_ack_failed`). From now on,
    /// receives and probes of this rank from any source wait for the other ranks in this communicator.
    ///
    /// As long as a rank of the communicator is lost and was not acknowledged, each receive from any source for which
    /// no message has come fails with [`PeerLost`](mp_core::ErrorKind::PeerLost), because the lost rank might have sent
    /// its message. Messages that the lost rank had sent are received first. A receive that was posted earlier fails
    /// when it is waited for or tested, and returns its buffer. It then takes no message, so that none is lost: the
    /// next receive gets it. The same applies to a rank that is alive but has no memory to send to this one; the error
    /// is then [`PeerBroken`](mp_core::ErrorKind::PeerBroken).
    ///
    /// ```
    /// use onchip::{ANY_SOURCE, Communicator, ErrorKind};
    ///
    /// let ran = onchip::World::threads(3).run(|rank| {
    ///     let world = Communicator::world(rank);
    ///     match world.rank() {
    ///         0 => {
    ///             let first = world.receive::<u8>(ANY_SOURCE, 1).unwrap_err();
    ///             assert!(matches!(first.kind(), ErrorKind::PeerLost { rank: 2, .. }));
    ///             assert_eq!(world.acknowledge(), [2]);
    ///             // Rank 1 must not send before the loss is acknowledged.
    ///             world.send(&[0u8], 1, 0)?;
    ///             assert_eq!(world.receive::<u8>(ANY_SOURCE, 1)?.0, 7);
    ///         }
    ///         1 => {
    ///             world.receive::<u8>(0, 0)?;
    ///             world.send(&[7u8], 0, 1)?;
    ///         }
    ///         _ => panic!("on purpose"),
    ///     }
    ///     Ok(())
    /// });
    /// assert!(ran.unwrap_err().to_string().contains("on purpose"));
    /// ```
    pub fn acknowledge(&self) -> Vec<usize> {
        let lost = self.failed_ranks();
        let mut known: Vec<u32> =
            lost.iter().filter_map(|&rank| self.members.world(rank)).collect();
        known.extend(&self.engine.work().matching.broken);
        self.members.acknowledge(&known);
        lost
    }

    /// Revokes the communicator (`MPI_Comm_revoke`). From now on, everything that any of its ranks does in it fails at
    /// once with [`Revoked`](mp_core::ErrorKind::Revoked), including this rank's calls. A rank calls this when it has
    /// found another rank lost and its peers may wait for messages that will not come. They learn of the loss in this
    /// way, and can [`shrink`](Self::shrink) the communicator together. The other ranks need not call it. Communicators
    /// that were made from this one, or that it was made from, go on.
    ///
    /// Sends, receives and probes fail, blocking and nonblocking, including those that already wait. All collective
    /// operations fail, too. A receive whose message has begun to arrive still gets it. Messages that were not received
    /// are dropped. `shrink` and [`agree`](Self::agree) continue to work.
    ///
    /// When this returns, all ranks of this node have been notified, and those of other nodes will be, whatever happens to
    /// this rank afterwards.
    ///
    /// ```
    /// use onchip::{Communicator, ErrorKind};
    ///
    /// onchip::World::threads(3).run(|rank| {
    ///     let world = Communicator::world(rank);
    ///     if world.rank() == 2 {
    ///         world.revoke()?;
    ///     }
    ///     // No rank sends anything.
    ///     let failed = world.receive::<u8>((rank.id() + 1) % 3, 1).unwrap_err();
    ///     assert!(matches!(failed.kind(), ErrorKind::Revoked { .. }));
    ///     assert!(world.is_revoked());
    ///     // All ranks are still there.
    ///     let again = world.shrink()?;
    ///     assert_eq!(again.size(), 3);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), onchip::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Segment`](mp_core::ErrorKind::Segment) for lack of memory, or when the world's memory is broken.
    pub fn revoke(&self) -> Result<()> {
        let board = self.engine.work().board(self.context, &self.members)?;
        board.revoke()?;
        self.engine.work().hear();
        Ok(())
    }

    /// Returns whether any rank has [revoked](Self::revoke) the communicator (`MPI_Comm_is_revoked`).
    pub fn is_revoked(&self) -> bool {
        self.check_revoked().is_err()
    }

    /// Makes a communicator of the remaining ranks, in the order that they have here (`MPI_Comm_shrink`). All of them
    /// call it, and all get the same group, in a context of its own. It does not matter whether this communicator is
    /// revoked, or whether ranks die during the call. A rank that dies during the call may still be in the group; the
    /// next shrink then leaves it out.
    ///
    /// The new communicator leaves out ranks that were lost, and ranks that have ended or have dropped the
    /// communicator. Its collective operations open buffers of their own, so they work again.
    ///
    /// ```
    /// use onchip::Communicator;
    ///
    /// let ran = onchip::World::threads(4).run(|rank| {
    ///     let world = Communicator::world(rank);
    ///     if world.rank() == 1 {
    ///         panic!("on purpose");
    ///     }
    ///     // The ranks send around a ring until one of them finds a neighbour lost.
    ///     let (left, right) = ((rank.id() + 3) % 4, (rank.id() + 1) % 4);
    ///     let went = world.send(&[rank.id()], right, 0).and_then(|()| world.receive::<usize>(left, 0));
    ///     if went.is_err() {
    ///         world.revoke()?;
    ///     }
    ///     // Ranks without a lost neighbour join the others here.
    ///     let survivors = world.shrink()?;
    ///     assert_eq!(survivors.size(), 3);
    ///     assert_eq!(survivors.world_rank(1)?, 2);
    ///     survivors.duplicate()?;
    ///     Ok(())
    /// });
    /// assert!(ran.unwrap_err().to_string().contains("on purpose"));
    /// ```
    ///
    /// # Errors
    /// [`CallsDiffer`](mp_core::ErrorKind::CallsDiffer) at all ranks when some call [`agree`](Self::agree) instead;
    /// [`Segment`](mp_core::ErrorKind::Segment) for lack of memory, or when the world's memory is broken.
    pub fn shrink(&self) -> Result<Self> {
        let Decision { context, group, .. } = self.decide(SHRINK, u64::MAX)?;
        // The numbers of the upper half belong to the ranks: see `numbers`.
        let Some(context) = u32::try_from(context).ok().filter(|&context| context < numbers::FIRST)
        else {
            return Err(bad_call(
                "no numbers for further communicators are left in this world: drop or reuse communicators earlier",
            ));
        };
        self.engine.work().next_context = context + 1;
        self.of_ranks(group, context, &format!("{}/shrink", self.name()))
    }

    /// Combines the flags of all remaining ranks by a bitwise and (`MPI_Comm_agree`). All of them call it, and all get
    /// the same result, even when ranks die during the call. The flag of a rank that has died is included for all
    /// ranks, or for none. The call also works in a communicator that is revoked. After a death, it also reports
    /// whether all ranks know of it.
    ///
    /// ```
    /// use onchip::Communicator;
    ///
    /// let ran = onchip::World::threads(3).run(|rank| {
    ///     let world = Communicator::world(rank);
    ///     if world.rank() == 2 {
    ///         panic!("on purpose");
    ///     }
    ///     // The flag says whether all ranks have come so far.
    ///     let agreed = world.agree(u64::from(world.rank() == 0))?;
    ///     assert_eq!((agreed.flag, agreed.unacknowledged), (0, vec![2]));
    ///     world.acknowledge();
    ///     let agreed = world.agree(1)?;
    ///     assert_eq!((agreed.flag, agreed.unacknowledged), (1, vec![]));
    ///     Ok(())
    /// });
    /// assert!(ran.unwrap_err().to_string().contains("on purpose"));
    /// ```
    ///
    /// # Errors
    /// [`CallsDiffer`](mp_core::ErrorKind::CallsDiffer) at all ranks when some call [`shrink`](Self::shrink) instead;
    /// [`Segment`](mp_core::ErrorKind::Segment) for lack of memory, or when the world's memory is broken.
    pub fn agree(&self, flag: u64) -> Result<Agreement> {
        let Decision { flag, unacknowledged, .. } = self.decide(AGREE, flag)?;
        Ok(Agreement { flag, unacknowledged })
    }

    fn decide(&self, called: u64, flag: u64) -> Result<Decision> {
        let (unused, board) = {
            let engine = self.engine.work();
            (engine.next_context, engine.board(self.context, &self.members)?)
        };
        let members = &*self.members;
        let call = if called == SHRINK { "shrink" } else { "agree" };
        let _calling = members.title.calls(call);
        let acknowledged = set_of(members.len(), |member| {
            members.world(member).is_some_and(|world| members.has_acknowledged(world))
        });
        let contribution = [vec![called, flag, u64::from(unused)], acknowledged].concat();
        let decided = board.decide(&contribution, propose)?;
        let (&[flag, context], sets) = decided.split_at(2) else {
            return Err(bad_call("what the ranks decided has no words"));
        };
        let mut sets = sets.chunks(set_words(members.len())).map(ranks_of);
        let mut next = || sets.next().unwrap_or_default();
        let (group, shrink, unacknowledged) = (next(), next(), next());
        if !shrink.is_empty() && shrink != group {
            let agree = group.iter().copied().filter(|rank| !shrink.contains(rank)).collect();
            let callers = |call, ranks| Callers { call: Call::new(call), ranks };
            let mut groups = vec![callers("shrink", shrink), callers("agree", agree)];
            groups.sort_by_key(|callers| std::cmp::Reverse(callers.ranks.len()));
            return Err(ErrorKind::CallsDiffer(Box::new(Calls::of(groups))).into());
        }
        Ok(Decision { flag, context, group, unacknowledged })
    }
}
