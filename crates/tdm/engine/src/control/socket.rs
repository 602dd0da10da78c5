//! Path of the daemon's socket.

use std::path::PathBuf;

/// Environment variable with the socket's path, for programs under the library.
pub const SOCKET_VARIABLE: &str = "BYWAY_TDM_SOCKET";

/// Default path: in the user's runtime directory, or in `/tmp` with the user's number.
#[must_use]
pub fn default_socket() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(folder) if !folder.is_empty() => PathBuf::from(folder).join("byway-tdm.sock"),
        _ => PathBuf::from(format!("/tmp/byway-tdm-{}.sock", rustix::process::geteuid().as_raw())),
    }
}
