//! What the public crate does without its features: `cargo test -p byway-features --features alone --test left_out`.
//!
//! A package of its own, because the tests of `byway` have every feature.
