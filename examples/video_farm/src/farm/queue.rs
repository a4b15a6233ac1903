//! A bounded queue behind a spin lock, as the paper's shared-memory baseline has it.
//!
//! Who finds it full or empty looks again, and after a few looks lets others run between looks:
//! with more threads than cores, the one that is waited for may need this core.

use std::collections::VecDeque;
use std::sync::Arc;

use crossbeam_utils::{Backoff, CachePadded};
use spin::mutex::SpinMutex;
use spin::relax::Yield;

struct State<T> {
    items: VecDeque<T>,
    capacity: usize,
    producers: usize,
    consumer: bool,
}

type Shared<T> = Arc<CachePadded<SpinMutex<State<T>, Yield>>>;

/// Puts items in; a clone of it is one more that does.
pub struct Producer<T>(Shared<T>);

/// Takes items out.
pub struct Consumer<T>(Shared<T>);

/// A queue that holds up to `capacity` items, at least one.
///
/// ```
/// let (producer, consumer) = video_farm::farm::queue::queue(2);
/// producer.push(1).unwrap();
/// drop(producer);
/// assert_eq!((consumer.pop(), consumer.pop()), (Some(1), None));
/// ```
pub fn queue<T>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    let capacity = capacity.max(1);
    let items = VecDeque::with_capacity(capacity);
    let state = State { items, capacity, producers: 1, consumer: true };
    let shared: Shared<T> = Arc::new(CachePadded::new(SpinMutex::new(state)));
    (Producer(shared.clone()), Consumer(shared))
}

impl<T> Producer<T> {
    /// Appends an item, after waiting for room.
    ///
    /// # Errors
    /// The item, when there is no consumer any more.
    pub fn push(&self, item: T) -> Result<(), T> {
        let backoff = Backoff::new();
        loop {
            {
                let mut state = self.0.lock();
                if !state.consumer {
                    return Err(item);
                }
                if state.items.len() < state.capacity {
                    state.items.push_back(item);
                    return Ok(());
                }
            }
            backoff.snooze();
        }
    }
}

impl<T> Consumer<T> {
    /// Takes the oldest item, after waiting for one; `None` when there is none and no producer.
    pub fn pop(&self) -> Option<T> {
        let backoff = Backoff::new();
        loop {
            {
                let mut state = self.0.lock();
                if let Some(item) = state.items.pop_front() {
                    return Some(item);
                }
                if state.producers == 0 {
                    return None;
                }
            }
            backoff.snooze();
        }
    }

    /// Takes the oldest item if there is one now.
    pub fn try_pop(&self) -> Option<T> {
        self.0.lock().items.pop_front()
    }
}

impl<T> Clone for Producer<T> {
    fn clone(&self) -> Self {
        self.0.lock().producers += 1;
        Self(self.0.clone())
    }
}

impl<T> Drop for Producer<T> {
    fn drop(&mut self) {
        self.0.lock().producers -= 1;
    }
}

impl<T> Drop for Consumer<T> {
    fn drop(&mut self) {
        let left = {
            let mut state = self.0.lock();
            state.consumer = false;
            std::mem::take(&mut state.items)
        };
        // Dropped outside the lock: an item may take its time.
        drop(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_keep_their_order_across_threads() {
        for capacity in [0, 1, 2, 7] {
            let (producer, consumer) = queue(capacity);
            std::thread::scope(|scope| {
                scope.spawn(move || (0..1000).for_each(|i| producer.push(i).unwrap()));
                let got: Vec<i32> = std::iter::from_fn(|| consumer.pop()).collect();
                assert!(got.iter().copied().eq(0..1000), "capacity {capacity}");
            });
        }
    }

    #[test]
    fn ends_see_each_other_go() {
        let (producer, consumer) = queue(2);
        producer.push("a").unwrap();
        let second = producer.clone();
        drop(producer);
        second.push("b").unwrap();
        drop(second);
        assert_eq!(consumer.pop(), Some("a"));
        assert_eq!(consumer.try_pop(), Some("b"));
        assert_eq!(consumer.try_pop(), None);
        assert_eq!(consumer.pop(), None);

        let (producer, consumer) = queue(1);
        producer.push(Arc::new(())).unwrap();
        std::thread::scope(|scope| {
            let blocked = scope.spawn(|| producer.push(Arc::new(())));
            drop(consumer);
            assert!(blocked.join().unwrap().is_err());
        });
    }
}
