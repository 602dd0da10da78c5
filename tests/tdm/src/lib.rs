//! Unmodified programs under the library, with a daemon that can be killed: what tests of transparent mappings share.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a test that cannot go on ends")]

mod actor;
mod built;
mod keeper;
mod place;
mod survivor;

pub use actor::{Actor, Answer};
pub use built::{actor, library, witness};
pub use keeper::Keeper;
pub use place::{Place, ask_again};
pub use survivor::assert_survives;
