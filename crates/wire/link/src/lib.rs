//! byway-link.
