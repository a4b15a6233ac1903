//! The machine: packages, cores, hardware threads, caches.
