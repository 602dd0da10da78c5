//! byway-kv.
