//! The channels that cross to other nodes, and the numbers by which nodes name them.
//!
//! Each node numbers its own ends, and never gives a number twice. A message that is still on its way to a channel that has
//! been closed since then finds no other one.

use std::collections::BTreeMap;

use mp_core::bridge::Part;

/// A channel that crosses to another node, and whose end here is open.
#[derive(Debug)]
pub(crate) struct Line {
    /// The number that this node has given to it.
    pub(crate) number: u32,
    pub(crate) part: Part,
    /// Which one it is among those with its name and ranks.
    pub(crate) turn: u32,
    /// The number that the other node has given to it, if that node has told.
    theirs: Option<u32>,
    pub(crate) node: usize,
    /// The notice that the other node knows.
    pub(crate) notice: u64,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// In the order of their numbers, with places of those that have been removed since the last [`tidy`](Self::tidy).
    places: Vec<(u32, Option<Line>)>,
    /// How many there are.
    open: usize,
    /// The next number.
    next: u32,
    /// The numbers here, by node and by the number that the node has given.
    theirs: BTreeMap<(usize, u32), u32>,
}

impl Lines {
    pub(crate) fn len(&self) -> usize {
        self.open
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Line> {
        self.places.iter().filter_map(|(_, line)| line.as_ref())
    }

    /// Returns a number that no channel has had.
    pub(crate) fn number(&mut self) -> u32 {
        self.next += 1;
        self.next - 1
    }

    /// Adds a channel to `node`. Returns its number.
    pub(crate) fn add(&mut self, part: Part, turn: u32, node: usize) -> u32 {
        let number = self.number();
        let line = Line { number, part, turn, theirs: None, node, notice: 0 };
        self.places.push((number, Some(line)));
        self.open += 1;
        number
    }

    /// Notes the number that the other node has given to a channel.
    pub(crate) fn set_theirs(&mut self, number: u32, theirs: u32) {
        let Some(place) = self.place(number) else { return };
        if let Some(line) = &mut self.places[place].1 {
            line.theirs = Some(theirs);
            self.theirs.insert((line.node, theirs), number);
        }
    }

    /// Returns the number of places. Channels that are added come behind all others.
    pub(crate) fn places(&self) -> usize {
        self.places.len()
    }

    /// Returns the channel in a place, unless it was removed.
    pub(crate) fn at(&mut self, place: usize) -> Option<&mut Line> {
        self.places.get_mut(place)?.1.as_mut()
    }

    /// Forgets the channel in a place. Returns its end here.
    pub(crate) fn remove_at(&mut self, place: usize) -> Option<Part> {
        let Line { part, theirs, node, .. } = self.places.get_mut(place)?.1.take()?;
        self.open -= 1;
        theirs.map(|theirs| self.theirs.remove(&(node, theirs)));
        Some(part)
    }

    /// Forgets a channel. Returns its end here.
    pub(crate) fn remove(&mut self, number: u32) -> Option<Part> {
        self.remove_at(self.place(number)?)
    }

    /// Forgets some channels. Returns their ends here.
    pub(crate) fn remove_all(&mut self, which: impl Fn(&Line) -> bool) -> Vec<Part> {
        let places = 0..self.places();
        let remove = |place| match self.at(place) {
            Some(line) if which(line) => self.remove_at(place),
            _ => None,
        };
        places.filter_map(remove).collect()
    }

    /// Returns the channel to which another node has given this number, if it is still open.
    pub(crate) fn of(&mut self, node: usize, theirs: u32) -> Option<&mut Line> {
        let place = self.place(*self.theirs.get(&(node, theirs))?)?;
        self.at(place)
    }

    /// Forgets the channel to which another node has given this number. Returns its number and its end here.
    pub(crate) fn remove_of(&mut self, node: usize, theirs: u32) -> Option<(u32, Part)> {
        let &number = self.theirs.get(&(node, theirs))?;
        Some((number, self.remove(number)?))
    }

    /// Gives up the places of channels that were removed.
    pub(crate) fn tidy(&mut self) {
        if self.open < self.places.len() {
            self.places.retain(|(_, line)| line.is_some());
        }
    }

    fn place(&self, number: u32) -> Option<usize> {
        self.places.binary_search_by_key(&number, |&(number, _)| number).ok()
    }
}
