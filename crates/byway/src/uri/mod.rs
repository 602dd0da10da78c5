//! URIs of devices: `embedded:PATH?option=value&…`, `file:PATH`, `tcp://HOST/NQN` and others, parsed by [`Address`](crate::Address).
//!
//! In a path `%XX` is a byte by its two hexadecimal digits, and options begin at the first `?` that a `name=` follows;
//! [`of_image`] and [`of_file`] make the URI of any path.
//!
//! An option that is unknown, given twice or wrongly valued is an error that names what is known: none is accepted
//! and left unread.

mod address;
mod block;
#[cfg(feature = "embedded")]
mod embedded;
mod escape;
mod grammar;
mod paths;
#[cfg(feature = "vfio")]
mod pcie;
#[cfg(any(feature = "embedded", feature = "vfio"))]
mod policy;
mod split;
mod tables;
#[cfg(feature = "tcp")]
mod tcp;

#[cfg(feature = "embedded")]
pub use embedded::{FlushMode, Options, Place, Uri};
pub use escape::of_image;
pub use grammar::parse_size;
pub use paths::{file_of, of_file, of_file_text, of_image_text, path_of};
pub use split::{has_options, option_of, scheme_of, with_options};
pub use tables::OPTIONS;

pub use address::Address;
#[cfg(not(all(feature = "embedded", feature = "kernel", feature = "vfio", feature = "tcp")))]
pub(crate) use address::left_out;
pub use block::{BlockOptions, BlockPlace, BlockUri};
pub(crate) use escape::{decode, encode};
pub(crate) use grammar::{invalid, shown};
#[cfg(feature = "embedded")]
pub(crate) use paths::{of_existing_image, of_new_image};
#[cfg(feature = "vfio")]
pub use pcie::{PcieOptions, PciePlace, PcieUri};
pub(crate) use split::{has_path, split_options};
pub use tables::BLOCK_OPTIONS;
#[cfg(feature = "vfio")]
pub use tables::PCIE_OPTIONS;
pub(crate) use tables::{IO_URING_CMD_OPTIONS, IO_URING_OPTIONS};
#[cfg(feature = "tcp")]
pub(crate) use tcp::{NamelessUri, service_of};
#[cfg(feature = "tcp")]
pub use {tables::TCP_OPTIONS, tcp::TcpUri};
