//! The value that a call of `run` hands to all ranks. It is made only once.

use serde::{Serialize, de::DeserializeOwned};

use super::rank::Rank;
use crate::{
    channel::Channel,
    context::Namespace,
    error::{Error, Result},
};

/// A way to make the value.
pub(crate) trait Input {
    /// The value.
    type Value: Serialize + DeserializeOwned + Sync;

    /// Makes the value, in the process that starts the ranks.
    fn make(self) -> Result<Self::Value>;

    /// Makes the value in rank 0 of a launched world, in which all processes of the program are ranks, and hands it to
    /// the other ranks.
    fn make_among(self, rank: &Rank) -> Result<Self::Value>;
}

/// The input of calls that hand nothing to the ranks.
pub(crate) struct Nothing;

impl Input for Nothing {
    type Value = ();

    fn make(self) -> Result<()> {
        Ok(())
    }

    fn make_among(self, _: &Rank) -> Result<()> {
        Ok(())
    }
}

/// An input that a function makes.
pub(crate) struct Made<M>(pub(crate) M);

const INPUTS: Namespace = Namespace::new("inputs");

impl<I, M> Input for Made<M>
where
    I: Serialize + DeserializeOwned + Sync,
    M: FnOnce() -> Result<I>,
{
    type Value = I;

    fn make(self) -> Result<I> {
        (self.0)()
    }

    fn make_among(self, rank: &Rank) -> Result<I> {
        let channel = INPUTS.channel(Channel::degree(1));
        if rank.id() == 0 {
            let value = self.make()?;
            let bytes = postcard::to_stdvec(&value)?;
            for to in 1..rank.size() {
                // An error means that the rank has ended. The rank reports that itself.
                let _ = rank
                    .sender::<[u8]>("input", to, channel)?
                    .send_buffer(rank.buffer_from(&bytes)?);
            }
            return Ok(value);
        }
        let bytes = rank.receiver::<[u8]>("input", 0, channel)?.receive_buffer();
        let bytes = bytes.map_err(|error| {
            Error::other(format!("rank 0 did not make the input of World::run_with: {error}"))
        })?;
        Ok(postcard::from_bytes(&bytes)?)
    }
}
