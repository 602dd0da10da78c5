//! Forked children: they end, drop what they inherited or use it, and their parent goes on as if they were not there.
//!
//! `BYWAY_TEST_ROUNDS=500` makes the loop over images longer.

#![allow(clippy::unwrap_used)]

mod backends;
mod child;
mod image;
mod network;
