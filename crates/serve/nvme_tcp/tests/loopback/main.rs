//! The target from outside: a small host on the codec's other side, over loopback.
#![allow(clippy::unwrap_used)]

mod aborting;
mod admin;
mod authenticating;
mod bad_peers;
mod blocks;
mod bounds;
mod caller;
mod concatenating;
mod connecting;
mod discovery_client;
mod engine;
mod failing;
mod fast_path;
mod fused;
mod host;
mod keys;
mod live;
mod many_hosts;
mod paths;
mod policies;
mod raw;
mod served;
mod subsystems;
mod tls;
mod tunnel;
