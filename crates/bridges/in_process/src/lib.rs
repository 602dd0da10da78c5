//! byway-in-process.
