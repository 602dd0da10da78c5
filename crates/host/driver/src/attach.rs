//! Attaching: from a device in any state to one that takes commands.

use std::sync::Arc;
use std::time::{Duration, Instant};

use byway_core::identify;
use byway_core::layouts::Layouts;
use byway_core::{AdminCommand, Capabilities, Error, ErrorKind, Result};
use byway_spec::base::feature::{FeatureId, NumberOfQueues};
use byway_spec::base::identify::{Cns, CommandSets, IDENTIFY_BYTES};
use byway_spec::base::register::{Aqa, Cap, Cc, Csts, Register};
use byway_spec::vendor::FEATURE_METHODS;
use tracing::debug;
use zerocopy::FromBytes;

use crate::admin::AdminQueue;
use crate::announced::Announced;
use crate::bus::Bus;
use crate::mapped::from_bus;
use crate::shared::Shared;

/// How a device shall be attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AttachOptions {
    /// Most queues to ask the device for.
    pub queues: u16,
    /// Unused buffer memory to keep, in bytes.
    pub keep_bytes: usize,
    /// How long an admin command may take.
    pub admin_timeout: Duration,
}

impl Default for AttachOptions {
    fn default() -> Self {
        Self { queues: 128, keep_bytes: 64 << 20, admin_timeout: Duration::from_secs(30) }
    }
}

impl AttachOptions {
    byway_sys::setters! {
        /// Most queues to ask the device for.
        queues: u16;
        /// Unused buffer memory to keep, in bytes.
        keep_bytes: usize;
        /// How long an admin command may take.
        admin_timeout: Duration;
    }
}

/// Bit of a command set in a vector of Identify CNS 1Ch.
const SETS_WE_SPEAK: u64 = 0b11;

/// Resets the device, starts it, and asks what it can do.
///
/// # Errors
/// When the device does not start, does not answer, or has no memory pages of 4 KiB.
pub(crate) fn attach<B: Bus>(bus: Arc<B>, options: AttachOptions) -> Result<Shared<B>> {
    let cap = Cap::from_bits(bus.read_register(Register::CAP.0, 8).map_err(from_bus)?);
    if cap.mpsmin() != 0 {
        let said = format!(
            "the device's smallest memory page is {} bytes, 4096 are needed",
            4096u64 << cap.mpsmin()
        );
        return Err(Error::device(ErrorKind::Unsupported, said));
    }
    // CAP.TO is in units of 500 ms and may be 0; the slowest hardware needs minutes only where it says so.
    let timeout = Duration::from_millis(500 * u64::from(cap.to())).max(Duration::from_secs(2));
    set_enable(&*bus, Cc::new(), timeout)?;
    debug!(bus = bus.name(), "controller disabled: CC.EN cleared");
    let layouts = Arc::new(Layouts::default());
    let admin = AdminQueue::new(&bus, u32::from(cap.mqes_z()) + 1, Arc::clone(&layouts))?;
    point_admin_queue(&*bus, &admin)?;
    let command_sets = cap.css() & Cap::CSS_IO_SETS != 0;
    let css = if command_sets { Cc::CSS_IO_SETS } else { Cc::CSS_NVM };
    let cc = Cc::new().with_en(true).with_css(css).with_iosqes(Cc::IOSQES_64).with_iocqes(Cc::IOCQES_16);
    set_enable(&*bus, cc, timeout)?;
    let AttachOptions { keep_bytes, admin_timeout, .. } = options;
    let mut shared = Shared::new(bus, admin, layouts, keep_bytes, admin_timeout, command_sets);
    ask(&mut shared, cap, options)?;
    Ok(shared)
}

/// Asks a started device what it is and can do, and enables what it announced.
fn ask<B: Bus>(shared: &mut Shared<B>, cap: Cap, options: AttachOptions) -> Result<()> {
    let controller = identify::controller(shared)?;
    let has_device_memory = shared.bus().device_memory().is_some();
    let has_byte_memory = shared.bus().byte_memory().is_some();
    let announced = Announced::read(&controller, cap, has_device_memory, has_byte_memory);
    shared.describe(announced, identify::identity(&controller));
    shared.set_nvm_limits(identify::nvm_limits(shared, &controller, cap.mpsmin())?);
    if shared.reports_command_sets() {
        select_command_sets(shared)?;
    }
    let methods = shared.announced().vendor.into_bits();
    if methods != 0 {
        let enabled = shared.set_feature(FEATURE_METHODS, 0, methods);
        enabled.map_err(|error| error.doing("enable transfer methods"))?;
    }
    let queues = grant_queues(shared, options.queues)?;
    let event = shared.bus().has_events();
    shared.set_capabilities(Capabilities { event, ..shared.announced().capabilities(queues) });
    debug!(bus = shared.bus().name(), queues, subsystem = shared.identity().subsystem, "device attached");
    Ok(())
}

/// Selects, of the combinations of command sets that the device has, the one with the most that we speak.
fn select_command_sets<B: Bus>(shared: &Shared<B>) -> Result<()> {
    let page = ask_once(shared, Cns::COMMAND_SETS)?;
    let sets = CommandSets::read_from_bytes(&page).map_err(|_| short("Identify I/O Command Set"))?;
    let ours = |vector: &u64| (vector & SETS_WE_SPEAK).count_ones();
    let first = sets.vectors.first().map_or(0, ours);
    let best = sets
        .vectors
        .iter()
        .enumerate()
        .max_by_key(|(index, vector)| (ours(vector), std::cmp::Reverse(*index)));
    match best {
        Some((index, vector)) if ours(vector) > first => {
            shared.set_feature(FeatureId::IO_COMMAND_SET_PROFILE, 0, index as u32).map(drop)
        }
        _ => Ok(()),
    }
}

/// Asks for queues; returns how many pairs there can be.
fn grant_queues<B: Bus>(shared: &Shared<B>, wanted: u16) -> Result<u16> {
    // Each has an interrupt of its own.
    let wanted = wanted.min(shared.bus().vectors().saturating_sub(1));
    let wanted_z = wanted.clamp(1, u16::MAX - 1) - 1;
    let value = NumberOfQueues::new().with_nsq_z(wanted_z).with_ncq_z(wanted_z).into_bits();
    let answer = shared.set_feature(FeatureId::NUMBER_OF_QUEUES, 0, value);
    let answer = answer.map_err(|error| error.doing("ask for queues"))?;
    let granted = NumberOfQueues::from_bits(answer.dw0);
    Ok(granted.nsq_z().min(granted.ncq_z()).min(wanted_z) + 1)
}

fn ask_once<B: Bus>(shared: &Shared<B>, cns: Cns) -> Result<Vec<u8>> {
    let into = shared.pool().take(IDENTIFY_BYTES)?;
    let command = AdminCommand::Identify { cns: cns.0, csi: 0, nsid: None, selector: 0, into };
    let outcome = shared.admin(command).map_err(|error| error.doing(format!("identify {cns}")))?;
    Ok(outcome.buffer.map(|buffer| buffer.as_slice().to_vec()).unwrap_or_default())
}

#[cold]
fn short(what: &str) -> Error {
    Error::device(ErrorKind::Protocol, format!("the device's answer to {what} is too short"))
}

fn point_admin_queue<B: Bus>(bus: &B, admin: &AdminQueue<B>) -> Result<()> {
    let entries_z = (admin.entries() - 1) as u16;
    let aqa = Aqa::new().with_asqs_z(entries_z).with_acqs_z(entries_z).into_bits();
    let (submission, completion) = admin.bus_addrs();
    bus.write_register(Register::AQA.0, 4, aqa.into()).map_err(from_bus)?;
    bus.write_register(Register::ASQ.0, 8, submission.0).map_err(from_bus)?;
    bus.write_register(Register::ACQ.0, 8, completion.0).map_err(from_bus)
}

/// Writes CC and waits until CSTS.RDY follows its enable bit.
fn set_enable<B: Bus>(bus: &B, cc: Cc, timeout: Duration) -> Result<()> {
    bus.write_register(Register::CC.0, 4, cc.into_bits().into()).map_err(from_bus)?;
    let since = Instant::now();
    loop {
        bus.poll();
        let bits = bus.read_register(Register::CSTS.0, 4).map_err(from_bus)?;
        let status = Csts::from_bits(bits as u32);
        if bits as u32 == u32::MAX {
            return Err(Error::device(
                ErrorKind::DeviceLost,
                "the device is gone: its registers read as all ones",
            ));
        }
        if cc.en() && status.cfs() {
            return Err(Error::device(
                ErrorKind::DeviceLost,
                "the controller went into a fatal state (CSTS.CFS) as it started",
            ));
        }
        if status.rdy() == cc.en() {
            return Ok(());
        }
        if since.elapsed() > timeout {
            let doing = if cc.en() { "start" } else { "stop" };
            let said = format!("the controller did not {doing} within {timeout:?}");
            return Err(Error::device(ErrorKind::TimedOut, said));
        }
        std::thread::yield_now();
    }
}
