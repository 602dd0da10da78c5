//! Registers of a controller, and resetting it: `show-regs`, `reset`.

use std::fmt;
use std::io::Write;

use anyhow::{Result, ensure};
use byway::spec::Status;
use byway::spec::base::register::Register;
use byway::{Device, ErrorKind};
use byway_console::terminal::{print_done, print_json};
use serde::Serialize;

use crate::args::OneController;
use crate::decode::Fields;

/// Registers with their names in JSON, which are those of the specification, and their bytes.
const REGISTERS: &[(Register, &str, u32)] = &[
    (Register::CAP, "cap", 8),
    (Register::VS, "vs", 4),
    (Register::INTMS, "intms", 4),
    (Register::INTMC, "intmc", 4),
    (Register::CC, "cc", 4),
    (Register::CSTS, "csts", 4),
    (Register::NSSR, "nssr", 4),
    (Register::AQA, "aqa", 4),
    (Register::ASQ, "asq", 8),
    (Register::ACQ, "acq", 8),
    (Register::CMBLOC, "cmbloc", 4),
    (Register::CMBSZ, "cmbsz", 4),
    (Register::CRTO, "crto", 4),
    (Register::PMRCAP, "pmrcap", 4),
];

/// Prints the registers that the controller has.
///
/// # Errors
/// A device without a controller, or one whose registers are out of reach.
pub fn show(args: &OneController, out: &mut impl Write) -> Result<()> {
    let device = byway::open_to_read(args.device.uri())?;
    let mut fields = Fields::default();
    for (register, name, bytes) in REGISTERS {
        if let Some(value) = value_of(&device, *register, *bytes)? {
            fields = fields.hex(*name, value, register.name().unwrap_or_default());
        }
    }
    ensure!(
        fields.names().next().is_some(),
        "the registers of {} are out of reach: they are a PCIe controller's behind the kernel's driver",
        args.device.uri()
    );
    if args.json { Ok(print_json(out, &fields)?) } else { Ok(put!(out, "{fields}")?) }
}

/// The value of a register; nothing where the controller does not have it.
fn value_of(device: &Device, register: Register, bytes: u32) -> Result<Option<u64>> {
    match device.register(register, bytes) {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == ErrorKind::Unsupported && error.nvme_status().is_none() => {
            // No controller at all is an error of the first register, which every controller has.
            if register == Register::CAP { Err(error.into()) } else { Ok(None) }
        }
        Err(error) if is_refused(error.nvme_status()) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn is_refused(status: Option<Status>) -> bool {
    status.is_some_and(|status| matches!(status.code(), Status::INVALID_FIELD | Status::INVALID_OPCODE))
}

/// What was done, to print.
#[derive(Serialize)]
struct Done<'a> {
    device: &'a str,
    done: &'static str,
}

impl fmt::Display for Done<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the controller of {} is reset", self.device)
    }
}

/// Resets the controller.
///
/// # Errors
/// A device without a controller; what the system says.
pub fn reset(args: &OneController, out: &mut impl Write) -> Result<()> {
    let device = byway::open(args.device.uri())?;
    device.reset()?;
    device.close()?;
    Ok(print_done(out, args.json, &Done { device: args.device.target.given(), done: "reset" })?)
}
