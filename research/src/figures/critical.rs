//! Critical sections.

use super::Group;

/// The figures of this paper.
pub const GROUP: Group =
    Group { name: "critical", title: "Critical sections", about: "", figures: &[] };
