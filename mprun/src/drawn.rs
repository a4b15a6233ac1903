//! Trees for humans.

use std::fmt::Write as _;

use mp_model::cla::Tree;

/// Draws each rank under its parent.
pub fn draw(text: &mut String, tree: &Tree) {
    // A rank, the text before it, and the text before its children.
    let mut open = vec![(tree.root(), String::new(), String::new())];
    while let Some((rank, before, below)) = open.pop() {
        let _ = writeln!(text, "  {before}{rank}");
        let children: Vec<usize> = tree.children(rank).collect();
        for (index, &child) in children.iter().enumerate().rev() {
            let last = index + 1 == children.len();
            let (branch, on) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            open.push((child, format!("{below}{branch}"), format!("{below}{on}")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_are_drawn_as_such() {
        let waves = vec![vec![vec![2], vec![1]], vec![], vec![vec![3, 4]], vec![], vec![]];
        let mut text = String::new();
        draw(&mut text, &Tree::new(0, waves).unwrap());
        assert_eq!(text, "  0\n  ├─ 2\n  │  ├─ 3\n  │  └─ 4\n  └─ 1\n");
    }
}
