//! Path of the daemon's socket.

use std::path::{Path, PathBuf};

use byway_sys::runtime_folder::{check_folder, look, own_folder};

/// Environment variable with the socket's path, for programs under the library.
pub const SOCKET_VARIABLE: &str = "BYWAY_TDM_SOCKET";

/// Default path: `/run/byway-tdm.sock` for root, whose daemon serves all users; `tdm.sock` in the user's
/// [folder](byway_sys::runtime_folder) for others, and for root where `/run` cannot be used. No other user can make a
/// file there.
///
/// # Errors
/// A sentence: no folder of this user can be used.
pub fn default_socket() -> Result<PathBuf, String> {
    match rustix::process::geteuid().is_root() && is_roots(Path::new("/run")) {
        true => Ok(PathBuf::from("/run/byway-tdm.sock")),
        false => own_folder().map(|folder| folder.join("tdm.sock")),
    }
}

/// Whether only root can make files there, and can.
fn is_roots(folder: &Path) -> bool {
    let found = look(folder).ok().flatten();
    found.is_some_and(|found| check_folder(folder, &found, 0).is_ok())
        && rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_ok()
}
