//! Messages that cause trouble, and functions that observe the process's threads.

use std::{
    borrow::Borrow,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

/// A message that may panic or block when it is lent or dropped in a communication thread.
#[derive(Debug, Default)]
pub struct Stray {
    pub elements: Vec<u64>,
    /// Whether it panics when it is lent there.
    pub panics: bool,
    /// While this is set, lending it there does not return.
    pub stays: Option<Arc<AtomicBool>>,
    pub end: End,
}

/// The effects of dropping the message.
#[derive(Debug, Default)]
pub struct End {
    /// Whether it panics in a communication thread.
    pub panics: bool,
    /// Counts the drops.
    pub count: Option<Arc<AtomicUsize>>,
}

impl Stray {
    pub fn new(elements: impl Into<Vec<u64>>) -> Self {
        Self { elements: elements.into(), ..Self::default() }
    }

    pub fn counted(elements: impl Into<Vec<u64>>, count: &Arc<AtomicUsize>) -> Self {
        let end = End { panics: false, count: Some(Arc::clone(count)) };
        Self { end, ..Self::new(elements) }
    }
}

fn in_communication_thread() -> bool {
    std::thread::current().name().is_some_and(|name| name.starts_with("kt "))
}

impl Borrow<[u64]> for Stray {
    fn borrow(&self) -> &[u64] {
        if in_communication_thread() {
            while self.stays.as_ref().is_some_and(|stays| stays.load(Ordering::Relaxed)) {
                std::thread::sleep(Duration::from_millis(1));
            }
            if self.panics {
                quietly("a message that can't be lent");
            }
        }
        &self.elements
    }
}

impl Drop for End {
    fn drop(&mut self) {
        if let Some(count) = &self.count {
            count.fetch_add(1, Ordering::Relaxed);
        }
        if self.panics && in_communication_thread() {
            quietly("a message that can't be dropped");
        }
    }
}

/// Panics without output on standard error.
fn quietly(message: &'static str) -> ! {
    std::panic::resume_unwind(Box::new(message))
}

/// Waits until `so` returns true.
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    for _ in 0..20_000 {
        if so() {
            return;
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    panic!("{what}: not within ten seconds");
}

/// Returns the processor time that this process's communication threads have used.
pub fn processor_time() -> Duration {
    let mut time = Duration::ZERO;
    for thread in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
        let read = |file: &str| std::fs::read_to_string(thread.path().join(file));
        if read("comm").is_ok_and(|name| name.starts_with("kt "))
            && let Ok(stat) = read("schedstat")
        {
            let ns = stat.split_whitespace().next().and_then(|ns| ns.parse().ok());
            time += Duration::from_nanos(ns.unwrap_or(0));
        }
    }
    time
}
