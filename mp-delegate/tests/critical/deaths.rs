//! Ranks that die outside of operations, in the middle of one, or with some in flight.
