//! byway-controller.
