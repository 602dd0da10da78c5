//! byway.
