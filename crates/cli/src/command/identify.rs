//! `byway identify`: what a controller or a namespace says of itself.

use std::io::Write;

use anyhow::{Context, Result};
use byway::spec::base::identify::{Cns, Csi, IDENTIFY_BYTES};
use byway::{AdminCommand, Backend, Device, NamespaceKind, Nsid};

use super::answer;
use crate::args::Identify;
use crate::decode;

/// What is asked for, once what was left open is decided.
struct Asked {
    cns: Cns,
    csi: Csi,
    nsid: Option<Nsid>,
}

/// Prints an identify structure.
///
/// # Errors
/// A device without a controller, a structure that it does not have.
pub fn run(args: &Identify, out: &mut impl Write) -> Result<()> {
    let device = byway::open_to_read(args.device.uri())?;
    let Asked { cns, csi, nsid } = Asked::of(args, &device)?;
    let into = device.buffer(IDENTIFY_BYTES)?;
    let command = AdminCommand::Identify { cns: cns.0, csi: csi.0, nsid, selector: args.selector, into };
    let what = || answer::named("identify structure", cns.0, cns);
    let answered = device.admin(command).map_err(|error| answer::unless_missing(what(), error))?;
    let buffer = answered.buffer.context("the device gave no structure back")?;
    let decoded = decode::identify(cns, csi, buffer.as_slice());
    answer::write(&args.form, buffer.as_slice(), decoded.as_ref(), out)
}

impl Asked {
    fn of(args: &Identify, device: &Device) -> Result<Self> {
        let cns = args.structure.0;
        let nsid = match args.ns {
            None if !is_of_a_namespace(cns) => None,
            asked => Some(answer::namespace_of(device, asked)?),
        };
        let given = args.csi.map(|set| set.0);
        let own = match (given, nsid) {
            (None, Some(nsid)) if matches!(cns, Cns::NAMESPACE | Cns::SET_NAMESPACE) => set_of(device, nsid)?,
            _ => None,
        };
        let csi = given.or(own).unwrap_or(Csi::NVM);
        // Only namespaces of blocks have the older structure.
        let cns = if cns == Cns::NAMESPACE && csi != Csi::NVM { Cns::SET_NAMESPACE } else { cns };
        Ok(Self { cns, csi, nsid })
    }
}

fn is_of_a_namespace(cns: Cns) -> bool {
    matches!(
        cns,
        Cns::NAMESPACE
            | Cns::NAMESPACE_DESCRIPTORS
            | Cns::SET_NAMESPACE
            | Cns::INDEPENDENT_NAMESPACE
            | Cns::ALLOCATED_NAMESPACE
            | Cns::ATTACHED_CONTROLLERS
    )
}

/// The command set of a namespace, if it is attached.
fn set_of(device: &Device, nsid: Nsid) -> Result<Option<Csi>> {
    let found = device.namespaces()?.into_iter().find(|namespace| namespace.nsid == nsid);
    Ok(found.map(|namespace| match namespace.kind {
        NamespaceKind::Kv { .. } => Csi::KV,
        NamespaceKind::Other(csi) => Csi(csi),
        _ => Csi::NVM,
    }))
}
