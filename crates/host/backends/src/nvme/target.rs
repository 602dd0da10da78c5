//! An NVMe device whose commands a `Passage` passes through.

use std::path::Path;
use std::sync::Arc;

use byway_core::encode;
use byway_core::identify::{self, Identifies};
use byway_core::layouts::{Layouts, changes_namespaces};
use byway_core::moves::{Layout, admit};
use byway_core::{
    AdminCommand, AdminOptions, Buffer, Capabilities, Command, DEPTH_MAX, Error, ErrorKind, Failed, Identity,
    KvCommand, KvCommands, Limits, Memory, Namespace, NvmCommands, NvmLimits, Outcome, QueueOptions, Result,
    check_admin, encode_admin, gather, scatter,
};
use byway_link::Method;
use byway_spec::Command as Entry;
use byway_spec::base::admin::AdminOpcode;
use byway_spec::kv::KvOpcode;
use byway_spec::nvm::NvmOpcode;
use byway_sys::{NodeKind, NvmeAnswer, NvmeNode, NvmeQueue};

use super::offer::Offer;
use super::passage::Passage;
use super::passed::{Passed, outcome};
use super::pieces::Onward;
use crate::synchronous::Synchronous;
use crate::target::{TRANSFER_MAX_BYTES, check_shape, not_opened};

/// Most pieces of memory that the kernel takes at once (UIO_MAXIOV); more are copied.
pub(crate) const PIECES_MAX: usize = 1024;

/// The first version of the specification by which every controller reports its namespaces' descriptors.
const DESCRIPTORS_SINCE: (u16, u8, u8) = (1, 3, 0);

/// An open NVMe device whose commands are passed through.
#[derive(Debug)]
pub struct NvmeTarget<P: Passage = NvmeNode> {
    passage: Arc<P>,
    /// What messages call it.
    name: String,
    kind: NodeKind,
    read_only: bool,
    identity: Identity,
    nvm: NvmCommands,
    nvm_limits: NvmLimits,
    admin: AdminOptions,
    transfer_max_bytes: u64,
    pub(super) offer: Offer,
    layouts: Layouts,
}

impl NvmeTarget {
    /// Opens the device node at `path`: a controller's, or a namespace's as a block or a character device.
    ///
    /// # Errors
    /// When it cannot be opened, is no node of an NVMe device, or the device does not say what it is.
    pub fn open(path: &Path, read_only: bool) -> Result<Self> {
        let node = NvmeNode::open(path, read_only).map_err(|cause| not_opened(path, read_only, cause))?;
        let refuse = |said: String| Err(Error::host(ErrorKind::Unsupported, said));
        let shown = path.display();
        match node.kind() {
            NodeKind::Other => refuse(format!("{shown} is no node of an NVMe device")),
            NodeKind::Partition => {
                refuse(format!("{shown} is a part of a namespace; commands are passed to whole ones"))
            }
            kind => {
                let kernel_max_bytes = node.transfer_max_bytes();
                let mut target = Self::new(node, shown.to_string(), kind, read_only)?;
                if let Some(bytes) = kernel_max_bytes {
                    target.transfer_max_bytes = target.transfer_max_bytes.min(bytes);
                }
                Ok(target)
            }
        }
    }

    /// The node, for what is asked of the kernel beside commands.
    #[must_use]
    pub fn node(&self) -> &NvmeNode {
        &self.passage
    }

    /// The node, for a ring.
    pub(crate) fn node_shared(&self) -> Arc<NvmeNode> {
        Arc::clone(&self.passage)
    }
}

impl<P: Passage> NvmeTarget<P> {
    /// The device that `passage` leads to, by a node of this kind.
    ///
    /// # Errors
    /// When the device does not say what it is.
    pub fn new(passage: P, name: String, kind: NodeKind, read_only: bool) -> Result<Self> {
        let mut target = Self {
            passage: Arc::new(passage),
            name,
            kind,
            read_only,
            identity: Identity::default(),
            nvm: NvmCommands::default(),
            nvm_limits: NvmLimits::default(),
            admin: AdminOptions::default(),
            transfer_max_bytes: TRANSFER_MAX_BYTES,
            offer: Offer::default(),
            layouts: Layouts::default(),
        };
        let controller = identify::controller(&target).map_err(|error| error.doing(target.name.clone()))?;
        target.identity = identify::identity(&controller);
        // The kernel passes no fused commands on.
        target.nvm = NvmCommands { compare_and_write: false, ..identify::nvm_commands(&controller) };
        target.nvm_limits = identify::nvm_limits(&target, &controller, 0)?;
        target.admin = identify::admin_options(&controller);
        target.offer = Offer::of(&controller);
        // The smallest memory page is not reported; it is 4096 bytes or more.
        target.transfer_max_bytes = identify::transfer_max_bytes(controller.mdts, 0).min(TRANSFER_MAX_BYTES);
        Ok(target)
    }

    /// Commands on ranges and on many keys, which are enabled by an admin command that a node for reading alone refuses.
    pub(super) fn kv(&self) -> KvCommands {
        if self.read_only { KvCommands::default() } else { self.offer.kv }
    }

    /// What messages call it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What its node is.
    #[must_use]
    pub fn kind(&self) -> NodeKind {
        self.kind
    }

    /// Carries its commands.
    #[must_use]
    pub fn passage(&self) -> &P {
        &self.passage
    }

    /// Resets the controller.
    ///
    /// # Errors
    /// As the system says.
    pub fn reset(&self) -> Result<()> {
        self.passage.reset().map_err(|cause| Error::kernel(format!("resetting {} failed", self.name), cause))
    }

    /// The namespace of this node, if it is one's.
    fn nsid(&self) -> Option<u32> {
        match self.kind {
            NodeKind::Block { nsid } | NodeKind::Generic { nsid } => Some(nsid),
            NodeKind::Controller | NodeKind::Partition | NodeKind::Other => None,
        }
    }

    /// What a namespace's commands mean, and since when that is known.
    pub(crate) fn layout(&self, nsid: u32) -> Result<(u64, Layout)> {
        self.layouts.layout(nsid, || identify::layout(self, nsid))
    }

    /// Whether [`layout`](Self::layout) may have another answer now.
    pub(crate) fn epoch(&self) -> u64 {
        self.layouts.epoch()
    }

    /// A command in the form in which it is passed through.
    ///
    /// # Errors
    /// What this node does not take, and data that is not as long as what the device will move.
    pub(crate) fn passed(
        &self,
        command: &Command,
        layout: impl FnOnce(u32) -> Result<Layout>,
    ) -> Result<Passed> {
        encode::check(command)?;
        let mut encoded = encode::encode(command);
        self.check_nsid(&encoded.entry)?;
        let len = encoded.data.len() as u64;
        if len > self.transfer_max_bytes {
            let said = format!("{len} bytes are over the limit of {} bytes", self.transfer_max_bytes);
            return Err(Error::host(ErrorKind::TooLarge, said));
        }
        if self.read_only && !is_reading(command, &encoded.entry) {
            return Err(self.for_reading());
        }
        admit(command, &mut encoded, &self.nvm, &self.nvm_limits, layout)?;
        let needs_enabling = match command {
            Command::Kv(command) => self.admit_extension(command, len)?,
            Command::Nvm(_) | Command::Raw(_) => false,
        };
        let can_go_in_pieces =
            matches!(command, Command::Kv(KvCommand::Store { options, .. }) if !options.any());
        Ok(Passed { can_go_in_pieces, needs_enabling, ..Passed::of(&encoded, NvmeQueue::Io)? })
    }

    fn check_nsid(&self, entry: &Entry) -> Result<()> {
        if self.nsid() == Some(entry.nsid) {
            return Ok(());
        }
        let said = match self.nsid() {
            Some(nsid) => {
                format!("there is no namespace {} by {}: it is namespace {nsid}", entry.nsid, self.name)
            }
            None => self.takes_no_io(),
        };
        Err(Error::host(ErrorKind::NotFound, said))
    }

    fn takes_no_io(&self) -> String {
        format!(
            "{} is a controller and takes admin commands alone; its namespaces have nodes of their own",
            self.name
        )
    }

    #[cold]
    fn for_reading(&self) -> Error {
        Error::host(ErrorKind::Denied, format!("{} is opened for reading alone", self.name))
    }

    /// Passes a command through and waits.
    fn pass(&self, mut passed: Passed, memory: &mut Memory) -> Result<Outcome> {
        loop {
            let answer = self.pass_once(&passed, memory)?;
            if !self.goes_again(&mut passed, answer) {
                return Ok(outcome(passed.answered(answer)?, std::mem::take(memory)));
            }
        }
    }

    fn pass_once(&self, passed: &Passed, memory: &mut Memory) -> Result<NvmeAnswer> {
        match memory {
            Memory::Vectored(parts)
                if parts.len() > PIECES_MAX || passed.command.queue == NvmeQueue::Admin =>
            {
                self.pass_copy(passed, memory)
            }
            _ => self.passage.pass(&passed.command, memory).map_err(|cause| passed.not_sent(cause)),
        }
    }

    /// Passes a store through in pieces and waits for each.
    fn pass_pieces(&self, mut passed: Passed, memory: &mut Memory) -> Result<Outcome> {
        let mut command = passed.first_command(memory);
        loop {
            let answer = self.passage.pass(&command, memory).map_err(|cause| passed.not_sent(cause))?;
            match self.onward(&mut passed, answer, memory) {
                Onward::Piece(next) => command = next,
                Onward::Whole => return self.pass(passed, memory),
                Onward::Ended(answer) => return Ok(outcome(answer?, std::mem::take(memory))),
            }
        }
    }

    /// The same, with the data in one piece: the kernel takes no more of it.
    fn pass_copy(&self, passed: &Passed, memory: &mut Memory) -> Result<NvmeAnswer> {
        let mut copy = Buffer::zeroed(memory.parts().map(<[u8]>::len).sum())?;
        if !passed.receives {
            gather(memory.parts(), copy.as_mut_slice());
        }
        let mut copy = Memory::Buffer(copy);
        let answer = self.passage.pass(&passed.command, &mut copy).map_err(|cause| passed.not_sent(cause))?;
        if passed.receives {
            scatter(copy.contiguous().unwrap_or_default(), memory.buffers_mut());
        }
        Ok(answer)
    }

    /// An admin command in the form in which it is passed through.
    ///
    /// # Errors
    /// What the kernel keeps to itself, what changes a device that is opened for reading alone, and data that is shorter
    /// than what the device will move.
    pub(crate) fn passed_admin(&self, command: &AdminCommand) -> Result<Passed> {
        check_admin(command)?;
        self.admin.require(command)?;
        let encoded = encode_admin(command);
        let reading = [AdminOpcode::IDENTIFY, AdminOpcode::GET_LOG_PAGE, AdminOpcode::GET_FEATURES];
        if self.read_only && !reading.contains(&AdminOpcode(encoded.entry.opcode())) {
            return Err(self.for_reading());
        }
        Passed::of(&encoded, NvmeQueue::Admin)
    }

    /// A command that may change what namespaces are is about to be sent: what is known of them is forgotten, and nothing
    /// learned until the command has [ended](Self::changed).
    pub(crate) fn changes(&self, command: &AdminCommand) -> bool {
        let changes = changes_namespaces(&encode_admin(command).entry);
        if changes {
            self.layouts.begin_change();
        }
        changes
    }

    /// Such a command has ended.
    pub(crate) fn changed(&self) {
        self.layouts.end_change();
    }

    pub(super) fn send_admin(&self, command: AdminCommand) -> Result<Outcome> {
        let passed = self.passed_admin(&command)?;
        let changes = self.changes(&command);
        let result = self.pass(passed, &mut command.into_payload().into());
        if changes {
            self.changed();
        }
        result
    }
}

/// Whether an I/O command leaves the namespace as it is, in either command set.
fn is_reading(command: &Command, entry: &Entry) -> bool {
    let nvm = [
        NvmOpcode::FLUSH,
        NvmOpcode::READ,
        NvmOpcode::COMPARE,
        NvmOpcode::VERIFY,
        NvmOpcode::RESERVATION_REPORT,
    ];
    let kv = [KvOpcode::RETRIEVE, KvOpcode::LIST, KvOpcode::EXIST];
    let is_scan = matches!(command, Command::Kv(KvCommand::Scan { .. }));
    is_scan || nvm.contains(&NvmOpcode(entry.opcode())) || kv.contains(&KvOpcode(entry.opcode()))
}

impl<P: Passage> Identifies for NvmeTarget<P> {
    fn identify(&self, command: AdminCommand) -> Result<Outcome> {
        self.send_admin(command)
    }

    fn identify_buffer(&self, len: usize) -> Result<Buffer> {
        Buffer::zeroed(len)
    }

    fn reports_command_sets(&self) -> bool {
        self.identity.version >= DESCRIPTORS_SINCE
    }
}

impl<P: Passage> Synchronous for NvmeTarget<P> {
    type Request = Passed;

    fn check(&self, command: &Command) -> Result<Passed> {
        self.passed(command, |nsid| Ok(self.layout(nsid)?.1))
    }

    fn within(&self, request: Passed, timeout: std::time::Duration) -> Passed {
        request.within(timeout)
    }

    fn by(&self, request: Passed, method: Method) -> Passed {
        self.by_method(request, method)
    }

    fn perform(&self, request: Passed, mut memory: Memory) -> Result<Outcome, Failed> {
        let passed = match request.pieces {
            Some(_) => self.pass_pieces(request, &mut memory),
            None => self.pass(request, &mut memory),
        };
        passed.map_err(|error| Failed::with_memory(error, memory))
    }

    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn capabilities(&self, overlaps: bool, cancel: bool) -> Capabilities {
        Capabilities {
            methods: self.offer.methods(),
            limits: Limits {
                transfer_bytes: self.transfer_max_bytes,
                piggyback_bytes: self.offer.max_bytes as u32,
                piggyback_pt_unfinished: self.offer.unfinished,
                bulk_bytes: self.offer.bulk_max_bytes,
                queues: u16::MAX,
                ring_entries: DEPTH_MAX + 1,
                queue_depth: DEPTH_MAX,
                ..self.offer.kv_limits
            },
            raw_commands: true,
            admin_commands: true,
            bulk_store: self.offer.bulk_max_bytes > 0,
            kv: self.kv(),
            nvm: self.nvm,
            nvm_limits: self.nvm_limits,
            admin: self.admin,
            memory_align_bytes: 1,
            event: true,
            overlaps,
            cancel,
        }
    }

    fn namespaces(&self) -> Result<Vec<Namespace>> {
        let all = match self.nsid() {
            Some(nsid) => vec![nsid],
            None => identify::active_namespaces(self)?,
        };
        all.into_iter().map(|nsid| Ok(identify::namespace(self, nsid)?.0)).collect()
    }

    fn check_queue(&self, options: &QueueOptions) -> Result<()> {
        check_shape(options)?;
        options.without_inline_reads()?;
        if self.nsid().is_none() {
            return Err(Error::host(ErrorKind::Unsupported, self.takes_no_io()));
        }
        self.check_method(options.transfer)?;
        if options.transfer == Method::PiggybackPt && !self.read_only && !self.offer.pieces.is_enabled() {
            self.enable_pieces()?;
        }
        Ok(())
    }

    fn admin(&self, command: AdminCommand) -> Result<Outcome> {
        self.send_admin(command)
    }
}
