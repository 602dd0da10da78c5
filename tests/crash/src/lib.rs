//! byway-crash-tests.
