//! Properties of a controller, read before any queue uses it.

use std::cell::RefCell;
use std::time::Duration;

use byway_core::identify::{self, Identifies};
use byway_core::{
    AdminCommand, Buffer, Capabilities, Deadline, Identity, Key, KvCommands, Limits, Method, Methods,
    NvmLimits, Outcome, Payload, Result,
};
use byway_spec::base::feature::{FeatureId, NumberOfQueues};
use byway_spec::base::identify::Controller;
use byway_spec::base::register::Cap;
use byway_spec::vendor::FEATURE_METHODS;

use crate::ana::AnaFacts;
use crate::connection::Ended;
use crate::line::Line;
use crate::order::order_of_admin;
use crate::peer::Peer;
use crate::result::outcome;

/// Most in-capsule data that a controller is believed to take.
const CAPSULE_BYTES_MAX: u64 = 1 << 20;

/// What a controller said of itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    /// It reports the ANA state of each namespace.
    pub ana: Option<AnaFacts>,
    /// In this time its commands are over once nothing reaches it from its host any more; none if it waits for ever.
    pub ends_within: Option<Duration>,
    pub identity: Identity,
    pub capabilities: Capabilities,
    /// Abort commands that it takes at once (ACL).
    pub aborts: usize,
    /// Keep Alive is supported (KAS).
    pub keep_alive: bool,
    /// In-capsule data of I/O commands, in bytes.
    pub capsule_bytes: usize,
    /// Namespaces report their command set.
    pub command_sets: bool,
}

impl Facts {
    /// Asks a started controller what it is and can do.
    ///
    /// # Errors
    /// When it does not answer, or refuses.
    pub fn ask(line: &mut Line, peer: &Peer, cap: Cap) -> Result<Self> {
        let bare = Bare::new(line, peer.options.admin_timeout);
        let controller = identify::controller(&bare)?;
        let queues = match controller.cntrltype {
            DISCOVERY_CONTROLLER => 0,
            _ => grant_queues(&bare, peer.options.queues)?,
        };
        let capsule_bytes = (u64::from(controller.ioccsz) * 16).saturating_sub(64).min(CAPSULE_BYTES_MAX);
        let ring_entries = u32::from(cap.mqes_z()) + 1;
        let queue_depth = queue_depth(&controller, cap);
        let nvm = identify::nvm_commands(&controller);
        let nvm_limits = match controller.cntrltype {
            DISCOVERY_CONTROLLER => NvmLimits::default(),
            _ => identify::nvm_limits(&bare, &controller, cap.mpsmin())?,
        };
        let extensions = Extensions::of(&controller);
        extensions.enable(&bare)?;
        let limits = Limits {
            transfer_bytes: identify::transfer_max_bytes(controller.mdts, cap.mpsmin()).min(u32::MAX.into()),
            queues,
            ring_entries,
            queue_depth,
            inline_bytes: capsule_bytes as u32,
            bulk_bytes: extensions.bulk_bytes,
            ..Limits::default().with_kv(&controller.vendor, Key::MAX_BYTES as u32)
        };
        let capabilities = Capabilities {
            methods: Methods::NONE.with(Method::Prp),
            limits,
            raw_commands: true,
            admin_commands: true,
            bulk_store: extensions.bulk_bytes > 0,
            kv: extensions.kv,
            nvm,
            nvm_limits,
            admin: identify::admin_options(&controller),
            memory_align_bytes: 1,
            event: true,
            overlaps: true,
            cancel: true,
        };
        let command_sets = cap.css() & Cap::CSS_IO_SETS != 0;
        Ok(Self {
            ana: AnaFacts::of(&controller, limits.transfer_bytes),
            ends_within: ends_within(peer.options.keep_alive, &controller),
            identity: identify::identity(&controller),
            capabilities,
            aborts: usize::from(controller.acl_z) + 1,
            keep_alive: controller.kas != 0,
            capsule_bytes: capsule_bytes as usize,
            command_sets,
        })
    }

    /// Its I/O queues, numbered from 1.
    pub fn queues(&self) -> u16 {
        self.capabilities.limits.queues
    }
}

/// Vendor commands of a Byway controller that are carried over TCP.
struct Extensions {
    /// Longest payload of many pairs, 0 for none.
    bulk_bytes: u32,
    kv: KvCommands,
}

impl Extensions {
    fn of(controller: &Controller) -> Self {
        let area = &controller.vendor;
        let has_bulk = area.is_known() && area.methods.bulk();
        let kv = KvCommands::of(area);
        Self { bulk_bytes: if has_bulk { area.bulk_max_bytes } else { 0 }, kv }
    }

    /// Enables them for this association.
    fn enable(&self, bare: &Bare<'_>) -> Result<()> {
        let methods = self.kv.methods().with_bulk(self.bulk_bytes > 0).into_bits();
        if methods == 0 {
            return Ok(());
        }
        let enabled = bare.admin(AdminCommand::SetFeature {
            feature: FEATURE_METHODS.0,
            save: false,
            nsid: None,
            cdw11: methods,
            cdw12: 0,
            data: Payload::Empty,
        });
        enabled.map(drop).map_err(|error| error.doing("enable commands of many pairs"))
    }
}

/// How long a controller may go on once nothing reaches it: where any command is a sign of life it may look for one at every
/// second end of the time alone, and then its commands have their own time to end (CQT), or another of these where it says none.
fn ends_within(keep_alive: Duration, controller: &Controller) -> Option<Duration> {
    let unit = Duration::from_millis(100 * u64::from(controller.kas.max(1)));
    let units = keep_alive.as_millis().div_ceil(unit.as_millis());
    let keep_alive = unit * u32::try_from(units).unwrap_or(u32::MAX);
    let quiesce = match controller.cqt {
        0 => keep_alive,
        ms => Duration::from_millis(ms.into()),
    };
    (!keep_alive.is_zero()).then(|| 2 * keep_alive + quiesce)
}

/// Most commands of one queue: one entry of a ring stays free (CAP.MQES), and a controller may process fewer at once (MAXCMD,
/// Base 2.1, section 5.1.13.2.1; 0 for none reported).
fn queue_depth(controller: &Controller, cap: Cap) -> u32 {
    let entries_z = u32::from(cap.mqes_z());
    match controller.maxcmd {
        0 => entries_z,
        most => entries_z.min(most.into()),
    }
}

/// CNTRLTYPE of a discovery controller.
const DISCOVERY_CONTROLLER: u8 = 2;

/// Requests `queues` I/O queues; returns the number granted.
fn grant_queues(bare: &Bare<'_>, queues: u16) -> Result<u16> {
    let asked_z = queues.max(1) - 1;
    let asked = NumberOfQueues::new().with_nsq_z(asked_z).with_ncq_z(asked_z);
    let outcome = bare.admin(AdminCommand::SetFeature {
        feature: FeatureId::NUMBER_OF_QUEUES.0,
        save: false,
        nsid: None,
        cdw11: asked.into_bits(),
        cdw12: 0,
        data: Payload::Empty,
    });
    let outcome = outcome.map_err(|error| error.doing("ask for queues"))?;
    let granted = NumberOfQueues::from_bits(outcome.dw0());
    Ok(granted.nsq_z().min(granted.ncq_z()).min(asked_z).saturating_add(1))
}

/// A controller that has no other user yet.
pub(crate) struct Bare<'l> {
    line: RefCell<&'l mut Line>,
    timeout: Duration,
}

impl<'l> Bare<'l> {
    pub fn new(line: &'l mut Line, timeout: Duration) -> Self {
        Self { line: RefCell::new(line), timeout }
    }

    /// Sends an admin command, and waits for it.
    pub fn admin(&self, command: AdminCommand) -> Result<Outcome> {
        let order = order_of_admin(&command, 0);
        let deadline = Deadline::after(self.timeout);
        let (completion, memory) = self.line.borrow_mut().call(order, command.into_payload(), deadline)?;
        Ok(outcome(Ended {
            tag: 0,
            is_call: false,
            memory,
            result: Ok(completion),
            lost: None,
            commands: 1,
        })?)
    }
}

impl Identifies for Bare<'_> {
    fn identify(&self, command: AdminCommand) -> Result<Outcome> {
        self.admin(command)
    }

    fn identify_buffer(&self, len: usize) -> Result<Buffer> {
        Buffer::zeroed(len)
    }

    fn reports_command_sets(&self) -> bool {
        false
    }
}
