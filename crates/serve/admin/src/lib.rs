//! The protocol of control sockets: frames, a listener that checks its clients' users, and the client's side.
//!
//! Knows no request: what is asked and answered is text of its callers, made and read by [`Text`] and [`Fields`].

#![forbid(unsafe_code)]

mod client;
mod fields;
mod frame;
mod listener;
mod replies;

pub use client::{Client, Request};
pub use fields::{Fields, Text};
pub use frame::{Frame, FrameError, HEADER_BYTES, Kind, REPLY_BYTES_MAX, REQUEST_BYTES_MAX, VERSION};
pub use listener::Listener;
pub use replies::{Replies, ReplyError, ask};
