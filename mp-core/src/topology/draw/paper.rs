//! The measures of a drawing, and how text is broken into its lines.

pub(super) const WIDTH: usize = 80;
/// The indentation of boxes.
pub(super) const INDENT: usize = 2;
/// How many items in a row must look alike before they are counted instead of drawn.
pub(super) const FOLD: usize = 3;

/// Breaks text into lines of at most `width` characters where possible: at blanks and in lists of CPUs.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let (mut line, mut word) = (String::new(), String::new());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        word.push(letter);
        let may_break = match letters.peek() {
            Some(next) => letter == ' ' || letter == ',' && next.is_ascii_digit(),
            None => true,
        };
        if !may_break {
            continue;
        }
        let long = line.chars().count() + word.trim_end().chars().count() > width;
        if long && !line.is_empty() {
            lines.push(line.trim_end().to_owned());
            line.clear();
        }
        line += &word;
        word.clear();
    }
    if !line.is_empty() {
        lines.push(line.trim_end().to_owned());
    }
    lines
}
