//! The target from outside: a small host on the codec's other side, over loopback.
#![allow(clippy::unwrap_used)]

mod admin;
mod authenticating;
mod bad_peers;
mod blocks;
mod connecting;
mod fused;
mod host;
mod keys;
mod paths;
mod served;
mod tls;
mod tunnel;
