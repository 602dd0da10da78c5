//! A folder mounted over itself, so that every program in it is served: static ones, those of Go, io_uring, mappings.
//!
//! The process that mounts is a client of the daemon like a program under the library: it makes the calls below that it is
//! asked for, and its writes and syncs go by the board that all share.
#![forbid(unsafe_code)]

mod answer;
mod attributes;
mod change;
mod content;
mod error;
mod folder;
mod front;
mod handles;
mod mount;
mod names;
mod node;
mod nodes;
mod open_file;
mod pseudo;
mod service;
mod shared;
mod xattr;

pub use error::MountError;
pub use mount::{Departure, Mounted, Options};
