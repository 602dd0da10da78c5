//! I/O commands of a fabrics queue that its thread executes without the run lock (decision 73): reads of blocks by validated copies,
//! Retrieves beside each other, stores without a condition by leases.
//!
//! Only commands that succeed, and Retrieves of keys that do not exist, are answered here. All others are left to
//! [`Controller::execute_capsule`], which knows how they fail.

use byway_flash::FlashReads;
use byway_kv::TryGet;
use byway_spec::kv::KvOpcode;
use byway_spec::nvm::NvmOpcode;
use byway_spec::{Command, Status};

use crate::admin;
use crate::controller::Controller;
use crate::counting::Tally;
use crate::delegated::QueueLeases;
use crate::id::ControllerId;
use crate::namespace::kv::{KvCommand, NO_SUCH_KEY, StoreIf, key};
use crate::namespace::media::check_whole;
use crate::reservation::Access;
use crate::subsystem::{BlockAccess, Subsystem};

/// Longest value of a store by a lease, in bytes.
const VALUE_MAX_BYTES: usize = 4096;

/// What one fabrics queue may do without the run lock.
///
/// Its rights rest on the state of the controller: the owner ends them before that changes, and has them
/// [granted](Controller::grant_fast_path) anew. Changes of namespaces are found here.
#[derive(Debug)]
pub struct FastPath {
    id: ControllerId,
    qid: u16,
    /// By namespace: an attached namespace of blocks.
    blocks: Vec<Option<BlockAccess>>,
    /// Bit `n` − 1 for each attached key-value namespace `n`.
    key_value: u64,
    /// Stores complete without a sync.
    takes_stores: bool,
    leases: QueueLeases,
}

/// A command that the fast path may execute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FastCommand {
    /// Read of blocks.
    Read,
    /// Retrieve.
    Get,
    /// Store without a condition.
    Put,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FastAnswer {
    /// Success, or that a key does not exist.
    pub status: Status,
    /// Dword 0 of the completion.
    pub dw0: u32,
}

impl FastAnswer {
    /// Success without a result.
    pub const DONE: Self = Self { status: Status::SUCCESS, dw0: 0 };
}

impl Controller {
    /// Grants queue `qid` what it may do without the run lock now; whether that is anything.
    pub fn grant_fast_path(&self, subsystem: &Subsystem, qid: u16, to: &mut FastPath) -> bool {
        let is_served = self.is_ready()
            && qid > 0
            && self.has_queue(qid)
            && self.follows(subsystem)
            && !self.is_admin_only()
            && !subsystem.counts_commands();
        let all_sets = is_served && self.serves_all_sets();
        (to.id, to.qid) = (self.id(), qid);
        to.blocks = if is_served { subsystem.block_access(self.id()) } else { Vec::new() };
        to.key_value = if all_sets { subsystem.key_value_namespaces(self.id()) } else { 0 };
        to.takes_stores = !subsystem.syncs_completions();
        to.key_value != 0 || to.blocks.iter().flatten().any(|access| access.permit.is_some())
    }
}

impl Default for FastPath {
    /// Nothing is granted.
    fn default() -> Self {
        Self {
            id: ControllerId(0),
            qid: 0,
            blocks: Vec::new(),
            key_value: 0,
            takes_stores: false,
            leases: QueueLeases::default(),
        }
    }
}

impl FastPath {
    /// What a command is here; `None` for one that takes the run lock. Its data pointer is not looked at.
    #[inline]
    #[must_use]
    pub fn kind_of(&self, command: &Command) -> Option<FastCommand> {
        const READ: u8 = NvmOpcode::READ.0;
        const STORE: u8 = KvOpcode::STORE.0;
        const _: () = assert!(READ == KvOpcode::RETRIEVE.0, "block and key-value commands share opcodes");
        if command.cdw0.fuse() != 0 {
            return None;
        }
        let is_key_value = self.is_key_value(command.nsid) && command.cdw10 != 0;
        match command.opcode() {
            READ if is_key_value => Some(FastCommand::Get),
            READ => self.permit_of(command.nsid).map(|_| FastCommand::Read),
            STORE if is_key_value && self.takes_stores && command.cdw10 as usize <= VALUE_MAX_BYTES => {
                Some(FastCommand::Put)
            }
            _ => None,
        }
    }

    #[inline]
    fn is_key_value(&self, nsid: u32) -> bool {
        let bit = nsid.wrapping_sub(1);
        bit < u64::BITS && self.key_value >> bit & 1 == 1
    }

    #[inline]
    fn permit_of(&self, nsid: u32) -> Option<&BlockAccess> {
        let access = self.blocks.get(nsid.wrapping_sub(1) as usize)?.as_ref()?;
        access.permit.as_ref().map(|_| access)
    }

    /// Executes a [`FastCommand::Read`] into `reply`, whose length is the host's buffer. `None` where that takes the run lock: `reply` may
    /// then hold anything. The caller counts what was read once it knows that the rights did not end meanwhile.
    #[inline]
    pub fn read(&self, command: &Command, reply: &mut [u8]) -> Option<FlashReads> {
        let access = self.permit_of(command.nsid)?;
        let range = access.shape.range_of(command).ok()?;
        if range.len != reply.len() as u64 {
            return None;
        }
        access.permit.as_ref()?.read(range.at, reply)
    }

    /// Whether access to the namespace of a read has changed since the rights were granted.
    #[cold]
    #[must_use]
    pub fn is_outdated(&self, command: &Command) -> bool {
        let access = self.permit_of(command.nsid);
        access.and_then(|access| access.permit.as_ref()).is_some_and(crate::subsystem::BlockPermit::has_ended)
    }

    /// Executes a [`FastCommand::Get`] into `reply`, beside other threads that read. `None` where that takes the run lock.
    #[inline]
    pub fn get(
        &self,
        subsystem: &Subsystem,
        command: &Command,
        reply: &mut [u8],
        tally: &Tally,
    ) -> Option<FastAnswer> {
        if reply.len() != command.cdw10 as usize {
            return None;
        }
        let (namespace, flash) = subsystem.admit_to_read(command.nsid, self.id)?;
        match namespace.as_kv()?.try_get_at(flash, &key(command).ok()?, false, reply) {
            TryGet::Found { len_bytes, reads } => {
                // After the copy: a part of the image that another program cut off reads as zeroes.
                check_whole(flash, Access::Read).ok()?;
                let moved = reply.len().min(len_bytes as usize);
                reply[moved..].fill(0);
                tally.add_read(moved as u64, reads);
                Some(FastAnswer { status: Status::SUCCESS, dw0: len_bytes })
            }
            TryGet::Absent => {
                check_whole(flash, Access::Read).ok()?;
                let (status, noted) = admin::note(self.qid, command.cid(), &NO_SUCH_KEY);
                debug_assert!(noted.is_none(), "a missing key is an answer");
                tally.add_read(0, FlashReads::default());
                Some(FastAnswer { status, dw0: NO_SUCH_KEY.dw0 })
            }
            TryGet::Unknown => None,
        }
    }

    /// Executes a [`FastCommand::Put`] by a lease. `None` where that takes the run lock.
    #[inline]
    pub fn put(&self, command: &Command, value: &[u8], tally: &Tally) -> Option<FastAnswer> {
        let key = stored_key(command, value)?;
        if !self.leases.put(command.nsid, &key, value) {
            return None;
        }
        tally.add_store(value.len() as u64);
        Some(FastAnswer::DONE)
    }

    /// Whether the queue has a lease of the namespace that a command is for.
    #[inline]
    #[must_use]
    pub fn has_lease(&self, command: &Command) -> bool {
        self.leases.has(command.nsid)
    }

    /// Whether the queue has a lease of any namespace.
    #[must_use]
    pub fn has_leases(&self) -> bool {
        self.leases.has_any()
    }

    /// Executes a [`FastCommand::Put`] under the run lock, and gives the queue a lease if there is one to be had, or renews it. The leases
    /// of other queues may be active if it [has one](Self::has_lease). `None` where the command is to be executed otherwise.
    pub fn put_and_renew(
        &mut self,
        subsystem: &mut Subsystem,
        command: &Command,
        value: &[u8],
        tally: &Tally,
    ) -> Option<FastAnswer> {
        let key = stored_key(command, value)?;
        check_whole(subsystem.flash(), Access::Write).ok()?;
        let (namespace, flash) = subsystem.admit(command.nsid, self.id, Access::Write).ok()?;
        let kv = namespace.kv().ok()?;
        self.leases.store(command.nsid, kv, flash, &key, value).ok()?;
        check_whole(flash, Access::Write).ok()?;
        tally.add_store(value.len() as u64);
        Some(FastAnswer::DONE)
    }

    /// Ends the leases and every right, under the run lock.
    pub fn close(&mut self, subsystem: &mut Subsystem) {
        self.leases.close(subsystem);
        (self.blocks, self.key_value) = (Vec::new(), 0);
    }
}

/// The key of a store without a condition whose value came whole.
#[inline]
fn stored_key(command: &Command, value: &[u8]) -> Option<byway_spec::Key> {
    match KvCommand::parse(command) {
        Ok(KvCommand::Store { key, value_bytes, when: StoreIf::Any }) if value_bytes == value.len() => {
            Some(key)
        }
        _ => None,
    }
}
