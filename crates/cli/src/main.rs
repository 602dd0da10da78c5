//! The `byway` command.

#![forbid(unsafe_code)]

#[macro_use(note, put)]
extern crate byway_console;

/// musl's allocator has one lock and no cache per thread: an export of records takes 2.8 times as long with it.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod args;
mod command;
mod copy;
mod data;
mod decode;
mod generate;
mod hexdump;
mod ledger_page;
mod moved;
mod namespace;
mod opened;
mod origin;
mod perf_report;
mod target;
mod watch;

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use byway_console::failure;
use byway_console::terminal::Interrupt;

use crate::args::{Cli, Command, Parsed};
use crate::target::Target;

fn main() -> ExitCode {
    let Parsed { cli, targets } = match args::parse() {
        Ok(parsed) => parsed,
        Err(error) => return moved::end(&error).unwrap_or_else(|| failure::end_of_usage("byway", &error)),
    };
    if cli.verbose {
        targets.iter().for_each(explain);
    }
    match byway_console::logging::install().and_then(|()| run(&cli)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure::end("byway", &error),
    }
}

/// Says what a device's name is taken for.
fn explain(target: &Target) {
    match target.kind() {
        Some(kind) if target.given() == target.uri() => note!("byway: {target} is {kind}"),
        Some(kind) => note!("byway: {} is taken as {target}, {kind}", target.given()),
        // Opening it says why it is no device.
        None => {}
    }
}

fn run(cli: &Cli) -> anyhow::Result<()> {
    let interrupt = Interrupt::listen()?;
    let mut out = BufWriter::new(io::stdout().lock());
    match &cli.command {
        Command::Create(args) => command::create::run(args, &mut out)?,
        Command::Enum(args) => command::enumerate::run(args, &mut out)?,
        Command::Discover(args) => command::discover::run(args, &mut out)?,
        Command::List(args) => command::list::run(args, &mut out)?,
        Command::Identify(args) => command::identify::run(args, &mut out)?,
        Command::Log(args) => command::log::run(args, &mut out)?,
        Command::Feature(args) => command::feature::run(&args.command, &mut out, &interrupt)?,
        Command::Pass(args) => command::pass::run(&args.queue, &mut out, &interrupt)?,
        Command::Info(args) => command::info::run(args, cli.verbose, &mut out)?,
        Command::Check(args) => command::check::run(args, &mut out, &interrupt)?,
        Command::Resize(args) => command::resize::run(args, &mut out, &interrupt)?,
        Command::Snapshot(args) => command::snapshot::run(args, &mut out, &interrupt)?,
        Command::Format(args) => command::erase::format(args, &mut out, &interrupt)?,
        Command::Sanitize(args) => command::erase::sanitize(args, &mut out, &interrupt)?,
        Command::Serve(args) => command::serve::run(args, &mut out)?,
        Command::Subsystem(args) => command::live::subsystem(&args.command, &mut out)?,
        Command::Ns(args) => command::live::namespace(&args.command, &mut out)?,
        Command::Ana(args) => command::live::ana(&args.command, &mut out)?,
        Command::Port(args) => command::live::port(&args.command, &mut out)?,
        Command::Host(args) => command::live::host(&args.command, &mut out)?,
        Command::Tdm(args) => command::tdm::run(&args.command, &mut out, &interrupt)?,
        Command::Top(args) => command::top::run(args, &mut out, &interrupt)?,
        Command::Key(args) => command::key::run(&args.command, &mut out)?,
        Command::Kv(args) => command::kv::run(&args.command, &mut out, &interrupt)?,
        Command::Sql(args) => command::sql::run(args, &mut out, &interrupt)?,
        Command::Nvm(args) => command::nvm::run(&args.command, &mut out, &interrupt)?,
        Command::Dd(args) => command::dd::run(args, &mut out, &interrupt)?,
        Command::Perf(args) => command::perf::run(args, &mut out, &interrupt)?,
        Command::Bench(args) => command::bench::run(&args.command, &mut out, &interrupt)?,
        Command::Nvme(command) => command::nvme::run(command, &mut out, &interrupt)?,
        Command::Uri(args) => command::uri::run(args, &mut out)?,
        Command::Gen(args) => generate::run(&args.what, &mut out)?,
    }
    out.flush()?;
    Ok(())
}
