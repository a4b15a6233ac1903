//! Message passing on a hardware multi-threaded processor.

use super::Group;

/// The figures of this paper.
pub const GROUP: Group = Group {
    name: "buono",
    title: "Message passing on a hardware multi-threaded processor",
    about: "",
    figures: &[],
};
