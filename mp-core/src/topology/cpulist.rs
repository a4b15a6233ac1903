//! Lists of CPUs in the format that the kernel writes: `0,2-5`.

use super::{CpuSet, Error};
use std::{ops::RangeInclusive, str::FromStr};

/// The upper limit of CPU numbers: eight times the largest number of CPUs for which the kernel can be built. Without a
/// limit, a garbled range would be expanded until memory runs out.
const MAX_CPUS: usize = 1 << 16;

impl FromStr for CpuSet {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let malformed = || Error::CpuList { text: text.to_owned() };
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        Ok(ranges(text).ok_or_else(malformed)?.into_iter().flatten().collect())
    }
}

/// Returns the CPUs of a list in the order in which they are named, including repeats; `None` for text that is not a
/// list, or that names more CPUs than there can be.
pub(super) fn in_order(text: &str) -> Option<Vec<usize>> {
    let ranges = ranges(text)?;
    let named: usize = ranges.iter().map(|range| range.end() - range.start() + 1).sum();
    (named <= MAX_CPUS).then(|| ranges.into_iter().flatten().collect())
}

fn ranges(text: &str) -> Option<Vec<RangeInclusive<usize>>> {
    text.trim().split(',').map(|item| range(item.trim())).collect()
}

fn range(item: &str) -> Option<RangeInclusive<usize>> {
    let (first, last) = item.split_once('-').unwrap_or((item, item));
    let (first, last) = (number(first)?, number(last)?);
    (first <= last && last < MAX_CPUS).then_some(first..=last)
}

/// Parses a decimal number, without the sign that `str::parse` would accept.
fn number(text: &str) -> Option<usize> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn set(text: &str) -> CpuSet {
        text.parse().unwrap()
    }

    #[test]
    fn lists_are_read_and_shown_as_the_kernel_does() {
        assert_eq!(set("0").iter().collect::<Vec<_>>(), [0]);
        assert_eq!(set("0,2-5\n").iter().collect::<Vec<_>>(), [0, 2, 3, 4, 5]);
        assert_eq!(set("\n"), CpuSet::default());
        assert_eq!(set("5,3,4,0-1,1").to_string(), "0-1,3-5");
        assert_eq!(set("").to_string(), "");
        assert_eq!(set("65535").len(), 1);
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for text in ["a", "-", "1-", "-1", "3-1", "0,,1", ",", "+1", "0x1", "1-2-3", "1 2", "٣"] {
            assert!(matches!(text.parse::<CpuSet>(), Err(Error::CpuList { .. })), "{text:?}");
        }
        for text in ["65536", "0-65536", "0-18446744073709551615", "99999999999999999999999"] {
            assert!(text.parse::<CpuSet>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn order_and_repeats_are_kept_where_asked() {
        assert_eq!(in_order("3, 0-1,0"), Some(vec![3, 0, 1, 0]));
        assert_eq!(in_order(""), None);
        assert_eq!(in_order("0-65535"), Some((0..65536).collect()));
        assert_eq!(in_order("0-65535,0"), None);
    }

    proptest! {
        #[test]
        fn shown_sets_read_back_the_same(cpus in prop::collection::btree_set(0usize..300, 0..60)) {
            let cpus: CpuSet = cpus.into_iter().collect();
            prop_assert_eq!(set(&cpus.to_string()), cpus);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[0-9,\\- \n]{0,20}|\\PC{0,20}") {
            let _ = text.parse::<CpuSet>();
            let _ = in_order(&text);
        }
    }
}
