//! No device: every command that a namespace of blocks would take succeeds at once, and moves no byte.
//!
//! What is left is what this library costs. `byway perf null-backend:1G` and the benches measure it.

mod device;
mod queue;

pub use device::Nil;
pub use queue::NilQueue;
