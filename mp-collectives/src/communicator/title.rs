//! The name of a communicator, and the call that its ranks make together at the moment, for reports of waits.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mp_core::waits::Caller;

/// A communicator's name, as its rank has set it, and the call of the rank that waits in words or regions of the
/// communicator.
#[derive(Debug)]
pub(crate) struct Title {
    texts: Mutex<Texts>,
}

#[derive(Debug)]
struct Texts {
    name: Arc<str>,
    call: Option<String>,
}

impl Title {
    pub(crate) fn new(name: &str) -> Arc<Self> {
        Arc::new(Self { texts: Mutex::new(Texts { name: name.into(), call: None }) })
    }

    fn lock(&self) -> MutexGuard<'_, Texts> {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn name(&self) -> Arc<str> {
        Arc::clone(&self.lock().name)
    }

    pub(crate) fn set_name(&self, name: &str) {
        self.lock().name = name.into();
    }

    /// Records the call that this rank makes together with the others, until the result is dropped.
    pub(crate) fn calls(&self, call: impl ToString) -> Calling<'_> {
        Calling { title: self, before: self.lock().call.replace(call.to_string()) }
    }

    /// Returns the recorded call, if there is one.
    pub(crate) fn noted(&self) -> Option<String> {
        self.lock().call.clone()
    }

    /// Returns the description of a call in this communicator, for reports.
    pub(crate) fn told(&self, call: impl std::fmt::Display) -> String {
        format!("{call} on \"{}\"", self.name())
    }
}

/// Returns the operation that the caller names, or else the recorded call.
impl Caller for Title {
    fn call(&self, operation: Option<&str>) -> Option<String> {
        let call = operation.map(str::to_owned).or_else(|| self.noted());
        call.map(|call| self.told(call))
    }
}

/// See [`Title::calls`].
pub(crate) struct Calling<'a> {
    title: &'a Title,
    before: Option<String>,
}

impl Drop for Calling<'_> {
    fn drop(&mut self) {
        self.title.lock().call = self.before.take();
    }
}
