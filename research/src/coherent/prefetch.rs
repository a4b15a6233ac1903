//! Hardware that predicts which lines its core will access.

use std::collections::VecDeque;

use super::access::Access;

/// Fetches lines ahead. After three loads, or three stores, of lines at equal distances it fetches the lines that would
/// come next, each once; after stores, it fetches them for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefetcher {
    /// The number of lines that it fetches ahead.
    pub ahead: usize,
    /// The greatest distance, in lines. Real prefetchers stay within a page of memory.
    pub reach: usize,
}

impl Default for Prefetcher {
    /// Returns a prefetcher that is four lines ahead, with the reach of a page of 64 lines.
    fn default() -> Prefetcher {
        Prefetcher { ahead: 4, reach: 64 }
    }
}

/// The number of remembered accesses, of loads and of stores.
const HISTORY: usize = 16;
/// The number of followed streams, of loads and of stores.
const STREAMS: usize = 8;
/// The most steps of a stream from one access to the next.
const GAP: isize = 4;

/// The accesses that one core's prefetcher has seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Streams {
    loads: Seen,
    stores: Seen,
}

#[derive(Clone, Debug, Default)]
struct Seen {
    /// The accessed lines, the latest first.
    lines: VecDeque<usize>,
    /// The streams, the latest first.
    streams: VecDeque<Stream>,
}

#[derive(Clone, Copy, Debug)]
struct Stream {
    last: usize,
    distance: isize,
}

impl Streams {
    /// Notes an access to a line. Returns the lines to fetch.
    pub(super) fn follow(
        &mut self,
        line: usize,
        access: Access,
        prefetcher: Prefetcher,
    ) -> impl Iterator<Item = usize> + use<> {
        let seen = if access == Access::Load { &mut self.loads } else { &mut self.stores };
        let stream = seen.follow(line, prefetcher);
        let ahead = 1..=prefetcher.ahead as isize;
        let lines = stream.map(|(distance, fetched)| {
            let from = fetched.max(0) + 1;
            ahead
                .skip_while(move |&times| times < from)
                .map_while(move |times| line.checked_add_signed(times * distance))
        });
        lines.into_iter().flatten()
    }
}

impl Seen {
    /// Returns the distance of the stream that the line belongs to, and how many lines ahead were fetched before.
    fn follow(&mut self, line: usize, prefetcher: Prefetcher) -> Option<(isize, isize)> {
        let goes_on = |stream: &Stream| {
            let since = line as isize - stream.last as isize;
            since % stream.distance == 0 && (1..=GAP).contains(&(since / stream.distance))
        };
        let known = self.streams.iter().position(goes_on);
        let (distance, fetched) = match known.and_then(|at| self.streams.remove(at)) {
            Some(Stream { last, distance }) => {
                let steps = (line as isize - last as isize) / distance;
                (Some(distance), prefetcher.ahead as isize - steps)
            }
            None => (self.begins(line, prefetcher.reach as isize), 0),
        };
        if let Some(distance) = distance {
            self.streams.push_front(Stream { last: line, distance });
            self.streams.truncate(STREAMS);
        }
        self.lines.retain(|&seen| seen != line);
        self.lines.push_front(line);
        self.lines.truncate(HISTORY);
        distance.map(|distance| (distance, fetched))
    }

    /// Returns the distance if the line is the third of three at equal distances.
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
        // Accesses to other lines come in between.
        for (line, ahead) in [
            (100, vec![]),
            (7, vec![]),
            (104, vec![]),
            (7, vec![]),
            (108, vec![112, 116]),
            // One of the next two lines was fetched before.
            (112, vec![120]),
            // The stream has left out one line.
            (120, vec![124, 128]),
            // This line is too far away.
            (200, vec![]),
        ] {
            assert_eq!(follow(&mut streams, line), ahead, "{line}");
        }
        // Stores make streams of their own.
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
        // The lines are nine apart, twice: beyond the reach.
        assert_eq!([100, 109, 118].map(|line| follow(&mut streams, line).len()), [0; 3]);
    }
}
