//! Times, sizes and lists for humans.

use std::{fmt, time::Duration};

/// Formats a time with about two digits.
pub fn time(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..10 => format!("{:.1} s", time.as_secs_f64()),
        10..100 => format!("{seconds} s"),
        100..6000 => format!("{} min", seconds / 60),
        6000..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// Formats a number of bytes.
pub fn bytes(bytes: u64) -> String {
    let (unit, name) = match bytes {
        0..0x400 => return format!("{bytes} B"),
        0x400..0x10_0000 => (0x400, "KiB"),
        0x10_0000..0x4000_0000 => (0x10_0000, "MiB"),
        _ => (0x4000_0000u64, "GiB"),
    };
    format!("{:.1} {name}", bytes as f64 / unit as f64)
}

/// Formats a list of ranks: `rank 3`, `ranks 1 and 2`, `ranks 0, 1 and 2`. Long lists are in ranges: `ranks 0-7 and 9`.
pub fn ranks(ranks: &[usize]) -> String {
    if let [rank] = ranks {
        return format!("rank {rank}");
    }
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for &rank in ranks {
        match parts.last_mut() {
            Some((_, last)) if ranks.len() > 3 && rank == *last + 1 => *last = rank,
            _ => parts.push((rank, rank)),
        }
    }
    let parts = parts.into_iter().map(|(first, last)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    });
    format!("ranks {}", list(parts, "and"))
}

/// Formats a list: `a`, `a and b`, `a, b and c`.
pub fn list(items: impl IntoIterator<Item = impl fmt::Display>, word: &str) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    match items.split_last() {
        None => "none".to_owned(),
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} {word} {last}", rest.join(", ")),
    }
}

/// Returns text that a program chose, without the characters that would move a terminal's cursor.
pub fn tame(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            let keep = !c.is_control();
            keep.then_some(c)
                .into_iter()
                .chain((!keep).then(|| c.escape_default()).into_iter().flatten())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_ranks_read_like_a_sentence() {
        assert_eq!(ranks(&[3]), "rank 3");
        assert_eq!(ranks(&[1, 2]), "ranks 1 and 2");
        assert_eq!(ranks(&[0, 1, 2]), "ranks 0, 1 and 2");
        assert_eq!(ranks(&[0, 1, 2, 3, 9]), "ranks 0-3 and 9");
        assert_eq!(ranks(&[]), "ranks none");
    }

    #[test]
    fn sizes_and_times_are_short() {
        assert_eq!((bytes(0), bytes(1023)), ("0 B".into(), "1023 B".into()));
        assert_eq!((bytes(1024), bytes(1 << 30)), ("1.0 KiB".into(), "1.0 GiB".into()));
        assert_eq!(time(Duration::from_millis(1234)), "1.2 s");
        assert_eq!(time(Duration::from_secs(125)), "2 min");
    }

    #[test]
    fn control_characters_are_shown_not_sent() {
        assert_eq!(tame("a\x1b[2Jü\n"), "a\\u{1b}[2Jü\\n");
    }
}
