//! The cache of a core: the memory that it put or got last.

use std::collections::VecDeque;
use std::ops::Range;

pub(super) struct Cache {
    /// Ranges of addresses, the latest first.
    kept: VecDeque<Range<usize>>,
    capacity: usize,
}

impl Cache {
    pub(super) fn new(capacity: usize) -> Cache {
        Cache { kept: VecDeque::new(), capacity }
    }

    /// Notes that these bytes have just been read or written.
    pub(super) fn keep(&mut self, bytes: &[u8]) {
        let new = addresses(bytes);
        if new.is_empty() {
            return;
        }
        self.kept.retain(|range| range.start < new.start || range.end > new.end);
        match self.kept.front_mut() {
            // The chunks of one message follow each other.
            Some(last) if last.end == new.start => last.end = new.end,
            _ => self.kept.push_front(new),
        }
        let mut room = self.capacity;
        self.kept.retain_mut(|range| {
            let length = range.len().min(room);
            range.start = range.end - length;
            room -= length;
            length > 0
        });
    }

    /// Returns whether all of these bytes are in the cache.
    pub(super) fn holds(&self, bytes: &[u8]) -> bool {
        let asked = addresses(bytes);
        self.kept.iter().any(|range| range.start <= asked.start && asked.end <= range.end)
    }
}

fn addresses(bytes: &[u8]) -> Range<usize> {
    let start = bytes.as_ptr().addr();
    start..start + bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_last() {
        let memory = [0; 100];
        let mut cache = Cache::new(30);
        assert!(!cache.holds(&memory[0..10]));
        cache.keep(&memory[0..10]);
        cache.keep(&memory[10..20]);
        assert!(cache.holds(&memory[5..15]) && !cache.holds(&memory[5..21]));
        cache.keep(&memory[50..65]);
        // The first five bytes were evicted.
        assert!(cache.holds(&memory[5..20]) && !cache.holds(&memory[4..20]));
        assert!(cache.holds(&memory[50..65]) && !cache.holds(&memory[15..55]));
        cache.keep(&memory[40..90]);
        assert!(cache.holds(&memory[60..90]) && !cache.holds(&memory[59..90]));
        assert!(!cache.holds(&memory[5..20]));
        cache.keep(&[]);
        assert!(!Cache::new(0).holds(&memory[0..1]));
    }
}
