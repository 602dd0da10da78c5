//! What the model checker proves of rings, doorbells and the turn.
//!
//! Contents are relaxed atomics, so only the orderings of the code under test can make them visible: where one is too
//! weak, some execution reads a stale value and fails.

mod callers;
mod leave;
mod rings;
mod threads;

use loom::model::Builder;

/// All interleavings with at most so many switches that no thread asked for.
fn bounded(switches: usize) -> Builder {
    let mut model = Builder::new();
    model.preemption_bound = Some(switches);
    model
}
