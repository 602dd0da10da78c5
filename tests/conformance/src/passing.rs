//! What stands for the kernel's NVMe driver: commands passed through reach a controller in this process.
//!
//! It is as strict as the kernel. What reaches the device of a command is what an [`NvmeCommand`] holds: dwords 2, 3 and 10
//! to 15. A caller is moved from queue to queue of the device, command by command. No transfer method
//! is enabled at first, and a reset disables all.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use byway::CreateOptions;
use byway::NewNamespace;
use byway_backends::nvme::{NodeKind, NvmeAnswer, NvmeCommand, NvmeQueue, NvmeTarget, Passage};
use byway_core::{
    AdminCommand, BackendQueue, Buffers, Error, Failed, Finished, Memory, Outcome, Payload, QueueOptions,
    RawCommand, RawData,
};
use byway_spec::Command as Entry;
use byway_spec::Status;
use byway_spec::base::admin::AdminOpcode;
use byway_spec::vendor::{FEATURE_METHODS, Methods};
use parking_lot::Mutex;

use crate::scratch::Scratch;

/// Queues of the device that callers are moved between.
const QUEUES: usize = 3;

/// Where the vendor area begins in Identify Controller.
const VENDOR_AREA: usize = 3072;

/// A controller in this process, in an image in place of the scratch file.
pub struct InProcess {
    device: byway::embedded::EmbeddedDevice,
    queues: Vec<Mutex<byway::embedded::EmbeddedQueue>>,
    turn: AtomicUsize,
    /// Commands of I/O that were passed on.
    seen: Mutex<Vec<NvmeCommand>>,
    faults: Mutex<Vec<Fault>>,
    is_plain: AtomicBool,
}

/// What becomes of a command in the device's place.
#[derive(Debug, Clone, Copy)]
pub struct Fault {
    /// Of which opcode, on which queue.
    pub of: (NvmeQueue, u8),
    /// How many of it are passed on before.
    pub after: u32,
    pub what: FaultKind,
}

#[derive(Debug, Clone, Copy)]
pub enum FaultKind {
    /// The device answers so.
    Status(Status),
    /// The kernel gives it up so.
    Errno(i32),
    /// The controller is reset before the command gets there.
    Reset,
}

/// As the kernel says that a command cannot be.
const EINVAL: i32 = 22;

/// As it says that there is no such request.
const ENOTTY: i32 = 25;

impl InProcess {
    /// With a namespace of blocks, number 1, and one of keys and values, number 2.
    pub fn new(scratch: &Scratch) -> Self {
        let _ = std::fs::remove_file(&scratch.path);
        let create = CreateOptions::new(4 * Scratch::BYTES).namespaces([NewNamespace::NVM, NewNamespace::KV]);
        byway::create(&scratch.path, &create).unwrap();
        let device = byway::embedded::open(&format!("embedded:{}", scratch.path.display())).unwrap();
        let queue = |_| Mutex::new(device.driver().queue(QueueOptions::default()).unwrap());
        let queues = (0..QUEUES).map(queue).collect();
        let (turn, is_plain) = (AtomicUsize::new(0), AtomicBool::new(false));
        let passing =
            Self { device, queues, turn, seen: Mutex::default(), faults: Mutex::default(), is_plain };
        passing.set_methods(Methods::new());
        passing
    }

    /// The node of the namespace of blocks, as a character device.
    pub fn blocks(scratch: &Scratch) -> NvmeTarget<Self> {
        Self::new(scratch).node(NodeKind::Generic { nsid: 1 })
    }

    /// The node of the namespace of keys and values, as a character device.
    pub fn keys(scratch: &Scratch) -> NvmeTarget<Self> {
        Self::new(scratch).node(NodeKind::Generic { nsid: 2 })
    }

    /// A node of the device.
    pub fn node(self, kind: NodeKind) -> NvmeTarget<Self> {
        NvmeTarget::new(self, "/dev/test".into(), kind, false).unwrap()
    }

    /// The same device with nothing announced beyond the standard.
    pub fn plain(self) -> Self {
        self.is_plain.store(true, Relaxed);
        self
    }

    /// The device itself.
    pub fn device(&self) -> &byway::embedded::EmbeddedDevice {
        &self.device
    }

    /// Has a command fail.
    pub fn fail(&self, fault: Fault) {
        self.faults.lock().push(fault);
    }

    /// Commands of I/O that were passed on since this was asked last.
    pub fn take_seen(&self) -> Vec<NvmeCommand> {
        std::mem::take(&mut self.seen.lock())
    }

    /// Enables transfer methods of the device, as another user of it would.
    pub fn set_methods(&self, methods: Methods) {
        let (feature, nsid, cdw11) = (FEATURE_METHODS.0, None, methods.into_bits());
        let data = Payload::Empty;
        let set = AdminCommand::SetFeature { feature, save: false, nsid, cdw11, cdw12: 0, data };
        self.device.driver().admin(set).unwrap();
    }

    /// The enabled transfer methods of the device.
    pub fn methods(&self) -> Methods {
        let (feature, nsid) = (FEATURE_METHODS.0, None);
        let get = AdminCommand::GetFeature { feature, select: 0, nsid, cdw11: 0, into: None };
        Methods::from_bits(self.device.driver().admin(get).unwrap().dw0())
    }

    fn io(&self, raw: RawCommand) -> Result<Outcome, Failed> {
        let turn = self.turn.fetch_add(1, Relaxed);
        let mut queue = self.queues[turn % QUEUES].lock();
        let mut ended = None;
        if let Err(refused) = queue.submit(raw.into(), 0) {
            return Err(Failed::with_memory(refused.error, refused.command.into_memory()));
        }
        queue.drain(&mut |Finished { result, .. }| ended = Some(result)).unwrap();
        ended.unwrap()
    }

    fn admin(&self, raw: RawCommand) -> Result<Outcome, Failed> {
        let is_identify_controller =
            raw.entry.opcode() == AdminOpcode::IDENTIFY.0 && raw.entry.cdw10 & 0xff == 1;
        let mut ended = self.device.driver().admin(AdminCommand::Raw(raw)).map_err(Failed::from);
        if is_identify_controller
            && self.is_plain.load(Relaxed)
            && let Ok(Outcome { buffer: Some(page), .. }) = &mut ended
        {
            page.as_mut_slice()[VENDOR_AREA..].fill(0);
        }
        ended
    }

    /// The fault that has its turn with this command.
    fn fault(&self, command: &NvmeCommand) -> Option<FaultKind> {
        let mut faults = self.faults.lock();
        let mut at = None;
        for (index, fault) in faults.iter_mut().enumerate() {
            if fault.of == (command.queue, command.opcode) {
                match fault.after.checked_sub(1) {
                    Some(left) => fault.after = left,
                    None => at = at.or(Some(index)),
                }
            }
        }
        let at = at?;
        Some(faults.remove(at).what)
    }
}

impl Passage for InProcess {
    fn pass(&self, command: &NvmeCommand, memory: &mut Memory) -> io::Result<NvmeAnswer> {
        match self.fault(command) {
            Some(FaultKind::Status(status)) => return Ok(NvmeAnswer { status: status.0, result: 0 }),
            Some(FaultKind::Errno(errno)) => return Err(io::Error::from_raw_os_error(errno)),
            Some(FaultKind::Reset) => self.reset()?,
            None => {}
        }
        if command.queue == NvmeQueue::Admin && matches!(memory, Memory::Vectored(_)) {
            return Err(io::Error::from_raw_os_error(ENOTTY));
        }
        let passed_on = if command.keeps_data { Memory::Empty } else { std::mem::take(memory) };
        let raw = raw(command, passed_on);
        let ended = match command.queue {
            NvmeQueue::Io => {
                self.seen.lock().push(*command);
                self.io(raw)
            }
            NvmeQueue::Admin => self.admin(raw),
        };
        let (answer, back) = answered(ended);
        if !command.keeps_data {
            *memory = back;
        }
        answer
    }

    /// What callers notice of a reset: features return to their defaults.
    fn reset(&self) -> io::Result<()> {
        self.set_methods(Methods::new());
        Ok(())
    }
}

/// The command as the kernel would put it in a queue.
pub fn raw(command: &NvmeCommand, memory: Memory) -> RawCommand {
    let mut entry = Entry::new(command.opcode, 0, command.nsid);
    (entry.cdw2, entry.cdw3) = (command.cdw2, command.cdw3);
    [entry.cdw10, entry.cdw11, entry.cdw12, entry.cdw13, entry.cdw14, entry.cdw15] = command.cdw10_15;
    let data = match memory {
        Memory::Empty => RawData::None,
        // The lowest bit of an opcode decides.
        sent if command.opcode & 1 != 0 => RawData::ToDevice(sent.into()),
        Memory::Vectored(parts) => RawData::FromDeviceVectored(parts),
        other => other.into_buffers().0.map_or(RawData::None, RawData::FromDevice),
    };
    RawCommand { entry, data }
}
/// What the kernel would answer, and the command's memory.
pub fn answered(ended: Result<Outcome, Failed>) -> (io::Result<NvmeAnswer>, Memory) {
    let payload = |buffer: Option<_>, vector: Buffers| match buffer {
        Some(buffer) => Memory::Buffer(buffer),
        None if vector.is_empty() => Memory::Empty,
        None => Memory::Vectored(vector),
    };
    match ended {
        Ok(Outcome { answer, buffer, vector }) => {
            let result = u64::from(answer.dw1) << 32 | u64::from(answer.dw0);
            (Ok(NvmeAnswer { status: 0, result }), payload(buffer, vector))
        }
        Err(Failed { error, buffer, vector }) => (refusal(&error), payload(buffer, vector)),
    }
}

fn refusal(error: &Error) -> io::Result<NvmeAnswer> {
    match error.nvme_status() {
        Some(status) => Ok(NvmeAnswer { status: status.0, result: 0 }),
        None => Err(io::Error::from_raw_os_error(EINVAL)),
    }
}
