//! `byway tdm`: device memory under programs that know nothing of it.

mod ask;
mod explain;
mod foreign;
mod program;
mod run;
mod serve;
mod status;
mod words;

use std::io::Write;

use anyhow::Result;

use crate::args::TdmCommand;
use crate::terminal::Interrupt;

/// Does what was asked for.
///
/// # Errors
/// Those of the command.
pub fn run(command: &TdmCommand, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
    match command {
        TdmCommand::Serve(args) => serve::run(args, out),
        TdmCommand::Run(args) => run::run(args),
        TdmCommand::Status(args) => status::run(args, out, interrupt),
        TdmCommand::Explain(args) => explain::run(args, out),
    }
}
