//! `byway tdm run`: a program under the library.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};
use byway_console::failure::NotStarted;

use super::{ask, library, program};
use crate::args::TdmRun;

/// Becomes the program.
///
/// # Errors
/// When there is no library, or the program cannot be started.
pub fn run(args: &TdmRun) -> Result<()> {
    let [name, given @ ..] = args.program.as_slice() else { bail!("no program was named") };
    let mut command = Command::new(name);
    command.args(given);
    let library = library::find(&args.library)?;
    let path = program::find(name).unwrap_or_else(|| PathBuf::from(name));
    match program::unserved(&path, &library) {
        Some(why) => note!("byway: {why}: it runs unserved; only a mount can serve such a program"),
        None => match args.socket.path() {
            Ok(socket) => {
                if let Err(error) = ask::connect(&socket) {
                    note!(
                        "byway: {error:#}: {} runs unserved until it is started again when one does",
                        path.display()
                    );
                }
                library::serve_by(&mut command, &library, &socket);
            }
            Err(error) => note!("byway: {error:#}: {} runs unserved", path.display()),
        },
    }
    Err(NotStarted::new(&path, &command.exec()).into())
}
