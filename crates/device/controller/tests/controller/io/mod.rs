//! One device with a namespace of each kind and one I/O queue, and a data buffer at a known bus address.
#![allow(dead_code, clippy::unwrap_used, clippy::missing_panics_doc)]

use byway_dma::BusAddr;
use byway_flash::{MediaKind, NamespaceSpec};
use byway_spec::base::admin::AdminOpcode;
use byway_spec::base::feature::FeatureId;
use byway_spec::kv::{KvCdw11, KvConfiguration, KvOpcode};
use byway_spec::nvm::NvmOpcode;
use byway_spec::vendor::Methods;
use byway_spec::{Command, Completion, Status};

use crate::common::{MEMORY_AT, MEMORY_BYTES, TestHost, kv, nvm};

/// Namespace of 512-byte blocks.
pub const BLOCKS_512: u32 = 1;
/// Namespace of 4096-byte blocks.
pub const BLOCKS_4096: u32 = 2;
/// Key-value namespace.
pub const KV: u32 = 3;

const BYTES_512: u64 = 8 << 20;
const BYTES_4096: u64 = 24 << 20;
const BYTES_KV: u64 = 96 << 20;

/// Bus address of the data buffer.
pub const DATA: u64 = MEMORY_AT + (24 << 20);
/// Bytes of the data buffer; nothing is mapped behind it.
pub const DATA_BYTES: usize = MEMORY_BYTES - (24 << 20);
/// Where PRP lists are built.
const PRP_LISTS: u64 = MEMORY_AT + (23 << 20);

const PAGE: u64 = 4096;
/// The I/O queue.
pub const QUEUE: u16 = 1;

/// The device and its host.
pub struct Io {
    pub host: TestHost,
}

impl Io {
    /// A device in memory with the three namespaces.
    pub fn new() -> Self {
        Self::of_profile("gen4x4")
    }

    /// The same with the habits of a profile.
    pub fn of_profile(profile: &str) -> Self {
        let (size_bytes, specs) = namespaces();
        let mut host = TestHost::disabled(profile, size_bytes, MediaKind::Ram, &specs);
        host.enable();
        Self::over(host)
    }

    /// The same in an image.
    pub fn in_image(path: &std::path::Path) -> Self {
        let (size_bytes, specs) = namespaces();
        let mut host = TestHost::disabled("gen4x4", size_bytes, MediaKind::File(path.to_path_buf()), &specs);
        host.enable();
        Self::over(host)
    }

    /// The same, and no SGLs are announced.
    pub fn without_sgls(profile: &str) -> Self {
        let (size_bytes, specs) = namespaces();
        Self::over(TestHost::without_sgls(profile, size_bytes, &specs))
    }

    /// A queue pair on an enabled device.
    pub fn over(mut host: TestHost) -> Self {
        host.create_pair(QUEUE, 256);
        Self { host }
    }

    /// Executes an I/O command.
    pub fn run(&mut self, command: Command) -> Completion {
        self.host.execute(QUEUE, command)
    }

    /// Executes an I/O command whose payload follows it in the ring.
    pub fn run_inline(&mut self, mut command: Command, payload: &[u8]) -> Completion {
        command.set_sgl1(byway_spec::base::sgl::SglDescriptor::inline(payload.len() as u32));
        let cid = self.host.submit(QUEUE, command);
        for chunk in payload.chunks(64) {
            let mut slot = [0; 64];
            slot[..chunk.len()].copy_from_slice(chunk);
            self.host.push(QUEUE, &slot);
        }
        self.host.ring(QUEUE);
        self.host.run();
        let done = self.host.reap(QUEUE).expect("no completion");
        assert_eq!(done.cid, cid);
        done
    }

    /// Writes host memory.
    pub fn put(&self, at: u64, bytes: &[u8]) {
        self.host.write(BusAddr(at), bytes);
    }

    /// Reads host memory.
    pub fn get(&self, at: u64, len: usize) -> Vec<u8> {
        self.host.read(BusAddr(at), len)
    }

    /// Points the command's PRPs at `len` bytes from page `at` on, with as many list pages as it takes.
    pub fn point_prps(&self, command: &mut Command, at: u64, len: usize) {
        let pages: Vec<u64> = (0..(len as u64).div_ceil(PAGE)).map(|page| at + page * PAGE).collect();
        match pages[..] {
            [] => command.set_prps(0, 0),
            [first] => command.set_prps(first, 0),
            [first, second] => command.set_prps(first, second),
            [first, ref rest @ ..] => {
                self.put_lists(rest);
                command.set_prps(first, PRP_LISTS);
            }
        }
    }

    fn put_lists(&self, entries: &[u64]) {
        let (mut list, mut rest) = (PRP_LISTS, entries);
        while rest.len() > 512 {
            self.put_entries(list, &rest[..511]);
            self.put_entries(list + 511 * 8, &[list + PAGE]);
            (list, rest) = (list + PAGE, &rest[511..]);
        }
        self.put_entries(list, rest);
    }

    /// Writes PRP list entries.
    pub fn put_entries(&self, at: u64, entries: &[u64]) {
        let bytes: Vec<u8> = entries.iter().flat_map(|entry| entry.to_le_bytes()).collect();
        self.put(at, &bytes);
    }

    /// Bytes of a block.
    pub fn block_bytes(&self, nsid: u32) -> usize {
        if nsid == BLOCKS_512 { 512 } else { 4096 }
    }

    /// Blocks of a namespace.
    pub fn block_count(&self, nsid: u32) -> u64 {
        if nsid == BLOCKS_512 { BYTES_512 / 512 } else { BYTES_4096 / 4096 }
    }

    /// Enables every transfer method that Byway has.
    pub fn enable_methods(&mut self) {
        let methods = Methods::new()
            .with_piggyback(true)
            .with_piggyback_pt(true)
            .with_prp_tail(true)
            .with_inline(true)
            .with_cxl(true)
            .with_cxl_piggyback(true)
            .with_bulk(true)
            .with_scan(true)
            .with_retrieve_many(true)
            .with_store_many(true)
            .with_delete_range(true)
            .with_inline_read(true);
        self.enable(methods);
    }

    /// Enables transfer methods, and no others.
    pub fn enable(&mut self, methods: Methods) {
        self.set_feature(FeatureId::METHODS, 0, methods.into_bits());
    }

    /// Sets feature 20h of a namespace.
    pub fn set_kv_configuration(&mut self, nsid: u32, configuration: KvConfiguration) {
        self.set_feature(FeatureId(0x20), nsid, configuration.into_bits());
    }

    /// Set Features, which has to succeed.
    pub fn set_feature(&mut self, id: FeatureId, nsid: u32, value: u32) -> Completion {
        let done = self.try_feature(id, nsid, value);
        assert!(done.status().is_success(), "{}", done.status());
        done
    }

    /// Set Features.
    pub fn try_feature(&mut self, id: FeatureId, nsid: u32, value: u32) -> Completion {
        let mut command = Command::new(AdminOpcode::SET_FEATURES.0, 0, nsid);
        command.cdw10 = u32::from(id.0);
        command.cdw11 = value;
        self.host.admin(command)
    }
}

fn namespaces() -> (u64, [NamespaceSpec; 3]) {
    let specs = [nvm(BYTES_512, 512), nvm(BYTES_4096, 4096), kv(BYTES_KV)];
    (BYTES_512 + BYTES_4096 + BYTES_KV, specs)
}

/// A command on `count` blocks from `slba` on.
pub fn blocks(opcode: NvmOpcode, nsid: u32, slba: u64, count: usize) -> Command {
    let mut command = Command::new(opcode.0, 0, nsid);
    command.set_cdw10_11(slba);
    command.cdw12 = count as u32 - 1;
    command
}

/// A command on a key of the key-value namespace, with `len` bytes of value or buffer.
pub fn keyed(opcode: u8, key: &[u8], len: usize) -> Command {
    let mut command = Command::new(opcode, 0, KV);
    command.set_key(key);
    command.cdw10 = len as u32;
    command.cdw11 = KvCdw11::new().with_key_len(key.len() as u8).into_bits();
    command
}

/// The value of a key, if it can be had.
pub fn get(io: &mut Io, key: &[u8]) -> Option<Vec<u8>> {
    let mut command = keyed(KvOpcode::RETRIEVE.0, key, 1 << 20);
    io.point_prps(&mut command, DATA, 1 << 20);
    let done = io.run(command);
    done.status().is_success().then(|| io.get(DATA, done.dw0 as usize))
}

/// A completion bears this status, whatever else its status field says.
#[track_caller]
pub fn assert_status(done: Completion, status: Status) {
    assert_eq!(done.status().code(), status, "{}", done.status());
}
