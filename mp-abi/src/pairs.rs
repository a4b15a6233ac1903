//! The tags of partitioned messages.
//!
//! The requests of both sides that are made for one tag belong together in their order. So the messages of each pair have
//! a tag of their own, which both sides compute from the program's tag and from how many requests it had before.

use std::{collections::BTreeMap, ffi::c_int, mem};

use crate::error::{Class, Error};

type Result<T> = std::result::Result<T, Error>;

/// The first of the tags of these messages. There are as many.
const TAGS: u32 = 1 << 29;
/// The tags of the program from here on, and the numbers of requests from there on, share tags with others.
const PLAIN_TAGS: u32 = 1 << 20;
const PLAIN_REQUESTS: u32 = TAGS / PLAIN_TAGS;

/// Which way a message goes, and to or from which rank.
pub(crate) type Way = (bool, c_int);

/// The requests that a communicator had.
#[derive(Debug, Default)]
pub(crate) struct Pairs {
    /// How many requests there were for a tag of the program.
    made: BTreeMap<(Way, u32), u32>,
    /// For which tag and number of the program there is a tag of messages.
    tags: BTreeMap<(Way, u32), (u32, u32)>,
}

impl Pairs {
    /// Returns the tag of the messages of a new request.
    pub fn tag(&mut self, way: Way, tag: u32) -> Result<u32> {
        let made = self.made.entry((way, tag)).or_default();
        let key = (tag, mem::replace(made, *made + 1));
        let own = match key {
            (0..PLAIN_TAGS, 0..PLAIN_REQUESTS) => tag + PLAIN_TAGS * key.1,
            // Multiplying by odd numbers spreads the others.
            _ => tag.wrapping_mul(0x9e37_79b1) ^ key.1.wrapping_mul(0x85eb_ca77),
        };
        let own = own % TAGS;
        match *self.tags.entry((way, own)).or_insert(key) {
            one if one == key => Ok(TAGS + own),
            (other, number) => {
                let text = format!(
                    "request {} of the tag {tag} can't be told from request {number} of the tag {other}: \
                     use tags below {PLAIN_TAGS}",
                    key.1
                );
                Err(Error::new(Class::Tag, text))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_have_tags_of_their_own() {
        let (mut here, mut there) = (Pairs::default(), Pairs::default());
        let (to, from) = ((true, 1), (false, 0));
        let mut seen = Vec::new();
        for tag in [0, 1, 1, 1, 0, 1 << 20, u32::MAX >> 1, 1 << 20] {
            let own = here.tag(to, tag).unwrap();
            assert_eq!(own, there.tag(from, tag).unwrap());
            assert!((TAGS..2 * TAGS).contains(&own) && !seen.contains(&own));
            seen.push(own);
        }
        assert_eq!(here.tag((true, 2), 1).unwrap(), seen[1]);
    }
}
