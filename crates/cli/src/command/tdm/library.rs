//! The library, and starting programs under it.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail, ensure};
use byway_tdm_engine::control::SOCKET_VARIABLE;

use crate::args::TdmLibrary;

/// The dynamic loader's variable.
pub const PRELOAD: &str = "LD_PRELOAD";

/// Whether this program is linked statically: it cannot load a library into itself, and comes without the one for other programs.
pub const IS_STATIC: bool = cfg!(target_feature = "crt-static");

/// Sets a command up to be served by a library and a daemon.
pub fn serve_by(command: &mut Command, library: &Path, socket: &Path) {
    let mut libraries = OsString::from(library);
    if let Some(others) = std::env::var_os(PRELOAD).filter(|others| !others.is_empty()) {
        libraries.push(":");
        libraries.push(others);
    }
    command.env(PRELOAD, libraries).env(SOCKET_VARIABLE, socket);
}

/// Path of the library.
///
/// # Errors
/// It is not found, or its path cannot be given to the loader.
pub fn find(args: &TdmLibrary) -> Result<PathBuf> {
    let places = args.places();
    let found = places.iter().find_map(|place| std::fs::canonicalize(place).ok());
    let Some(path) = found else {
        let places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
        let source = if IS_STATIC {
            "this statically linked byway comes without it; the package byway-tdm and the wheel have it"
        } else {
            "`make install` puts it there"
        };
        bail!(
            "there is no library at {}: {source}, --library or BYWAY_TDM_LIBRARY names another; `byway tdm mount` needs none",
            places.join(", nor at ")
        );
    };
    let separates = |byte: &u8| byte.is_ascii_whitespace() || *byte == b':';
    ensure!(
        !path.as_os_str().as_bytes().iter().any(separates),
        "{} has a blank or a colon in its name, by which the loader parts libraries (ld.so(8))",
        path.display()
    );
    Ok(path)
}
