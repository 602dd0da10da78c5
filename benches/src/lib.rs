//! byway-benches.
