//! byway-sys.
