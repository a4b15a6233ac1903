//! Numbers that look random and are the same every time (splitmix64).

/// A sequence of such numbers.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// Begins the sequence of this seed.
    pub fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    /// Returns a number less than `below`, which is not 0.
    pub fn draw(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) % below as u64) as usize
    }
}
