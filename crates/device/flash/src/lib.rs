//! byway-flash.
