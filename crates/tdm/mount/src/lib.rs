//! A FUSE mount over a folder, for programs that cannot load the library: static and Go programs, io_uring, mappings
//! ([decision 44](../../../../docs/decisions/0044-fuse-mount.md)).
//!
//! The mounting process is a client of the daemon like a program under the library: it makes the requested calls below and uses the shared file
//! table.
#![forbid(unsafe_code)]

mod answer;
mod attributes;
mod change;
mod content;
mod error;
mod folder;
mod fuse;
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
