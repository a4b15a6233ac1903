//! The descriptions that ranks exchange to compare their calls.

use std::borrow::Cow;

use mp_core::{Call, ElementType};

use crate::communicator::digest::digest;

/// Halves the longest text of a call.
pub(crate) fn shorten(call: &mut Call) {
    let mut texts = vec![&mut call.name, &mut call.settings];
    texts.extend(&mut call.operation);
    if let Some(longest) = texts.into_iter().max_by_key(|text| text.len()) {
        let kept = longest.chars().take(longest.chars().count() / 2).collect();
        *longest = Cow::Owned(kept);
    }
}

/// Returns a number that is different for nearly every other call.
pub(crate) fn digest_of(call: &Call) -> u64 {
    let Call { name, root, count, element, operation, settings, .. } = call;
    let number = |number: &Option<usize>| number.map_or(u64::MAX, |number| number as u64);
    let text = |text: &str| digest(text.bytes().map(u64::from));
    let (type_name, sizes) = match element {
        Some(ElementType { name, size, align, .. }) => (text(name), [*size as u64, *align as u64]),
        None => (0, [u64::MAX; 2]),
    };
    let operation = operation.as_deref().map_or(0, text);
    let texts = [text(name), type_name, operation, text(settings)];
    digest(texts.into_iter().chain(sizes).chain([number(root), number(count)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broadcast() -> Call {
        Call::new("broadcast").elements::<f64>(4).root(0)
    }

    #[test]
    fn digests_tell_calls_apart() {
        let calls = [
            broadcast(),
            broadcast().root(1),
            broadcast().elements::<f64>(5),
            broadcast().elements::<u64>(4),
            broadcast().operation("Sum"),
            broadcast().settings("lines"),
            Call::new("broadcast"),
            Call::new("barrier"),
            Call::new("broadcast").of::<f64>(),
        ];
        for (place, one) in calls.iter().enumerate() {
            for (other_place, other) in calls.iter().enumerate() {
                assert_eq!(one == other, place == other_place);
                assert_eq!(
                    digest_of(one) == digest_of(other),
                    place == other_place,
                    "{one} {other}"
                );
            }
            let bytes = postcard::to_stdvec(one).unwrap();
            assert_eq!(postcard::from_bytes::<Call>(&bytes).unwrap(), *one);
        }
    }
}
