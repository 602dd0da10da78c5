//! byway-core.
