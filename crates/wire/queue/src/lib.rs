//! byway-queue.
