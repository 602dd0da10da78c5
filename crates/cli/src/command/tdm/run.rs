//! `byway tdm run`: a program under the library.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail, ensure};
use byway_tdm_control::SOCKET_VARIABLE;

use super::{ask, program};
use crate::args::{TdmLibrary, TdmRun};
use crate::failure::NotStarted;

/// What the dynamic loader takes libraries from.
const PRELOAD: &str = "LD_PRELOAD";

/// Becomes the program.
///
/// # Errors
/// When there is no library, or the program cannot be started.
pub fn run(args: &TdmRun) -> Result<()> {
    let [name, given @ ..] = args.program.as_slice() else { bail!("no program was named") };
    let mut command = Command::new(name);
    command.args(given);
    let library = find_library(&args.library)?;
    let socket = args.socket.path();
    let path = program::find(name).unwrap_or_else(|| PathBuf::from(name));
    match program::unserved(&path, &library) {
        Some(why) => eprintln!(
            "byway: {why}: it runs unserved; such programs are served by what is mounted (`byway tdm mount`)"
        ),
        None => {
            if let Err(error) = ask::connect(&socket) {
                eprintln!("byway: {error:#}: {} runs unserved until one does", path.display());
            }
            serve_by(&mut command, &library, &socket);
        }
    }
    Err(NotStarted::new(&path, &command.exec()).into())
}

/// Has a program served by a library and a daemon.
pub fn serve_by(command: &mut Command, library: &Path, socket: &Path) {
    let mut libraries = OsString::from(library);
    if let Some(others) = std::env::var_os(PRELOAD).filter(|others| !others.is_empty()) {
        libraries.push(":");
        libraries.push(others);
    }
    command.env(PRELOAD, libraries).env(SOCKET_VARIABLE, socket);
}

/// The library's file.
///
/// # Errors
/// When it is in none of its places, or where the loader cannot be told of it.
pub fn find_library(args: &TdmLibrary) -> Result<PathBuf> {
    let places = args.places();
    let found = places.iter().find_map(|place| std::fs::canonicalize(place).ok());
    let Some(path) = found else {
        let places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
        bail!(
            "there is no library at {}: name it by --library or BYWAY_TDM_LIBRARY",
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
