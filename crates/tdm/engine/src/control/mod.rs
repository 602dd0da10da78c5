//! What programs and the daemon say to each other.

mod channel;
mod message;
mod socket;
mod stopped;

pub use channel::{Channel, Peer};
pub use message::{MESSAGE_BYTES, Message, NotUnderstood, Order, Reply, Request};
pub use socket::{SOCKET_VARIABLE, default_socket};
