//! Hardware that guesses which lines its core will want.

use std::collections::VecDeque;

use super::access::Access;

/// What fetches lines ahead: after three loads, or three stores, of lines at equal distances, the
/// lines that would come next; after stores, to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefetcher {
    /// How many lines ahead.
    pub ahead: usize,
    /// The greatest distance, in lines. The real ones stay within a page of memory.
    pub reach: usize,
}

impl Default for Prefetcher {
    /// Four ahead, as far as a page of 64 lines goes.
    fn default() -> Prefetcher {
        Prefetcher { ahead: 4, reach: 64 }
    }
}

/// Accesses that are remembered, of each kind.
const HISTORY: usize = 16;
/// Streams that are followed, of each kind.
const STREAMS: usize = 8;
/// How many lines of a stream can be left out.
const GAP: isize = 4;

/// What one core's prefetcher has seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Streams {
    loads: Seen,
    stores: Seen,
}

#[derive(Clone, Debug, Default)]
struct Seen {
    /// Lines, the latest first.
    lines: VecDeque<usize>,
    /// The latest first.
    streams: VecDeque<Stream>,
}

#[derive(Clone, Copy, Debug)]
struct Stream {
    last: usize,
    distance: isize,
}

impl Streams {
    /// The core accesses a line: which ones it will want.
    pub(super) fn follow(
        &mut self,
        line: usize,
        access: Access,
        prefetcher: Prefetcher,
    ) -> impl Iterator<Item = usize> + use<> {
        let seen = if access == Access::Load { &mut self.loads } else { &mut self.stores };
        let distance = seen.follow(line, prefetcher.reach as isize);
        let ahead = 1..=prefetcher.ahead as isize;
        let lines = distance.map(|distance| {
            ahead.map_while(move |times| line.checked_add_signed(times * distance))
        });
        lines.into_iter().flatten()
    }
}

impl Seen {
    fn follow(&mut self, line: usize, reach: isize) -> Option<isize> {
        let goes_on = |stream: &Stream| {
            let since = line as isize - stream.last as isize;
            since % stream.distance == 0 && (1..=GAP).contains(&(since / stream.distance))
        };
        let known = self.streams.iter().position(goes_on);
        let distance = match known.and_then(|at| self.streams.remove(at)) {
            Some(stream) => Some(stream.distance),
            None => self.begins(line, reach),
        };
        if let Some(distance) = distance {
            self.streams.push_front(Stream { last: line, distance });
            self.streams.truncate(STREAMS);
        }
        self.lines.retain(|&seen| seen != line);
        self.lines.push_front(line);
        self.lines.truncate(HISTORY);
        distance
    }

    /// The third of three at equal distances.
    fn begins(&self, line: usize, reach: isize) -> Option<isize> {
        self.lines.iter().find_map(|&before| {
            let distance = line as isize - before as isize;
            let first = before.checked_add_signed(-distance)?;
            let counts = distance != 0 && distance.abs() <= reach && self.lines.contains(&first);
            counts.then_some(distance)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follow(streams: &mut Streams, line: usize) -> Vec<usize> {
        streams.follow(line, Access::Load, Prefetcher { ahead: 2, reach: 8 }).collect()
    }

    #[test]
    fn three_at_equal_distances_are_a_stream() {
        let mut streams = Streams::default();
        // In between, others.
        for (line, ahead) in [
            (100, vec![]),
            (7, vec![]),
            (104, vec![]),
            (7, vec![]),
            (108, vec![112, 116]),
            (112, vec![116, 120]),
            // One is left out.
            (120, vec![124, 128]),
            // Too far.
            (200, vec![]),
        ] {
            assert_eq!(follow(&mut streams, line), ahead, "{line}");
        }
        // What is stored is another stream.
        let store = |streams: &mut Streams, line| {
            streams.follow(line, Access::Store, Prefetcher::default()).count()
        };
        assert_eq!([124, 128].map(|line| store(&mut streams, line)), [0, 0]);
    }

    #[test]
    fn streams_go_down_to_the_first_line() {
        let mut streams = Streams::default();
        assert_eq!(
            [5, 3].map(|line| follow(&mut streams, line)),
            [Vec::<usize>::new(), Vec::new()]
        );
        assert_eq!(follow(&mut streams, 1), Vec::<usize>::new());
        // Nine away, twice: beyond reach.
        assert_eq!([100, 109, 118].map(|line| follow(&mut streams, line).len()), [0; 3]);
    }
}
