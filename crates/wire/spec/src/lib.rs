//! byway-spec.
