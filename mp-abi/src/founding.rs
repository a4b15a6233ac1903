//! Communicators that are made of groups: only the ranks of the groups take part.

use std::ffi::c_int;

use mp_collectives::communicator::Communicator;

use crate::{
    comm::Comm,
    constants::MPI_SUCCESS,
    errhandler::Handler,
    error::{Class, Error},
    group::Group,
    words::{TAGS, exchange_lists, receive, send_to_others},
};

type Result<T> = std::result::Result<T, Error>;

/// Half of the tags.
const HALF: u32 = TAGS / 2;

/// Returns the tag of messages for a tag of the program.
pub(crate) fn tag_of(tag: c_int) -> Result<u32> {
    match tag {
        0.. => Ok(TAGS + tag as u32 % HALF),
        _ => Err(Error::new(Class::Tag, format!("{tag} is no tag: tags are from 0 to MPI_TAG_UB"))),
    }
}

/// Returns the tag of messages for a text of the program and ranks, which may use one text for several groups at once.
pub(crate) fn tag_of_text(text: &[u8], ranks: &[usize]) -> u32 {
    // This is FNV-1a.
    let ranks = ranks.iter().flat_map(|rank| rank.to_le_bytes());
    let hash = text.iter().copied().chain(ranks).fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    TAGS + HALF + (hash % u64::from(HALF)) as u32
}

/// Ranks that make a communicator, with a communicator for their messages, and the tag of these.
pub(crate) struct Founders<'a> {
    pub via: &'a Communicator,
    pub group: &'a Group,
    pub tag: u32,
    /// Whether threads of this rank call MPI at once.
    pub has_threads: bool,
}

/// What two groups have made.
pub(crate) struct Both {
    pub communicator: Communicator,
    /// The world's numbers of the other group's ranks.
    pub theirs: Vec<usize>,
    /// Whether threads of any rank call MPI at once.
    pub has_threads: bool,
}

impl Both {
    pub fn into_comm(self, errhandler: Handler) -> Comm {
        Comm::between(self.communicator, self.theirs, "", errhandler).threaded(self.has_threads)
    }
}

impl Founders<'_> {
    /// Returns the ranks in the communicator for messages.
    fn ranks(&self) -> Result<Vec<usize>> {
        let all = self.via.joint().world_ranks();
        let place = |rank: &usize| all.iter().position(|one| one == rank);
        let ranks: Option<Vec<_>> = self.group.ranks.iter().map(place).collect();
        let text = "the group has ranks that are not in the communicator";
        ranks.ok_or_else(|| Error::new(Class::Group, text))
    }

    /// Makes their communicator, and returns whether threads of any of them call MPI at once. The first of them tells
    /// the others this, and the number of the communicator.
    pub fn communicator(&self, name: &str) -> Result<(Communicator, bool)> {
        let joint = self.via.joint();
        let (has_threads, number) = self.agree(|| Ok(joint.number()?))?;
        Ok((joint.communicator_of(&self.group.ranks, number, name)?, has_threads))
    }

    /// Returns whether threads of any of them call MPI at once, and the number that the first of them takes.
    pub fn agree(&self, take: impl FnOnce() -> Result<u32>) -> Result<(bool, u32)> {
        let ranks = self.ranks()?;
        let mut words = vec![u64::from(self.has_threads)];
        if self.group.rank() == 0 {
            for &rank in &ranks[1..] {
                words[0] |= receive(self.via, 1, rank, self.tag)?[0];
            }
            words.push(take()?.into());
            send_to_others(self.via, &words, &ranks, self.tag)?;
        } else {
            send_to_others(self.via, &words, &ranks[..1], self.tag)?;
            words = receive(self.via, 2, ranks[0], self.tag)?;
        }
        Ok((words[0] != 0, words[1] as u32))
    }

    /// Makes a communicator of these ranks and those of another group, the lower group first. Returns it with the
    /// other group. The leaders of both groups exchange what there is to know: `met` has the other leader's rank in a
    /// communicator that both leaders are in, and a tag. Each tells the other ranks of its group.
    pub fn with_another_group<'b>(
        &self,
        leader: c_int,
        met: impl FnOnce() -> Result<(&'b Communicator, usize, u32)>,
    ) -> Result<Both> {
        let (ranks, joint) = (self.ranks()?, self.via.joint());
        let leader =
            *usize::try_from(leader).ok().and_then(|at| ranks.get(at)).ok_or_else(|| {
                Error::new(Class::Rank, format!("there is no rank {leader} to be the local leader"))
            })?;
        let theirs = if self.via.rank() == leader {
            let exchanged = joint.number().map_err(Error::from).and_then(|number| {
                let (peers, other, tag) = met()?;
                let ours = self.group.ranks.iter().map(|&rank| rank as u64);
                let ours: Vec<_> =
                    [number.into(), self.has_threads.into()].into_iter().chain(ours).collect();
                let theirs = exchange_lists(peers, &ours, other, tag)?;
                let number = if ours[2] < theirs[2] { ours[0] } else { theirs[0] };
                Ok([&[number, ours[1] | theirs[1]], &theirs[2..]].concat())
            });
            let code = exchanged.as_ref().map_or_else(Error::code, |_| MPI_SUCCESS);
            let words = exchanged.as_ref().map_or(&[][..], |words| words);
            let head = [code as u64, words.len() as u64];
            send_to_others(self.via, &head, &ranks, self.tag)?;
            if code == MPI_SUCCESS {
                send_to_others(self.via, words, &ranks, self.tag)?;
            }
            exchanged?
        } else {
            let head = receive(self.via, 2, leader, self.tag)?;
            if head[0] as c_int != MPI_SUCCESS {
                let text = "the local leader could not exchange groups with the remote leader";
                return Err(Error::of_program(head[0] as c_int, text));
            }
            receive(self.via, head[1] as usize, leader, self.tag)?
        };
        let (number, has_threads, theirs) = (theirs[0] as u32, theirs[1] != 0, &theirs[2..]);
        let theirs: Vec<_> = theirs.iter().map(|&rank| rank as usize).collect();
        let ours = &self.group.ranks;
        if let Some(both) = ours.iter().find(|rank| theirs.contains(rank)) {
            let text = format!("rank {both} of MPI_COMM_WORLD is in both groups");
            return Err(Error::new(Class::Comm, text));
        }
        let union = if ours[0] < theirs[0] { [&ours[..], &theirs] } else { [&theirs[..], ours] };
        let communicator = joint.communicator_of(&union.concat(), number, "intercommunicator")?;
        Ok(Both { communicator, theirs, has_threads })
    }
}
