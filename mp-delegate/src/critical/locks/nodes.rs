//! Words that name a node of a queue and number its uses.

use crate::critical::site::{AnyWord, Seat, someone, who};

/// The part of a word that names a node. Above it is the number of the node's use. The next user of the node takes over
/// this number and counts it up. So a seat that finds the word unchanged knows that no other seat has used the node
/// since, unless it was used 2⁴⁰ times.
pub(in crate::critical) const NODES: u64 = (1 << 24) - 1;
const USE: u64 = NODES + 1;

/// The most seats for which such words have room. Nodes are numbered up to the seats, a seat's word has 1 + a node, and
/// [`CLOSED`](crate::critical::heal::CLOSED) is no node.
pub(in crate::critical) const MOST_SEATS: usize = NODES as usize - 2;

/// Returns the word of a seat, which is 1 + the seat's node. It stays when another handle takes the seat. At first the
/// node is 1 + the seat, because node 0 is the spare one.
#[inline(always)]
pub(in crate::critical) fn held(own: &impl AnyWord, me: Seat) -> u64 {
    let held = own.load_relaxed();
    if held == 0 { someone(me + 1) } else { held }
}

/// Returns the word of a seat that takes over a node, whose previous use was `named` in the tail.
#[inline(always)]
pub(in crate::critical) fn taken_over(named: u64) -> u64 {
    // The node is less than its bits can hold, and the number wraps at the end of the word, so nothing carries.
    named.wrapping_add(USE) + 1
}

/// Returns the node in a seat's word.
#[inline(always)]
pub(in crate::critical) fn node_in(held: u64) -> usize {
    who(held & NODES)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::critical::heal::CLOSED;

    /// A node is used once for each number, by different seats. No two of the words for it in the tail are equal, and
    /// none is that of another node.
    #[test]
    fn each_use_of_a_node_has_its_own_word() {
        for node in [0, 1, MOST_SEATS - 1, MOST_SEATS] {
            for number in [0, 1, (1 << 20) - 1, 1 << 20, (1 << 40) - 2, (1 << 40) - 1] {
                let named = number << 24 | node as u64;
                let held = taken_over(named);
                let again = held - 1;
                assert_ne!(named, CLOSED);
                assert_eq!((node_in(held), again & NODES), (node, node as u64), "{named:#x}");
                assert_eq!(again >> 24, (number + 1) % (1 << 40), "{named:#x}");
            }
        }
    }
}
