//! The `byway-lab` command: experiments.

#[macro_use(note, put)]
extern crate byway_console;

mod args;
mod command;
mod contest;
mod data;
mod endurance;
mod fit;
mod report;

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use byway_console::failure;
use byway_console::terminal::Interrupt;
use clap::Parser;

use crate::args::{Cli, Command};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return failure::end_of_usage("byway-lab", &error),
    };
    match byway_console::logging::install().and_then(|()| run(&cli.command)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure::end("byway-lab", &error),
    }
}

fn run(command: &Command) -> anyhow::Result<()> {
    let interrupt = Interrupt::listen()?;
    let mut out = BufWriter::new(io::stdout().lock());
    match command {
        Command::Kv(args) => command::kv::run(args, &mut out, &interrupt)?,
        Command::Endurance(args) => command::endurance::run(args, &mut out, &interrupt)?,
        Command::Workload(args) => command::workload::run(args, &mut out, &interrupt)?,
        Command::Calibrate(args) => command::calibrate::run(args, &mut out, &interrupt)?,
        Command::Fit(args) => command::fit::run(args, &mut out)?,
        Command::Data(args) => command::data::run(args, &mut out, &interrupt)?,
        Command::Report(args) => command::report::run(args, &mut out, &interrupt)?,
        Command::Gen(args) => command::generate::run(&args.what, &mut out)?,
    }
    out.flush()?;
    Ok(())
}
