//! `byway tdm`: transparent DAX mappings.

mod ask;
mod bench;
mod explain;
mod foreign;
mod library;
mod mount;
mod order;
mod program;
mod recover;
mod round;
mod run;
mod serve;
mod status;
mod words;

use std::io::Write;

use anyhow::Result;
use byway_console::terminal::Interrupt;
use byway_tdm_engine::control::Order;

use crate::args::{PinLevel, TdmCommand};

/// Runs a command.
///
/// # Errors
/// The command's errors.
pub fn run(command: &TdmCommand, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
    match command {
        TdmCommand::Serve(args) => serve::run(args, out),
        TdmCommand::Run(args) => run::run(args),
        TdmCommand::Mount(args) => mount::run(args, out),
        TdmCommand::Status(args) => status::run(args, out, interrupt),
        TdmCommand::Explain(args) => explain::run(args, out),
        TdmCommand::Pin(args) => {
            let order = if args.level == PinLevel::Dax { Order::Promote } else { Order::Pin };
            order::run(order, &args.file, out)
        }
        TdmCommand::Unpin(args) => order::run(Order::Unpin, args, out),
        TdmCommand::Evict(args) => order::run(Order::Evict, args, out),
        TdmCommand::Drain(args) => order::run(Order::Drain, args, out),
        TdmCommand::Prefetch(args) => order::run(Order::Prefetch, args, out),
        TdmCommand::Recover(args) => recover::run(args, out),
        TdmCommand::Bench(args) if args.round => round::run(args, out, interrupt),
        TdmCommand::Bench(args) => bench::run(args, out, interrupt),
    }
}
