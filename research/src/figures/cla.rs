//! Cache-line-aware collectives.

use super::Group;

/// The figures of this paper.
pub const GROUP: Group =
    Group { name: "cla", title: "Cache-line-aware collectives", about: "", figures: &[] };
