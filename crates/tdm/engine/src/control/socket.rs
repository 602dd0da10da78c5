//! Where a daemon is found.

use std::path::PathBuf;

/// Names the socket for programs under the library.
pub const SOCKET_VARIABLE: &str = "BYWAY_TDM_SOCKET";

/// Where a user's daemon listens if nobody says otherwise: in the user's runtime folder, or in `/tmp` under the user's number.
#[must_use]
pub fn default_socket() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(folder) if !folder.is_empty() => PathBuf::from(folder).join("byway-tdm.sock"),
        _ => PathBuf::from(format!("/tmp/byway-tdm-{}.sock", rustix::process::geteuid().as_raw())),
    }
}
