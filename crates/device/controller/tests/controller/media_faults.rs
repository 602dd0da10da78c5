//! Statuses for a host when the flash below fails: damaged pages, a full namespace, a read-only image.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::common::{TestHost, kv, number, nvm};
use crate::io::{DATA, Io, assert_status, blocks, keyed};
use byway_controller::{
    CmbRegisters, Controller, ControllerId, Identity, Subsystem, SubsystemError, SubsystemOptions,
};
use byway_flash::{Flash, MediaKind, OpenOptions, RunOptions};
use byway_kit::{pattern, spread};
use byway_link::Profile;
use byway_spec::base::admin::{AdminOpcode, SelectCdw10};
use byway_spec::base::identify::Csi;
use byway_spec::base::log::LogPage;
use byway_spec::kv::KvOpcode;
use byway_spec::nvm::NvmOpcode;
use byway_spec::{Command, Completion, Status};
use rustix::fs::{SeekFrom, seek};

const BLOCKS: u32 = 1;
const PAIRS: u32 = 2;
const SIZE_BYTES: u64 = 8 << 20;

/// A device on an image file that can be closed, damaged and opened.
struct Device {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Device {
    /// Makes the image and lets `fill` write to it.
    fn new(fill: impl FnOnce(&mut Io)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        let specs = [nvm(SIZE_BYTES, 4096), kv(SIZE_BYTES)];
        let media = MediaKind::File(path.clone());
        let mut host = TestHost::disabled("gen4x4", 2 * SIZE_BYTES, media, &specs);
        host.enable();
        let mut io = Io::over(host);
        fill(&mut io);
        io.host.subsystem.close().unwrap();
        Self { _folder: folder, path }
    }

    fn subsystem(&self, options: OpenOptions) -> Result<Subsystem, SubsystemError> {
        let flash = Flash::open(&self.path, options).unwrap();
        let profile = Profile::by_name("gen4x4").unwrap();
        let identity = Identity { nqn: String::new(), serial: String::new(), model: String::new() };
        Subsystem::new(identity, profile, flash, SubsystemOptions::default())
    }

    fn open(&self, options: OpenOptions) -> Io {
        let mut host = TestHost::disabled("gen4x4", SIZE_BYTES, MediaKind::Ram, &[]);
        host.subsystem = self.subsystem(options).unwrap();
        host.controller = Controller::new(ControllerId(0), &mut host.subsystem, CmbRegisters::default());
        host.enable();
        Io::over(host)
    }
}

/// The stretches of a sparse file that hold data.
fn stretches(path: &Path) -> Vec<(u64, Vec<u8>)> {
    let file = File::open(path).unwrap();
    let mut stretches = Vec::new();
    let mut at = 0;
    while let Ok(from) = seek(&file, SeekFrom::Data(at)) {
        at = seek(&file, SeekFrom::Hole(from)).unwrap();
        let mut bytes = vec![0; (at - from) as usize];
        file.read_exact_at(&mut bytes, from).unwrap();
        stretches.push((from, bytes));
    }
    stretches
}

/// Flips a bit of every occurrence of `what` in the file.
fn damage(path: &Path, what: &[u8]) {
    let file = File::options().write(true).open(path).unwrap();
    let mut found = 0;
    for (from, bytes) in stretches(path) {
        let begins = |at: &usize| bytes[*at] == what[0] && bytes[*at..].starts_with(what);
        for at in (0..bytes.len()).filter(begins) {
            file.write_all_at(&[what[0] ^ 1], from + at as u64).unwrap();
            found += 1;
        }
    }
    assert!(found > 0, "the image does not hold the bytes to be damaged");
}

/// Where the file holds `what`.
fn place_of(path: &Path, what: &[u8]) -> u64 {
    let place = stretches(path).into_iter().find_map(|(from, bytes)| {
        Some(from + bytes.windows(what.len()).position(|window| window == what)? as u64)
    });
    place.expect("the image does not hold these bytes")
}

fn write(io: &mut Io, slba: u64, bytes: &[u8]) -> Completion {
    let mut command = blocks(NvmOpcode::WRITE, BLOCKS, slba, bytes.len() / 4096);
    io.put(DATA, bytes);
    io.point_prps(&mut command, DATA, bytes.len());
    io.run(command)
}

fn on_blocks(io: &mut Io, opcode: NvmOpcode, slba: u64, count: usize) -> Completion {
    let mut command = blocks(opcode, BLOCKS, slba, count);
    io.point_prps(&mut command, DATA, count * 4096);
    io.run(command)
}

fn on_key(io: &mut Io, opcode: KvOpcode, key: &[u8], len: usize) -> Completion {
    let mut command = Command { nsid: PAIRS, ..keyed(opcode.0, key, len) };
    io.point_prps(&mut command, DATA, len);
    io.run(command)
}

fn store(io: &mut Io, key: &[u8], value: &[u8]) -> Completion {
    io.put(DATA, value);
    on_key(io, KvOpcode::STORE, key, value.len())
}

#[test]
fn a_damaged_page_is_an_unrecovered_read_error_for_its_blocks_alone() {
    let bytes = pattern(1, 64 * 4096);
    let device = Device::new(|io| assert_status(write(io, 0, &bytes), Status::SUCCESS));
    damage(&device.path, &bytes[5 * 4096..5 * 4096 + 32]);
    let mut io = device.open(OpenOptions::default());
    assert_status(on_blocks(&mut io, NvmOpcode::READ, 5, 1), Status::UNRECOVERED_READ_ERROR);
    assert_status(on_blocks(&mut io, NvmOpcode::VERIFY, 0, 64), Status::UNRECOVERED_READ_ERROR);
    assert_status(on_blocks(&mut io, NvmOpcode::COMPARE, 4, 2), Status::UNRECOVERED_READ_ERROR);
    assert_status(on_blocks(&mut io, NvmOpcode::READ, 6, 58), Status::SUCCESS);
    assert!(io.get(DATA, 58 * 4096) == bytes[6 * 4096..]);
    assert_status(write(&mut io, 5, &bytes[..4096]), Status::SUCCESS);
    assert_status(on_blocks(&mut io, NvmOpcode::READ, 5, 1), Status::SUCCESS);
}

#[test]
fn a_damaged_value_is_an_unrecovered_error_for_its_key_alone() {
    let (one, two) = (pattern(2, 60_000), pattern(3, 60_000));
    let device = Device::new(|io| {
        assert_status(store(io, b"one", &one), Status::SUCCESS);
        assert_status(store(io, b"two", &two), Status::SUCCESS);
        for n in 0..40u32 {
            assert_status(store(io, &n.to_le_bytes(), &pattern(100 + u64::from(n), 60_000)), Status::SUCCESS);
        }
    });
    damage(&device.path, &one[30_000..30_032]);
    let mut io = device.open(OpenOptions::default());
    assert_status(on_key(&mut io, KvOpcode::RETRIEVE, b"one", 60_000), Status::UNRECOVERED_ERROR);
    assert_status(on_key(&mut io, KvOpcode::RETRIEVE, b"two", 60_000), Status::SUCCESS);
    assert!(io.get(DATA, 60_000) == two);
    assert_status(store(&mut io, b"one", b"again"), Status::SUCCESS);
    assert_status(on_key(&mut io, KvOpcode::RETRIEVE, b"one", 5), Status::SUCCESS);
}

#[test]
fn full_namespace_refuses_writes_and_keeps_its_data() {
    let mut io = Io::over(TestHost::new(2 * SIZE_BYTES, &[nvm(SIZE_BYTES, 4096), kv(SIZE_BYTES)]));
    let mut stored = 0u32;
    let full = loop {
        let done = store(&mut io, &stored.to_le_bytes(), &pattern(u64::from(stored), 50_000));
        if !done.status().is_success() {
            break done;
        }
        stored += 1;
        assert!(stored < 1000, "a namespace of 8 MiB took {stored} values of 50,000 bytes");
    };
    assert_status(full, Status::CAPACITY_EXCEEDED);
    for n in 0..stored {
        assert_status(on_key(&mut io, KvOpcode::RETRIEVE, &n.to_le_bytes(), 50_000), Status::SUCCESS);
        assert!(io.get(DATA, 50_000) == pattern(u64::from(n), 50_000), "{n}");
    }
    assert_status(on_key(&mut io, KvOpcode::DELETE, &0u32.to_le_bytes(), 0), Status::SUCCESS);
}

#[test]
fn a_read_only_image_is_write_protected() {
    let device = Device::new(|io| {
        assert_status(write(io, 0, &pattern(5, 4096)), Status::SUCCESS);
        assert_status(store(io, b"key", &pattern(6, 100)), Status::SUCCESS);
    });
    let before = stretches(&device.path);
    let mut io = device.open(OpenOptions::default().read_only(true));
    assert_status(on_blocks(&mut io, NvmOpcode::READ, 0, 1), Status::SUCCESS);
    assert!(io.get(DATA, 4096) == pattern(5, 4096));
    assert_status(on_key(&mut io, KvOpcode::RETRIEVE, b"key", 100), Status::SUCCESS);
    assert!(io.get(DATA, 100) == pattern(6, 100));
    assert_status(write(&mut io, 0, &[1; 4096]), Status::NAMESPACE_WRITE_PROTECTED);
    let zeroes = on_blocks(&mut io, NvmOpcode::WRITE_ZEROES, 0, 1);
    assert_status(zeroes, Status::NAMESPACE_WRITE_PROTECTED);
    assert_status(store(&mut io, b"key", b"new"), Status::NAMESPACE_WRITE_PROTECTED);
    let deleted = on_key(&mut io, KvOpcode::DELETE, b"key", 0);
    assert_status(deleted, Status::NAMESPACE_WRITE_PROTECTED);
    drop(io);
    assert!(stretches(&device.path) == before, "the image was changed");
}

#[test]
fn follower_refuses_a_namespace_that_its_writer_deleted() {
    let device = Device::new(|io| {
        assert_status(write(io, 0, &pattern(5, 4096)), Status::SUCCESS);
    });
    let mut writer = device.open(OpenOptions::default());
    let mut io = device.open(OpenOptions::default().follow(true));
    assert_status(store(&mut writer, b"key", &pattern(6, 100)), Status::SUCCESS);
    assert_status(on_key(&mut io, KvOpcode::RETRIEVE, b"key", 100), Status::SUCCESS);
    assert!(io.get(DATA, 100) == pattern(6, 100));
    let mut delete = Command::new(AdminOpcode::NAMESPACE_MANAGEMENT.0, 0, PAIRS);
    delete.cdw10 = u32::from(SelectCdw10::DELETE);
    assert_status(writer.host.admin(delete), Status::SUCCESS);
    assert_status(on_key(&mut io, KvOpcode::RETRIEVE, b"key", 100), Status::INVALID_NAMESPACE);
    assert_status(on_blocks(&mut io, NvmOpcode::READ, 0, 1), Status::SUCCESS);
    assert!(io.get(DATA, 4096) == pattern(5, 4096));
}

#[test]
fn health_reports_unsafe_shutdowns_and_media_errors() {
    let bytes = pattern(3, 4096);
    let device = Device::new(|io| assert_status(write(io, 0, &bytes), Status::SUCCESS));
    damage(&device.path, &bytes[..32]);
    for unsafe_shutdowns in 0..3 {
        let mut io = device.open(OpenOptions::default());
        let log = io.host.log(LogPage::SMART, Csi::NVM, 512).unwrap();
        assert_eq!((number(&log, 144, 16), number(&log, 160, 16)), (unsafe_shutdowns, unsafe_shutdowns));
        assert_status(on_blocks(&mut io, NvmOpcode::READ, 0, 1), Status::UNRECOVERED_READ_ERROR);
        let log = io.host.log(LogPage::SMART, Csi::NVM, 512).unwrap();
        assert_eq!(number(&log, 160, 16), unsafe_shutdowns + 1, "media errors are kept with the image");
    }
}

#[test]
fn device_reopened_after_a_kill_has_every_acknowledged_write() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let specs = [nvm(SIZE_BYTES, 4096), kv(SIZE_BYTES)];
    let mut host = TestHost::disabled("gen4x4", 2 * SIZE_BYTES, MediaKind::File(path.clone()), &specs);
    host.enable();
    let mut io = Io::over(host);
    for n in 0..50u64 {
        assert_status(write(&mut io, n, &pattern(n, 4096)), Status::SUCCESS);
        assert_status(store(&mut io, &n.to_le_bytes(), &pattern(n, 500)), Status::SUCCESS);
    }
    drop(io);
    let device = Device { _folder: folder, path };
    let mut io = device.open(OpenOptions::default());
    for n in 0..50u64 {
        assert_status(on_blocks(&mut io, NvmOpcode::READ, n, 1), Status::SUCCESS);
        assert!(io.get(DATA, 4096) == pattern(n, 4096));
        assert_status(on_key(&mut io, KvOpcode::RETRIEVE, &n.to_le_bytes(), 500), Status::SUCCESS);
        assert!(io.get(DATA, 500) == pattern(n, 500));
    }
}

#[test]
fn a_key_value_namespace_that_lost_its_header_is_damaged_and_not_made_anew() {
    let device = Device::new(|io| assert_status(store(io, b"key", &pattern(1, 500)), Status::SUCCESS));
    let place = place_of(&device.path, b"BYWAYKV\0");
    let file = File::options().read(true).write(true).open(&device.path).unwrap();
    let mut header = [0; 4096];
    file.read_exact_at(&mut header, place).unwrap();
    for lost_bytes in [8, 4096] {
        file.write_all_at(&vec![0; lost_bytes], place).unwrap();
        let refused = device.subsystem(OpenOptions::default());
        assert!(matches!(refused, Err(SubsystemError::Kv { nsid: PAIRS, .. })), "{lost_bytes}");
    }
    file.write_all_at(&header, place).unwrap();
    let mut io = device.open(OpenOptions::default());
    assert_status(on_key(&mut io, KvOpcode::RETRIEVE, b"key", 500), Status::SUCCESS);
    assert!(io.get(DATA, 500) == pattern(1, 500));
}

/// The SMART log: critical warning, available spare, its threshold, percentage used.
fn smart(io: &mut Io) -> [u8; 4] {
    let log = io.host.log(LogPage::SMART, Csi::NVM, 512).unwrap();
    [log[0], log[3], log[4], log[5]]
}

/// Of blocks and of pairs that are all there, whatever is written over until another block goes bad.
#[test]
fn writes_until_the_last_spare_block_report_the_spare_all_the_way() {
    const VALUE_BYTES: usize = 30_000;
    let (blocks_there, mut pairs) = (SIZE_BYTES / 4096, 0);
    let device = Device::new(|io| {
        for first in (0..blocks_there).step_by(16) {
            assert_status(write(io, first, &pattern(first, 16 * 4096)), Status::SUCCESS);
        }
        let fits = |n: &u64| store(io, &n.to_le_bytes(), &pattern(*n, VALUE_BYTES)).status().is_success();
        pairs = (0..).take_while(fits).count() as u64;
    });
    let mut step = 0_u64;
    let mut change = |io: &mut Io| {
        step += 1;
        let at = spread(step);
        match step % 2 {
            0 => write(io, at % blocks_there / 16 * 16, &pattern(at % blocks_there / 16 * 16, 16 * 4096)),
            _ => store(io, &(at % pairs).to_le_bytes(), &pattern(at % pairs, VALUE_BYTES)),
        }
    };
    let mut spare_percent = 100;
    while spare_percent > 0 {
        let run = RunOptions::default().injection("program:nth=60".parse().ok());
        let mut io = device.open(OpenOptions::default().run(run));
        assert_eq!(smart(&mut io)[1], spare_percent, "as before the reset");
        while smart(&mut io)[1] == spare_percent {
            assert_status(change(&mut io), Status::SUCCESS);
        }
        let [warning, left_percent, threshold_percent, used_percent] = smart(&mut io);
        assert!(left_percent < spare_percent && used_percent >= 100 - left_percent - 1);
        assert_eq!(warning, u8::from(left_percent < threshold_percent));
        spare_percent = left_percent;
    }
    let run = RunOptions::default().injection("program:nth=60".parse().ok());
    let mut io = device.open(OpenOptions::default().run(run));
    let refused =
        std::iter::repeat_with(|| change(&mut io)).find(|done| !done.status().is_success()).unwrap();
    assert_status(refused, Status::NAMESPACE_WRITE_PROTECTED);
    drop(io);
    let mut io = device.open(OpenOptions::default());
    assert_eq!(smart(&mut io), [9, 0, 10, 100], "no spares, can only be read");
    for first in (0..blocks_there).step_by(16) {
        assert_status(on_blocks(&mut io, NvmOpcode::READ, first, 16), Status::SUCCESS);
        assert!(io.get(DATA, 16 * 4096) == pattern(first, 16 * 4096), "block {first}");
    }
    for n in 0..pairs {
        assert_status(on_key(&mut io, KvOpcode::RETRIEVE, &n.to_le_bytes(), VALUE_BYTES), Status::SUCCESS);
        assert!(io.get(DATA, VALUE_BYTES) == pattern(n, VALUE_BYTES), "key {n}");
    }
    assert_status(write(&mut io, 0, &[1; 4096]), Status::NAMESPACE_WRITE_PROTECTED);
    assert_status(store(&mut io, b"key", b"value"), Status::NAMESPACE_WRITE_PROTECTED);
}
