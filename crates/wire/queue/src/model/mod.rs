//! Loom models of rings, doorbells and the run lock.
//!
//! Contents are relaxed atomics, so only the orderings of the code under test make them visible. If one is too weak,
//! some execution reads a stale value and fails.

mod callers;
mod delegation;
mod grants;
mod readers;
mod rings;
mod threads;
mod validated;
mod waiting;

use loom::model::Builder;

/// All interleavings with at most this many preemptions.
fn bounded(switches: usize) -> Builder {
    let mut model = Builder::new();
    model.preemption_bound = Some(switches);
    model
}
