//! What stands for the kernel's NVMe driver: commands passed through reach a controller in this process.

use std::io;
use std::sync::{Mutex, PoisonError};

use byway::CreateOptions;
use byway::NewNamespace;
use byway_backends::nvme::{NodeKind, NvmeAnswer, NvmeCommand, NvmeQueue, NvmeTarget, Passage};
use byway_core::{
    AdminCommand, BackendQueue, Buffers, Error, Failed, Finished, Memory, Outcome, QueueOptions, RawCommand,
    RawData,
};
use byway_spec::Command as Entry;

use crate::scratch::Scratch;

/// A controller in this process, in an image in place of the scratch file.
pub struct InProcess {
    device: byway::embedded::Device,
    queue: Mutex<byway::embedded::EmbeddedQueue>,
}

/// As the kernel says that a command cannot be.
const EINVAL: i32 = 22;

/// As it says that there is no such request.
const ENOTTY: i32 = 25;

impl InProcess {
    /// With a namespace of blocks, number 1, and one of keys and values, number 2.
    pub fn new(scratch: &Scratch) -> Self {
        let _ = std::fs::remove_file(&scratch.path);
        let create = CreateOptions {
            namespaces: vec![NewNamespace::NVM, NewNamespace::KV],
            ..CreateOptions::new(4 * Scratch::BYTES)
        };
        byway::create(&scratch.path, &create).unwrap();
        let device = byway::embedded::open(&format!("embedded:{}", scratch.path.display())).unwrap();
        let queue = device.driver().queue(QueueOptions::default()).unwrap();
        Self { device, queue: Mutex::new(queue) }
    }

    /// The node of the namespace of blocks, as a character device.
    pub fn blocks(scratch: &Scratch) -> NvmeTarget<Self> {
        Self::new(scratch).node(NodeKind::Generic { nsid: 1 })
    }

    /// A node of the device.
    pub fn node(self, kind: NodeKind) -> NvmeTarget<Self> {
        NvmeTarget::new(self, "/dev/test".into(), kind, false).unwrap()
    }

    fn io(&self, raw: RawCommand) -> Result<Outcome, Failed> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let mut ended = None;
        if let Err(refused) = queue.submit(raw.into(), 0) {
            return Err(Failed::with_memory(refused.error, refused.command.into_memory()));
        }
        queue.drain(&mut |Finished { result, .. }| ended = Some(result)).unwrap();
        ended.unwrap()
    }
}

impl Passage for InProcess {
    fn pass(&self, command: &NvmeCommand, memory: &mut Memory) -> io::Result<NvmeAnswer> {
        if command.queue == NvmeQueue::Admin && matches!(memory, Memory::Vectored(_)) {
            return Err(io::Error::from_raw_os_error(ENOTTY));
        }
        let raw = raw(command, std::mem::take(memory));
        let ended = match command.queue {
            NvmeQueue::Io => self.io(raw),
            NvmeQueue::Admin => self.device.driver().admin(AdminCommand::Raw(raw)).map_err(Failed::from),
        };
        let (answer, back) = answered(ended);
        *memory = back;
        answer
    }

    fn reset(&self) -> io::Result<()> {
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
