//! Messages between programs and the daemon: 128 bytes over a stream socket, with descriptors. Every request has one reply.

mod channel;
mod message;
mod socket;
mod stopped;

pub use channel::{Channel, Peer};
pub use message::{MESSAGE_BYTES, Message, NotUnderstood, Order, Reply, Request};
pub use socket::{SOCKET_VARIABLE, default_socket};
