//! Requests from other processes to a server, to change what it serves: frames of [`byway_admin`], over a socket of this machine.
//!
//! The socket is at the path that the server's options name, or follows from an image that it serves, as that of snapshots does. Requests are
//! taken from the same user and from root, one connection at a time; each has one request, and its answer. A client sends its
//! request, in which secrets may be, once it knows whose process listens.

mod client;
mod listener;
mod ports;
mod reply;
mod request;
mod secrets;

pub use client::{absolute, ask};
pub use reply::Reply;
pub use request::Request;
pub use secrets::HostSecrets;

pub(super) use listener::Requests;

use std::time::Duration;

/// A client connects and sends its request within this time.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(5);

/// A server has done what it was asked within this time: it may have to open a device elsewhere.
const SERVER_TIMEOUT: Duration = Duration::from_secs(60);
