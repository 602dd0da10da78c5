//! Memory of a device that programs store into: what keeps a store, and what it takes until it is kept.
//!
//! Source: the study of transparent DAX mappings (seed 003), DESIGN.md "Boundaries" 8.

mod domain;
mod memory;
mod window;

pub use domain::Domain;
pub use memory::{Memory, MemoryError, Point};
pub use window::Window;
