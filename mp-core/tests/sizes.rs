//! The results of hot calls fit in registers: they have at most two words.

use mp_core::{Channel, Error, Guard, Result, Slot, World};

const WORD: usize = size_of::<usize>();

#[test]
fn what_calls_return_fits_in_registers() {
    assert_eq!(size_of::<Error>(), WORD);
    assert_eq!(size_of::<Result<()>>(), WORD);
    assert_eq!(size_of::<Guard<'_, u64>>(), 2 * WORD);
    assert_eq!(size_of::<Guard<'_, [u64; 7]>>(), 2 * WORD);
    assert_eq!(size_of::<Option<Guard<'_, u64>>>(), 2 * WORD);
    assert_eq!(size_of::<Result<Guard<'_, u64>>>(), 2 * WORD);
    assert_eq!(size_of::<Slot<'_, u64>>(), 2 * WORD);
    assert_eq!(size_of::<Result<Slot<'_, u64>>>(), 2 * WORD);
    // The pointer to a slice already has two words. Because the length is in the guard, a loop over the elements is as
    // fast as over any slice.
    assert_eq!(size_of::<Guard<'_, [u64]>>(), 3 * WORD);
    assert_eq!(size_of::<Result<Guard<'_, [u64]>>>(), 3 * WORD);
    assert_eq!(size_of::<Result<Slot<'_, [u64]>>>(), 3 * WORD);
}

/// A guard does not record in which kind of place its message lies. The receiver finds that out when the guard is
/// dropped.
#[test]
fn guards_of_every_kind_are_dropped_in_any_order() -> Result<()> {
    let rank = World::solo()?;
    let channel = Channel::degree(5).max_len(3);
    let mut out = rank.sender::<[u64]>("messages", 0, channel)?;
    let messages = rank.receiver::<[u64]>("messages", 0, channel)?;
    let mut kept = None;
    for order in [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 0, 4, 1, 3], [1, 3, 0, 4, 2]] {
        for moved in 0..32u64 {
            let mut guards: Vec<Option<Guard<'_, [u64]>>> = Vec::new();
            for number in 0..5u64 {
                match moved >> number & 1 {
                    0 => out.send(&[number; 2])?,
                    _ => out.send_buffer(rank.buffer_from(&[number; 100])?)?,
                }
            }
            for _ in 0..5 {
                guards.push(Some(messages.receive()?));
            }
            for at in order {
                let guard = guards[at].take().expect("each once");
                let len = if moved >> at & 1 == 0 { 2 } else { 100 };
                assert_eq!(guard[..], vec![at as u64; len][..], "{order:?}, {moved:b}");
                match at {
                    3 => drop(guard.into_buffer()?),
                    _ => drop(guard),
                }
            }
            // All slots are free again.
            (0..5).try_for_each(|_| out.send(&[7]))?;
            assert!(out.try_send(&[7]).is_err());
            for _ in 0..5 {
                assert_eq!(messages.receive()?[..], [7]);
            }
        }
        // The first round allocates some blocks that the rank keeps.
        let in_use = rank.memory().in_use;
        assert_eq!(*kept.get_or_insert(in_use), in_use);
    }
    let whole = rank.memory().in_use;
    // A guard that is leaked keeps its buffer as long as its receiver.
    for _ in 0..20 {
        out.send_buffer(rank.buffer_zeroed(10_000)?)?;
        std::mem::forget(messages.receive()?);
    }
    assert!(rank.memory().in_use >= whole + 20 * 80_000);
    drop(messages);
    assert!(rank.memory().in_use < whole + 5 * 80_000);
    Ok(())
}
