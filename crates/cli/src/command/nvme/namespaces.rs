//! Namespace Management and Namespace Attachment: `create-ns`, `delete-ns`, `attach-ns`, `detach-ns`.

use std::fmt;
use std::io::Write;

use anyhow::{Context, Result, bail, ensure};
use byway::spec::Command as Entry;
use byway::spec::base::admin::{AdminOpcode, NamespaceCdw11, SelectCdw10};
use byway::spec::base::command::NSID_ALL;
use byway::spec::base::identify::{Cns, Controller, ControllerList, Csi, IDENTIFY_BYTES};
use byway::spec::kv::KvNamespace;
use byway::spec::memory::MemoryNamespace;
use byway::spec::nvm::{Flbas, NvmNamespace};
use byway::{AdminCommand, Backend, Device, Outcome, Payload, RawData};
use byway_console::terminal::print_done;
use serde::Serialize;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use crate::args::{AttachNs, CreateNs, DeleteNs};

/// What was done, to print: in JSON by the words that `ns add` and `ns remove` have too.
#[derive(Serialize)]
#[serde(tag = "done")]
enum Done {
    #[serde(rename = "namespace_created")]
    Created { nsid: u32 },
    #[serde(rename = "namespace_deleted")]
    Deleted { nsid: u32 },
    #[serde(rename = "namespace_attached")]
    Attached { nsid: u32, controllers: Vec<u16> },
    #[serde(rename = "namespace_detached")]
    Detached { nsid: u32, controllers: Vec<u16> },
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Created { nsid } => {
                write!(f, "namespace {nsid} is created; attach-ns attaches it")
            }
            Self::Deleted { nsid: NSID_ALL } => f.write_str("every namespace is deleted"),
            Self::Deleted { nsid } => write!(f, "namespace {nsid} is deleted"),
            Self::Attached { nsid, controllers } => {
                write!(f, "namespace {nsid} is attached to controller {}", listed(controllers))
            }
            Self::Detached { nsid, controllers } => {
                write!(f, "namespace {nsid} is detached from controller {}", listed(controllers))
            }
        }
    }
}

fn listed(controllers: &[u16]) -> String {
    controllers.iter().map(u16::to_string).collect::<Vec<_>>().join(", ")
}

/// Creates a namespace, and prints its number.
///
/// # Errors
/// A format that the device does not have, a size that is no whole number of blocks, and what the device refuses.
pub fn create(args: &CreateNs, out: &mut impl Write) -> Result<()> {
    let device = byway::open(args.device.uri())?;
    let csi = args.csi.0;
    let data = match csi {
        Csi::KV => pairs(args)?.as_bytes().to_vec(),
        Csi::NVM => blocks(args, &device)?.as_bytes().to_vec(),
        Csi::SLM => memory(args)?.as_bytes().to_vec(),
        Csi::CP => vec![0; IDENTIFY_BYTES],
        other => {
            bail!(
                "namespaces of command set {:#x} are not created here: expected nvm, kv, slm or cp",
                other.0
            )
        }
    };
    let mut entry = managing(AdminOpcode::NAMESPACE_MANAGEMENT, SelectCdw10::CREATE, 0);
    entry.cdw11 = NamespaceCdw11::new().with_csi(csi.0).into_bits();
    let nsid = send(&device, entry, &data).context("create a namespace")?.dw0();
    device.close()?;
    Ok(print_done(out, args.json, &Done::Created { nsid })?)
}

fn pairs(args: &CreateNs) -> Result<Box<KvNamespace>> {
    ensure!(
        args.block_size.is_none() && args.flbas.is_none() && args.ncap.is_none(),
        "a key-value namespace has no blocks: --size says how large it is"
    );
    let mut namespace = zeroed::<KvNamespace>();
    (namespace.nsze_bytes, namespace.nmic) = (args.size.or(args.nsze).unwrap_or(0), args.nmic);
    Ok(namespace)
}

fn memory(args: &CreateNs) -> Result<Box<MemoryNamespace>> {
    ensure!(
        args.block_size.is_none() && args.flbas.is_none() && args.ncap.is_none(),
        "local memory has no blocks: --size says how large it is"
    );
    let mut namespace = zeroed::<MemoryNamespace>();
    (namespace.nsze_bytes, namespace.nmic) = (args.size.or(args.nsze).unwrap_or(0), args.nmic);
    Ok(namespace)
}

fn blocks(args: &CreateNs, device: &Device) -> Result<Box<NvmNamespace>> {
    let mut namespace = zeroed::<NvmNamespace>();
    let formats = Formats::of(device)?;
    let index = match args.block_size {
        Some(bytes) => formats.index_of(bytes)?,
        None => args.flbas.unwrap_or(0),
    };
    let blocks = match args.size {
        Some(bytes) => formats.blocks_in(bytes, index)?,
        None => args.nsze.unwrap_or(0),
    };
    namespace.flbas = Flbas::from_bits(index);
    (namespace.nsze, namespace.ncap) = (blocks, args.ncap.unwrap_or(blocks));
    namespace.nmic = args.nmic;
    Ok(namespace)
}

fn zeroed<T: FromZeros>() -> Box<T> {
    Box::new(T::new_zeroed())
}

/// Bytes of a block of each format that the controller has, without metadata; 0 for one with metadata.
struct Formats(Vec<u64>);

impl Formats {
    fn of(device: &Device) -> Result<Self> {
        let page = identify(device, Cns::NAMESPACE, NSID_ALL)?;
        let (common, _) =
            NvmNamespace::read_from_prefix(&page).ok().context("the device's structure is too short")?;
        let plain = |format: &byway::spec::nvm::LbaFormat| match format.ms() {
            0 => 1u64.checked_shl(format.lbads().into()).unwrap_or(0) & !1,
            _ => 0,
        };
        Ok(Self(common.lbaf.iter().take(usize::from(common.nlbaf_z) + 1).map(plain).collect()))
    }

    fn index_of(&self, block_bytes: u64) -> Result<u8> {
        let found = self.0.iter().position(|bytes| *bytes == block_bytes);
        let known =
            || self.0.iter().filter(|bytes| **bytes > 0).map(u64::to_string).collect::<Vec<_>>().join(", ");
        let index = found.with_context(|| {
            format!("the device has no blocks of {block_bytes} bytes; it has {}", known())
        })?;
        Ok(index as u8)
    }

    fn blocks_in(&self, bytes: u64, index: u8) -> Result<u64> {
        let block_bytes = self.0.get(usize::from(index)).copied().filter(|bytes| *bytes > 0);
        let block_bytes =
            block_bytes.with_context(|| format!("the device has no format {index} without metadata"))?;
        ensure!(
            bytes.is_multiple_of(block_bytes),
            "{bytes} bytes are no whole number of blocks of {block_bytes} bytes"
        );
        Ok(bytes / block_bytes)
    }
}

/// Deletes a namespace.
///
/// # Errors
/// What the device refuses.
pub fn delete(args: &DeleteNs, out: &mut impl Write) -> Result<()> {
    let device = byway::open(args.device.uri())?;
    let entry = managing(AdminOpcode::NAMESPACE_MANAGEMENT, SelectCdw10::DELETE, args.ns);
    send(&device, entry, &[]).with_context(|| format!("delete namespace {}", args.ns))?;
    device.close()?;
    Ok(print_done(out, args.json, &Done::Deleted { nsid: args.ns })?)
}

/// Attaches a namespace to controllers, or detaches it.
///
/// # Errors
/// What the device refuses.
pub fn attach(args: &AttachNs, is_attached: bool, out: &mut impl Write) -> Result<()> {
    let device = byway::open(args.device.uri())?;
    let nsid = args.ns;
    let mut controllers = args.controllers.clone();
    if controllers.is_empty() {
        controllers.push(own(&device)?);
    }
    controllers.sort_unstable();
    let (select, doing) =
        if is_attached { (SelectCdw10::ATTACH, "attach") } else { (SelectCdw10::DETACH, "detach") };
    let entry = managing(AdminOpcode::NAMESPACE_ATTACHMENT, select, nsid);
    let list = list_of(&controllers)?;
    send(&device, entry, list.as_bytes()).with_context(|| format!("{doing} namespace {nsid}"))?;
    device.close()?;
    let done = match is_attached {
        true => Done::Attached { nsid, controllers },
        false => Done::Detached { nsid, controllers },
    };
    Ok(print_done(out, args.json, &done)?)
}

fn list_of(controllers: &[u16]) -> Result<Box<ControllerList>> {
    let mut list = zeroed::<ControllerList>();
    let places = list.cntlids.get_mut(..controllers.len()).context("a list holds 2047 controllers")?;
    places.copy_from_slice(controllers);
    list.count = controllers.len() as u16;
    Ok(list)
}

/// The controller that the device is reached by.
fn own(device: &Device) -> Result<u16> {
    let page = identify(device, Cns::CONTROLLER, 0)?;
    let (controller, _) =
        Controller::read_from_prefix(&page).ok().context("the device's structure is too short")?;
    Ok(controller.cntlid)
}

fn managing(opcode: AdminOpcode, select: u8, nsid: u32) -> Entry {
    let mut entry = Entry::new(opcode.0, 0, nsid);
    entry.cdw10 = SelectCdw10::new().with_sel(select).into_bits();
    entry
}

fn send(device: &Device, entry: Entry, data: &[u8]) -> Result<Outcome> {
    let data = if data.is_empty() { RawData::None } else { RawData::ToDevice(Payload::copy_of(data)?) };
    Ok(device.admin(AdminCommand::raw(entry, data))?)
}

/// Any structure, also of the namespace number that stands for all.
fn identify(device: &Device, cns: Cns, nsid: u32) -> Result<Vec<u8>> {
    let mut entry = Entry::new(AdminOpcode::IDENTIFY.0, 0, nsid);
    entry.cdw10 = cns.0.into();
    let into = RawData::FromDevice(device.buffer(IDENTIFY_BYTES)?);
    let answered = device.admin(AdminCommand::raw(entry, into))?;
    Ok(answered.buffer.context("the device gave no structure back")?.as_slice().to_vec())
}
