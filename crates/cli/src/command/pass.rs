//! `byway pass`: any command, as its bytes are.

use std::fmt;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use byway::spec::{Command as Entry, Direction};
use byway::{AdminCommand, AdminQueue, Backend, BackendQueue, Buffer, Device, Outcome, RawCommand, RawData};
use byway_console::files::{self, DATA_MAX_BYTES};
use byway_console::records::to_hex;
use byway_console::size;
use byway_console::terminal::{Interrupt, print_done, print_json};
use serde::Serialize;

use super::answer;
use crate::args::{PassCommand, PassIo, PassQueue};
use crate::hexdump;
use byway_console::event::wait_for_any;

/// How long an admin command is waited for before it is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What a command that succeeded answered.
#[derive(Serialize)]
struct Answered {
    dw0: u32,
    dw1: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data_hex: Option<String>,
}

/// Sends a command and prints what it answers.
///
/// # Errors
/// Data and direction that do not fit, a backend that takes no such command, and what the device says.
pub fn run(queue: &PassQueue, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
    match queue {
        PassQueue::Admin(args) => admin(args, out, interrupt),
        PassQueue::Io(args) => io(args, out, interrupt),
    }
}

/// Sends an admin command, and prints what it answers.
///
/// # Errors
/// As [`run`].
pub fn admin(args: &PassCommand, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
    let sent = Sent::of(args, 1, interrupt)?;
    let entry = entry_of(args, args.ns.unwrap_or(0));
    if args.dry_run {
        return Shown::new("admin", &entry, &sent).write(args.json, out);
    }
    if args.show_command {
        Shown::new("admin", &entry, &sent).write(args.json, &mut io::stderr())?;
    }
    let device = byway::open(args.device.uri())?;
    let command = AdminCommand::raw(entry, sent.data(&device)?);
    let begun = Instant::now();
    let outcome = match args.timeout {
        None => device.admin(command)?,
        Some(ms) => admin_within(&device, command, Duration::from_millis(ms))?,
    };
    let took = begun.elapsed();
    device.close()?;
    print(args, &sent, &outcome, took, out)
}

/// Sends an admin command, and waits for a time only.
fn admin_within(device: &Device, command: AdminCommand, time: Duration) -> Result<Outcome> {
    // Without a deadline if it is beyond the clock's range.
    let until = Instant::now().checked_add(time);
    let mut calls = device.admin_queue()?;
    calls.submit(command, 0).map_err(byway::Error::from)?;
    loop {
        if let Some(finished) = calls.next_finished()? {
            return Ok(finished.result.map_err(byway::Error::from)?);
        }
        let left = until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            break;
        }
        wait_for_any([calls.event()?], left.min(LOOK_EVERY))?;
    }
    let given_up = match calls.cancel(0) {
        Ok(()) => "it was given up before it was begun".to_owned(),
        Err(error) => error.to_string(),
    };
    // Dropping the queue would wait for the command, which may never end; the process exit ends it.
    std::mem::forget(calls);
    bail!("no completion within {} ms: {given_up}", time.as_millis())
}

/// Sends an I/O command, and prints what it answers.
///
/// # Errors
/// As [`run`].
pub fn io(io: &PassIo, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
    let args = &io.command;
    let sent = Sent::of(args, io.parts, interrupt)?;
    let device =
        if args.dry_run { byway::open_to_read(args.device.uri())? } else { byway::open(args.device.uri())? };
    let nsid = match args.ns {
        // Zero and all ones mean something to commands.
        Some(nsid) => nsid,
        None => answer::namespace_of(&device, None)?.get(),
    };
    let entry = entry_of(args, nsid);
    if args.dry_run {
        return Shown::new("io", &entry, &sent).write(args.json, out);
    }
    if args.show_command {
        Shown::new("io", &entry, &sent).write(args.json, &mut io::stderr())?;
    }
    let command = RawCommand { entry, data: sent.data(&device)? };
    let mut queue = device.default_queue()?;
    let begun = Instant::now();
    let outcome = match args.timeout {
        None => queue.execute(command.into())?,
        Some(ms) => within(&mut queue, command, Duration::from_millis(ms))?,
    };
    let took = begun.elapsed();
    drop(queue);
    device.close()?;
    print(args, &sent, &outcome, took, out)
}

/// A command as it is sent, to print.
#[derive(Serialize)]
struct Shown {
    queue: &'static str,
    opcode: u8,
    nsid: u32,
    cdw2: u32,
    cdw3: u32,
    cdw10: u32,
    cdw11: u32,
    cdw12: u32,
    cdw13: u32,
    cdw14: u32,
    cdw15: u32,
    data_len: usize,
    direction: &'static str,
}

impl Shown {
    fn new(queue: &'static str, entry: &Entry, sent: &Sent) -> Self {
        let Entry { nsid, cdw2, cdw3, cdw10, cdw11, cdw12, cdw13, cdw14, cdw15, .. } = *entry;
        let data_len = sent.bytes.len();
        let direction = match (data_len, sent.is_read) {
            (0, _) => "none",
            (_, true) => "from the device",
            (_, false) => "to the device",
        };
        let opcode = entry.opcode();
        Self {
            queue,
            opcode,
            nsid,
            cdw2,
            cdw3,
            cdw10,
            cdw11,
            cdw12,
            cdw13,
            cdw14,
            cdw15,
            data_len,
            direction,
        }
    }

    fn write(&self, json: bool, out: &mut impl Write) -> Result<()> {
        Ok(print_done(out, json, self)?)
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "queue     {}\nopcode    {:#04x}\nnsid      {:#010x}",
            self.queue, self.opcode, self.nsid
        )?;
        let dwords = [
            ("cdw2", self.cdw2),
            ("cdw3", self.cdw3),
            ("cdw10", self.cdw10),
            ("cdw11", self.cdw11),
            ("cdw12", self.cdw12),
            ("cdw13", self.cdw13),
            ("cdw14", self.cdw14),
            ("cdw15", self.cdw15),
        ];
        dwords.iter().try_for_each(|(name, value)| writeln!(f, "{name:9} {value:#010x}"))?;
        write!(f, "data      {} bytes, {}", self.data_len, self.direction)
    }
}

/// Sends a command with a timeout.
fn within(queue: &mut impl BackendQueue, command: RawCommand, time: Duration) -> Result<Outcome> {
    queue.submit_within(command.into(), 0, Some(time)).map_err(byway::Error::from)?;
    let mut result = None;
    queue.drain(&mut |finished| result = Some(finished.result))?;
    match result.context("the command was never finished")? {
        Ok(outcome) => Ok(outcome),
        Err(failed) => Err(queue.explained(failed.error).into()),
    }
}

fn entry_of(args: &PassCommand, nsid: u32) -> Entry {
    let PassCommand { cdw2, cdw3, cdw10, cdw11, cdw12, cdw13, cdw14, cdw15, .. } = *args;
    let entry = Entry::new(args.opcode, 0, nsid);
    Entry { cdw2, cdw3, cdw10, cdw11, cdw12, cdw13, cdw14, cdw15, ..entry }
}

/// The data of a command: what is sent, or how much is received.
struct Sent {
    bytes: Vec<u8>,
    is_read: bool,
    parts: usize,
}

impl Sent {
    fn of(args: &PassCommand, parts: u32, interrupt: &Interrupt) -> Result<Self> {
        let read = |path| files::read(path, interrupt);
        let mut bytes = args.input.as_deref().map(read).transpose()?.unwrap_or_default();
        let len = args.data_len.map_or(bytes.len(), |len| len as usize);
        ensure!(
            args.input.is_none() || len == bytes.len(),
            "--data-len says {len} bytes, and --input has {}",
            bytes.len()
        );
        ensure!(len as u64 <= DATA_MAX_BYTES, "a command moves {} at most here", size::human(DATA_MAX_BYTES));
        let is_read = match Direction::of(args.opcode) {
            _ if args.read => true,
            _ if args.write || args.input.is_some() || len == 0 => false,
            Direction::DeviceToHost => true,
            Direction::HostToDevice => bail!("opcode {:#04x} sends data: --input says which", args.opcode),
            Direction::None => {
                bail!("opcode {:#04x} moves no data, unless --read or --write say so", args.opcode)
            }
            Direction::Both => {
                bail!("opcode {:#04x} does not say which way its data goes: --read or --write", args.opcode)
            }
        };
        ensure!(!is_read || len > 0, "--read needs --data-len: how many bytes");
        ensure!(is_read || args.output.is_none(), "nothing is received that --output could hold");
        let parts = parts as usize;
        ensure!(parts <= len.max(1), "{len} bytes of data have no {parts} parts");
        bytes.resize(len, args.prefill);
        Ok(Self { bytes, is_read, parts })
    }

    /// Memory for the command: as the device needs it, cut into as many parts as were asked for.
    fn data(&self, device: &Device) -> Result<RawData> {
        if self.bytes.is_empty() {
            return Ok(RawData::None);
        }
        let mut buffer = if device.capabilities().memory_align_bytes <= 1 && self.parts > 1 {
            Buffer::from_bytes(self.bytes.clone().into_boxed_slice())
        } else {
            let mut buffer = device.buffer(self.bytes.len())?;
            buffer.as_mut_slice().copy_from_slice(&self.bytes);
            buffer
        };
        Ok(match (self.is_read, self.parts) {
            (true, 1) => RawData::FromDevice(buffer),
            (false, 1) => RawData::ToDevice(buffer.into()),
            (true, parts) => RawData::FromDeviceVectored(cut(&mut buffer, parts).into()),
            (false, parts) => RawData::ToDevice(cut(&mut buffer, parts).into()),
        })
    }
}

/// A buffer in `parts` parts as equal as can be.
fn cut(buffer: &mut Buffer, parts: usize) -> Vec<Buffer> {
    let len = buffer.len();
    let mut rest = std::mem::replace(buffer, Buffer::from_bytes(Box::default()));
    let mut cut = Vec::with_capacity(parts);
    for part in 1..parts {
        let at = len * part / parts - len * (part - 1) / parts;
        let behind = rest.split_off(at);
        cut.push(std::mem::replace(&mut rest, behind));
    }
    // A buffer's memory may be longer than its bytes.
    rest.set_len(len - len * (parts - 1) / parts);
    cut.push(rest);
    cut
}

fn print(
    args: &PassCommand,
    sent: &Sent,
    outcome: &Outcome,
    took: Duration,
    out: &mut impl Write,
) -> Result<()> {
    let parts = outcome.buffer.iter().chain(&outcome.vector);
    let mut received: Vec<u8> = parts.flat_map(|part| part.as_slice().iter().copied()).collect();
    if !sent.is_read {
        received.clear();
    }
    if let Some(path) = &args.output {
        answer::write_file(path, &received)?;
        received.clear();
    }
    if args.raw {
        return Ok(out.write_all(&received)?);
    }
    let (dw0, dw1) = (outcome.answer.dw0, outcome.answer.dw1);
    let latency_us = args.latency.then_some(took.as_secs_f64() * 1e6);
    if args.json {
        let data_hex = Some(received).filter(|bytes| !bytes.is_empty()).map(|bytes| to_hex(&bytes));
        return Ok(print_json(out, &Answered { dw0, dw1, latency_us, data_hex })?);
    }
    writeln!(out, "success, dw0 {dw0:#010x}, dw1 {dw1:#010x}")?;
    if let Some(latency_us) = latency_us {
        writeln!(out, "latency {latency_us:.1} µs")?;
    }
    if received.is_empty() { Ok(()) } else { Ok(hexdump::write(&received, out)?) }
}
