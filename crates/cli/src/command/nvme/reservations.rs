//! Reservations: `resv-register`, `resv-acquire`, `resv-release`, `resv-report`.

use std::fmt;
use std::io::Write;

use anyhow::{Context, Result, ensure};
use byway::spec::base::reservation::{EXTENDED_HEAD_BYTES, RegisteredControllerExtended, ReservationType};
use byway::{
    Backend, BackendQueue, Device, Nsid, Outcome, Persist, Registrant, ReservationCommand, ReservationReport,
};
use byway_console::records::to_hex;
use byway_console::table::Table;
use byway_console::terminal::{print_done, print_json};
use serde::Serialize;

use crate::args::{Reserved, ResvAcquire, ResvRegister, ResvRelease, ResvReport};
use crate::command::answer;

/// What was done, to print.
#[derive(Serialize)]
struct Done {
    nsid: u32,
    done: &'static str,
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "namespace {}: {}", self.nsid, self.done)
    }
}

/// Registers the host, ends its registration, or replaces its key.
///
/// # Errors
/// A device without reservations, and what it refuses.
pub fn register(args: &ResvRegister, out: &mut impl Write) -> Result<()> {
    let persist = match args.cptpl.as_str() {
        "2" => Persist::End,
        "3" => Persist::Keep,
        _ => Persist::AsBefore,
    };
    let key = (!args.iekey).then_some(args.crkey);
    let (rrega, new) = (args.rrega, args.nrkey);
    ensure!(rrega == 1 || new != 0, "--nrkey is the key to register by: a key is not 0");
    let command = |nsid| match rrega {
        1 => ReservationCommand::Unregister { nsid, key },
        2 => ReservationCommand::Replace { nsid, key, new, persist },
        _ => ReservationCommand::Register { nsid, key: new, persist },
    };
    let done = ["the host is registered", "the host is registered no more", "the host's key is replaced"];
    change(&args.of, command, done[usize::from(rrega).min(2)], out)
}

/// Acquires the reservation, or preempts another's.
///
/// # Errors
/// As [`register`].
pub fn acquire(args: &ResvAcquire, out: &mut impl Write) -> Result<()> {
    let (key, other, kind) = (args.crkey, args.prkey, args.rtype);
    let racqa = args.racqa;
    let command = |nsid| match racqa {
        0 => ReservationCommand::Acquire { nsid, key, kind },
        action => ReservationCommand::Preempt { nsid, key, other, kind, abort: action == 2 },
    };
    let done = if racqa == 0 { "the reservation is acquired" } else { "the other host is preempted" };
    change(&args.of, command, done, out)
}

/// Releases the reservation, or clears it with every registration.
///
/// # Errors
/// As [`register`].
pub fn release(args: &ResvRelease, out: &mut impl Write) -> Result<()> {
    let key = args.crkey;
    if args.rrela == 1 {
        let command = |nsid| ReservationCommand::Clear { nsid, key };
        return change(&args.of, command, "every registration is ended", out);
    }
    let kind = args.rtype.context("--rtype says which type of reservation is released")?;
    let command = |nsid| ReservationCommand::Release { nsid, key, kind };
    change(&args.of, command, "the reservation is released", out)
}

fn change(
    of: &Reserved,
    command: impl FnOnce(Nsid) -> ReservationCommand,
    done: &'static str,
    out: &mut impl Write,
) -> Result<()> {
    let device = byway::open(of.device.uri())?;
    let nsid = answer::namespace_of(&device, of.ns)?;
    send(&device, command(nsid))?;
    device.close()?;
    Ok(print_done(out, of.json, &Done { nsid: nsid.get(), done })?)
}

fn send(device: &Device, command: ReservationCommand) -> Result<Outcome> {
    let command = command.for_device(device)?;
    Ok(device.default_queue()?.execute(command)?)
}

/// A report, for JSON.
#[derive(Serialize)]
struct Reported {
    nsid: u32,
    generation: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    rtype: Option<u8>,
    persists: bool,
    registrants: Vec<ReportedRegistrant>,
}

/// A registrant, for JSON.
#[derive(Serialize)]
struct ReportedRegistrant {
    host: String,
    key: u64,
    controller: Option<u16>,
    holds: bool,
}

impl From<&Registrant> for ReportedRegistrant {
    fn from(one: &Registrant) -> Self {
        Self { host: to_hex(&one.host), key: one.key, controller: one.controller, holds: one.is_holder }
    }
}

/// Prints who is registered, and who holds the reservation.
///
/// # Errors
/// As [`register`].
pub fn report(args: &ResvReport, out: &mut impl Write) -> Result<()> {
    let device = byway::open_to_read(args.of.device.uri())?;
    let nsid = answer::namespace_of(&device, args.of.ns)?;
    // A report is as long as its registrants: the head says how many there are.
    let total = read(&device, nsid, 0)?.total;
    let report = read(&device, nsid, total.into())?;
    if args.of.json {
        return Ok(print_json(out, &reported(nsid, &report))?);
    }
    let kind = report
        .kind
        .map_or_else(|| "no reservation is held".to_owned(), |kind: ReservationType| kind.to_string());
    let persists = if report.persists { "; registrations persist through power loss" } else { "" };
    put!(out, "namespace {nsid}: {kind}, generation {}{persists}\n", report.generation)?;
    let mut table = Table::new(&["host", "key", "controller", "holds"]);
    for one in report.registrants.iter().map(ReportedRegistrant::from) {
        let controller = one.controller.map_or_else(|| "-".to_owned(), |id| id.to_string());
        let holds = if one.holds { "yes" } else { "no" };
        table.push(vec![one.host, format!("{:#x}", one.key), controller, holds.to_owned()]);
    }
    if report.registrants.is_empty() { Ok(()) } else { Ok(put!(out, "{table}")?) }
}

/// A report with room for so many registrants.
fn read(device: &Device, nsid: Nsid, registrants: usize) -> Result<ReservationReport> {
    let bytes = EXTENDED_HEAD_BYTES + registrants * size_of::<RegisteredControllerExtended>();
    let outcome = send(device, ReservationCommand::Report { nsid, into: device.buffer(bytes)? })?;
    let buffer = outcome.buffer.context("the device gave no report back")?;
    Ok(ReservationReport::parse(buffer.as_slice())?)
}

fn reported(nsid: Nsid, report: &ReservationReport) -> Reported {
    Reported {
        nsid: nsid.get(),
        generation: report.generation,
        rtype: report.kind.map(|kind| kind.0),
        persists: report.persists,
        registrants: report.registrants.iter().map(ReportedRegistrant::from).collect(),
    }
}
