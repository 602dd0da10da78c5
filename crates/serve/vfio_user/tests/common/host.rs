//! A host with an admin queue and one I/O queue in memory that it shares.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use byway_spec::base::admin::{AdminOpcode, CreateCqCdw11, CreateSqCdw11, QueueCdw10};
use byway_spec::base::register::{Aqa, Cc, Csts, Register};
use byway_spec::nvm::{NvmCdw12, NvmOpcode};
use byway_spec::{Command, Completion};
use byway_sys::{Mapping, Wakeup};
use byway_vfio_user_wire::{DmaMap, DmaRange, IrqAction, IrqData, IrqIndex, Request, SetIrqs};
use rustix::fs::MemfdFlags;

use super::{Client, Served, TIMEOUT};

/// Where the device sees the host's memory.
pub const MEMORY_AT: u64 = 0x1_0000_0000;
const MEMORY_BYTES: u64 = 1 << 20;

const ENTRIES: u32 = 16;
/// Queue `q` has its submission ring at `q * 0x2000` of the memory, its completions a page behind.
const QUEUE_BYTES: u64 = 0x2000;
/// Where commands have their data.
pub const DATA: u64 = 0x8000;

/// A client whose device is enabled, with queue pair 1 made and its interrupt armed.
pub struct Host {
    pub client: Client,
    pub memory: File,
    pub interrupt: Wakeup,
    /// Where it rings without a message, once it has mapped that.
    pub doorbells: Option<Mapping>,
    /// Where in the memory it writes those of I/O queues beside, once it has configured them.
    buffers: Option<u64>,
    tails: [u32; 2],
    heads: [u32; 2],
    phases: [bool; 2],
}

impl Host {
    pub fn new(served: &Served) -> Self {
        Self::over(served.client())
    }

    /// A host that has begun already.
    pub fn over(mut client: Client) -> Self {
        let memory = rustix::fs::memfd_create("guest", MemfdFlags::CLOEXEC).unwrap();
        let memory = File::from(memory);
        memory.set_len(MEMORY_BYTES).unwrap();
        client.ask_with(&Request::DmaMap(mapping()), &[&fd(&memory)]).unwrap();
        let interrupt = Wakeup::new().unwrap();
        let mut host = Self {
            client,
            memory,
            interrupt,
            doorbells: None,
            buffers: None,
            tails: [0; 2],
            heads: [0; 2],
            phases: [true; 2],
        };
        host.arm();
        host.enable();
        host.make_queues();
        host
    }

    /// Arms vector 1 with an eventfd.
    fn arm(&mut self) {
        let event = std::os::fd::AsFd::as_fd(&self.interrupt).try_clone_to_owned().unwrap();
        let set = SetIrqs {
            index: IrqIndex::MSIX,
            start: 1,
            count: 1,
            action: IrqAction::Trigger,
            data: IrqData::EventFds,
        };
        self.client.ask_with(&Request::SetIrqs(set), &[&event]).unwrap();
    }

    pub fn enable(&mut self) {
        let entries = Aqa::new().with_asqs_z(ENTRIES as u16 - 1).with_acqs_z(ENTRIES as u16 - 1);
        let registers = [
            (Register::AQA, entries.into_bits()),
            (Register::ASQ, MEMORY_AT as u32),
            (Register(Register::ASQ.0 + 4), (MEMORY_AT >> 32) as u32),
            (Register::ACQ, (MEMORY_AT + 0x1000) as u32),
            (Register(Register::ACQ.0 + 4), (MEMORY_AT >> 32) as u32),
            (Register::CC, Cc::new().with_en(true).with_iosqes(6).with_iocqes(4).into_bits()),
        ];
        for (register, value) in registers {
            self.client.set_register(u64::from(register.0), value);
        }
        self.await_status(Csts::rdy);
    }

    /// Waits until the status is as it should be; messages are answered meanwhile.
    pub fn await_status(&mut self, is: impl Fn(&Csts) -> bool) {
        let until = Instant::now() + TIMEOUT;
        while !is(&self.status()) {
            assert!(Instant::now() < until, "{:?}", self.status());
        }
    }

    /// Asks for a shutdown.
    pub fn shut_down(&mut self) {
        let cc = Cc::new().with_en(true).with_iosqes(6).with_iocqes(4).with_shn(Cc::SHN_NORMAL);
        self.client.set_register(u64::from(Register::CC.0), cc.into_bits());
    }

    pub fn status(&mut self) -> Csts {
        Csts::from_bits(self.client.register(u64::from(Register::CSTS.0)))
    }

    pub fn make_queues(&mut self) {
        let cdw10 = QueueCdw10::new().with_qid(1).with_qsize_z(ENTRIES as u16 - 1).into_bits();
        let mut cq = Command::new(AdminOpcode::CREATE_CQ.0, 0, 0);
        cq.set_prps(MEMORY_AT + QUEUE_BYTES + 0x1000, 0);
        cq.cdw10 = cdw10;
        cq.cdw11 = CreateCqCdw11::new().with_pc(true).with_ien(true).with_iv(1).into_bits();
        assert!(self.execute(0, cq).status().is_success());
        let mut sq = Command::new(AdminOpcode::CREATE_SQ.0, 0, 0);
        sq.set_prps(MEMORY_AT + QUEUE_BYTES, 0);
        sq.cdw10 = cdw10;
        sq.cdw11 = CreateSqCdw11::new().with_pc(true).with_cqid(1).into_bits();
        assert!(self.execute(0, sq).status().is_success());
    }

    /// Queue `qid` is gone: the next of its number begins from zero.
    pub fn forget_queue(&mut self, qid: u16) {
        let queue = usize::from(qid);
        let zeroes = [0; QUEUE_BYTES as usize];
        self.memory.write_all_at(&zeroes, u64::from(qid) * QUEUE_BYTES).unwrap();
        (self.tails[queue], self.heads[queue], self.phases[queue]) = (0, 0, true);
    }

    /// Resets the controller, and begins anew.
    pub fn restart(&mut self) {
        self.reset();
        self.make_queues();
    }

    /// The same, with the doorbells of I/O queues `at` so many bytes of the memory, their event indexes a page behind.
    pub fn restart_with_doorbells_at(&mut self, at: u64) {
        self.reset();
        let mut buffers = Command::new(AdminOpcode::DOORBELL_BUFFER_CONFIG.0, 0, 0);
        buffers.set_prps(MEMORY_AT + at, MEMORY_AT + at + 0x1000);
        assert!(self.execute(0, buffers).status().is_success());
        self.buffers = Some(at);
        self.make_queues();
    }

    fn reset(&mut self) {
        self.client.set_register(u64::from(Register::CC.0), 0);
        self.await_status(|status| !status.rdy());
        self.forget_queues();
        self.enable();
    }

    /// Begins with queues that hold nothing, as the device does after a reset.
    pub fn forget_queues(&mut self) {
        self.memory.write_all_at(&[0; DATA as usize], 0).unwrap();
        self.buffers = None;
        (self.tails, self.heads, self.phases) = ([0; 2], [0; 2], [true; 2]);
    }

    /// Whether every byte of the memory is `value`.
    pub fn is_filled_with(&self, value: u8) -> bool {
        let mut bytes = vec![!value; MEMORY_BYTES as usize];
        self.memory.read_exact_at(&mut bytes, 0).unwrap();
        bytes.iter().all(|byte| *byte == value)
    }

    pub fn fill(&self, value: u8) {
        self.memory.write_all_at(&vec![value; MEMORY_BYTES as usize], 0).unwrap();
    }

    /// Puts a command into queue `qid`; without ringing.
    pub fn submit(&mut self, qid: u16, command: &Command) {
        let queue = usize::from(qid);
        let at = u64::from(qid) * QUEUE_BYTES + u64::from(self.tails[queue]) * 64;
        self.memory.write_all_at(&command.to_bytes(), at).unwrap();
        self.tails[queue] = (self.tails[queue] + 1) % ENTRIES;
    }

    /// Where the tail doorbell of queue `qid` is in the BAR, and what is to be written there.
    pub fn doorbell(&self, qid: u16) -> (u64, u32) {
        (0x1000 + u64::from(qid) * 8, self.tails[usize::from(qid)])
    }

    pub fn ring(&mut self, qid: u16) {
        let (at, tail) = self.doorbell(qid);
        self.set_doorbell(at, tail);
    }

    fn set_doorbell(&mut self, at: u64, value: u32) {
        if let Some(buffers) = self.buffers.filter(|_| at >= 0x1008) {
            self.memory.write_all_at(&value.to_le_bytes(), buffers + at - 0x1000).unwrap();
        }
        match &self.doorbells {
            Some(doorbells) => doorbells.store_u32(at as usize - 0x1000, value).unwrap(),
            None => self.client.set_register(at, value),
        }
    }

    /// The completion at the head of queue `qid`, if any.
    pub fn peek(&self, qid: u16) -> Option<Completion> {
        let queue = usize::from(qid);
        let mut entry = [0; 16];
        let at = u64::from(qid) * QUEUE_BYTES + 0x1000 + u64::from(self.heads[queue]) * 16;
        self.memory.read_exact_at(&mut entry, at).unwrap();
        let entry = Completion::from_bytes(&entry);
        (entry.phase() == self.phases[queue]).then_some(entry)
    }

    /// Waits for the next completion of queue `qid`.
    pub fn reap(&mut self, qid: u16) -> Completion {
        let until = Instant::now() + TIMEOUT;
        let entry = loop {
            if let Some(entry) = self.peek(qid) {
                break entry;
            }
            assert!(Instant::now() < until, "no completion in queue {qid}");
            std::thread::sleep(Duration::from_micros(50));
        };
        let queue = usize::from(qid);
        self.heads[queue] = (self.heads[queue] + 1) % ENTRIES;
        self.phases[queue] ^= self.heads[queue] == 0;
        self.set_doorbell(0x1004 + u64::from(qid) * 8, self.heads[queue]);
        entry
    }

    pub fn execute(&mut self, qid: u16, command: Command) -> Completion {
        self.submit(qid, &command);
        self.ring(qid);
        self.reap(qid)
    }

    /// Writes `data`, at most a page, from block `lba`.
    pub fn write_blocks(&mut self, lba: u64, data: &[u8]) {
        self.memory.write_all_at(data, DATA).unwrap();
        let command = blocks(NvmOpcode::WRITE, lba, data.len(), MEMORY_AT + DATA);
        assert!(self.execute(1, command).status().is_success());
    }

    pub fn read_blocks(&mut self, lba: u64, bytes: usize) -> Vec<u8> {
        let mut data = vec![0; bytes];
        self.memory.write_all_at(&data, DATA).unwrap();
        let command = blocks(NvmOpcode::READ, lba, bytes, MEMORY_AT + DATA);
        assert!(self.execute(1, command).status().is_success());
        self.memory.read_exact_at(&mut data, DATA).unwrap();
        data
    }
}

/// The host's memory, as it is mapped.
pub fn mapping() -> DmaMap {
    DmaMap {
        range: DmaRange::new(MEMORY_AT, MEMORY_BYTES).unwrap(),
        file_offset: 0,
        readable: true,
        writable: true,
    }
}

pub fn fd(file: &File) -> OwnedFd {
    file.try_clone().unwrap().into()
}

/// A read or write of blocks in namespace 1.
pub fn blocks(opcode: NvmOpcode, lba: u64, bytes: usize, prp: u64) -> Command {
    let mut command = Command::new(opcode.0, 0, 1);
    command.set_cdw10_11(lba);
    command.cdw12 = NvmCdw12::new().with_nlb_z((bytes / 512 - 1) as u16).into_bits();
    command.set_prps(prp, 0);
    command
}
