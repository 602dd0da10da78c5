//! Values stored through device memory: the host stores bytes into its queue's window, the command brings the key.

use std::sync::Arc;

use crate::common::{TestHost, kv};
use crate::io::{DATA, Io, KV, QUEUE, assert_status, get, keyed};
use byway_controller::{ControllerId, Identity, Subsystem, SubsystemOptions};
use byway_flash::{Flash, MediaKind, NamespaceKind, OpenOptions};
use byway_kit::pattern;
use byway_kv::KvFormat;
use byway_link::Profile;
use byway_queue::WindowCursor;
use byway_spec::base::admin::AdminOpcode;
use byway_spec::base::feature::FeatureId;
use byway_spec::kv::KvOpcode;
use byway_spec::vendor::{DmaLogEntry, VendorOpcode, WRITE_BYTES, pack_write};
use byway_spec::{Command, Completion, Status};
use byway_sys::Mapping;

/// The host's side of a window.
struct Window {
    memory: Arc<Mapping>,
    base: u64,
    bytes: u64,
    header: u64,
    cursor: WindowCursor,
}

impl Window {
    fn bind(io: &mut Io) -> Self {
        Self::bind_to(io, QUEUE)
    }

    fn bind_to(io: &mut Io, qid: u16) -> Self {
        io.enable_methods();
        let number = io.set_feature(FeatureId::WINDOW, KV, u32::from(qid)).dw0;
        let shape = io.host.subsystem.window_shape();
        let areas = io.host.subsystem.window_memory();
        let (first, memory) = areas.into_iter().rfind(|(first, _)| *first <= number).unwrap();
        let base = u64::from(number - first) * shape.window_bytes;
        let cursor = WindowCursor::new(u64::from(shape.segment_bytes));
        Self { memory, base, bytes: shape.window_bytes, header: u64::from(shape.header_bytes), cursor }
    }

    /// Stores the value where the write pointer says, but for its first `skip` bytes.
    fn store(&mut self, key: &[u8], value: &[u8], skip: usize) {
        let head = self.header + key.len() as u64;
        let at = self.cursor.place(head + value.len() as u64).unwrap();
        let within = self.base + (at + head) % self.bytes;
        self.memory.write_at(within as usize + skip, &value[skip..]).unwrap();
    }
}

fn put(io: &mut Io, window: &mut Window, key: &[u8], value: &[u8]) -> Completion {
    put_over(io, QUEUE, window, key, value)
}

fn put_over(io: &mut Io, qid: u16, window: &mut Window, key: &[u8], value: &[u8]) -> Completion {
    window.store(key, value, 0);
    io.host.execute(qid, keyed(VendorOpcode::KV_STORE_CXL.0, key, value.len()))
}

/// What another controller of the subsystem may do to the namespace: this one's queues do not hear of it.
fn remake(io: &mut Io) {
    io.host.subsystem.delete_namespace(KV).unwrap();
    let nsid = io.host.subsystem.create_namespace(NamespaceKind::Kv, 16 << 20).unwrap();
    io.host.subsystem.attach(nsid, ControllerId(0)).unwrap();
    assert_eq!(nsid, KV);
}

fn format(io: &mut Io) {
    io.host.subsystem.format_namespace(KV, 0, false).unwrap();
}

fn put_by_dma(io: &mut Io, key: &[u8], value: &[u8]) -> Completion {
    let mut command = keyed(KvOpcode::STORE.0, key, value.len());
    io.put(DATA, value);
    io.point_prps(&mut command, DATA, value.len());
    io.run(command)
}

#[test]
fn values_stored_in_place_are_retrieved() {
    let mut io = Io::new();
    let mut window = Window::bind(&mut io);
    for n in 0..500 {
        let key = format!("key{n}");
        assert_status(put(&mut io, &mut window, key.as_bytes(), &pattern(n as u64, n * 7)), Status::SUCCESS);
    }
    for n in 0..500 {
        assert!(get(&mut io, format!("key{n}").as_bytes()) == Some(pattern(n as u64, n * 7)), "{n}");
    }
}

#[test]
fn the_first_bytes_may_come_in_the_command() {
    let mut io = Io::new();
    let mut window = Window::bind(&mut io);
    for len in [0, 1, 35, 36, 1000] {
        let (key, value) = (format!("k{len}"), pattern(1, len));
        let head = len.min(WRITE_BYTES);
        window.store(key.as_bytes(), &value, head);
        let mut command = keyed(VendorOpcode::KV_STORE_CXL_PIGGYBACK.0, key.as_bytes(), len);
        pack_write(&mut command, &value[..head]);
        assert_status(io.run(command), Status::SUCCESS);
        assert_eq!(get(&mut io, key.as_bytes()), Some(value));
    }
}

#[test]
fn value_by_dma_lands_in_the_window_and_its_row_is_reported() {
    let mut io = Io::new();
    let mut window = Window::bind(&mut io);
    let mut reported = 0;
    for n in 0..60 {
        let (small, large) = (format!("s{n}"), format!("l{n}"));
        assert_status(put(&mut io, &mut window, small.as_bytes(), &pattern(n, 100)), Status::SUCCESS);
        let done = put_by_dma(&mut io, large.as_bytes(), &pattern(n, 4096));
        assert_status(done, Status::SUCCESS);
        let entry = DmaLogEntry::from_result(done.result());
        if entry.len_bytes > 0 {
            reported += 1;
            window.cursor.note_dma(entry.position, u64::from(entry.len_bytes)).unwrap();
        }
    }
    assert!(reported > 10, "{reported}");
    for n in 0..60 {
        assert!(get(&mut io, format!("s{n}").as_bytes()) == Some(pattern(n, 100)), "small {n}");
        assert!(get(&mut io, format!("l{n}").as_bytes()) == Some(pattern(n, 4096)), "large {n}");
    }
}

#[test]
fn without_a_window_a_store_through_one_is_out_of_sequence() {
    let mut io = Io::new();
    io.enable_methods();
    let done = io.run(keyed(VendorOpcode::KV_STORE_CXL.0, b"key", 10));
    assert_status(done, Status::COMMAND_SEQUENCE_ERROR);
}

#[test]
fn a_value_longer_than_a_segment_is_refused_and_takes_no_place() {
    let mut io = Io::new();
    let mut window = Window::bind(&mut io);
    let segment = io.host.subsystem.window_shape().segment_bytes;
    let done = io.run(keyed(VendorOpcode::KV_STORE_CXL.0, b"key", segment as usize));
    assert_status(done, Status::INVALID_VALUE_SIZE);
    assert_status(put(&mut io, &mut window, b"key", &pattern(1, 64)), Status::SUCCESS);
    assert_eq!(get(&mut io, b"key"), Some(pattern(1, 64)));
}

#[test]
fn windows_are_bound_to_one_queue_each_until_none_is_left() {
    let mut io = Io::new();
    io.enable_methods();
    let count = io.host.subsystem.window_shape().count as u16;
    for qid in 2..=count + 1 {
        io.host.create_pair(qid, 16);
    }
    let mut numbers: Vec<u32> =
        (1..=count).map(|qid| io.set_feature(FeatureId::WINDOW, KV, u32::from(qid)).dw0).collect();
    numbers.dedup();
    assert_eq!(numbers.len(), usize::from(count));
    let refused = io.try_feature(FeatureId::WINDOW, KV, u32::from(count + 1));
    assert_status(refused, Status::OPERATION_DENIED);
    assert!(io.host.delete_sq(1).is_success());
    let bound = io.try_feature(FeatureId::WINDOW, KV, u32::from(count + 1));
    assert_status(bound, Status::SUCCESS);
}

#[test]
fn windows_of_another_shape_than_announced_are_not_bound() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let media = MediaKind::File(path.clone());
    let host = TestHost::disabled("gen4x4", 32 << 20, media, &[kv(8 << 20)]);
    drop(host);
    let flash = Flash::open(&path, OpenOptions::default()).unwrap();
    let kv_format = KvFormat { windows: 4, ..KvFormat::default() };
    let options = SubsystemOptions::default().kv_format(kv_format);
    let identity = Identity { nqn: String::new(), serial: String::new(), model: String::new() };
    let profile = Profile::by_name("gen4x4").unwrap();
    let mut subsystem = Subsystem::new(identity, profile, flash, options).unwrap();
    assert_eq!(subsystem.bind_window(1).unwrap_err().status, Status::OPERATION_DENIED);
    assert!(subsystem.window_memory().is_empty());
}

#[test]
fn a_formatted_namespace_takes_no_stores_through_old_windows() {
    let mut io = Io::new();
    let mut window = Window::bind(&mut io);
    assert_status(put(&mut io, &mut window, b"key", &pattern(1, 64)), Status::SUCCESS);
    io.host.subsystem.format_namespace(KV, 0, false).unwrap();
    assert_status(put(&mut io, &mut window, b"key", &pattern(1, 64)), Status::COMMAND_SEQUENCE_ERROR);
    assert_eq!(get(&mut io, b"key"), None);
    let mut window = Window::bind(&mut io);
    assert_status(put(&mut io, &mut window, b"key", &pattern(2, 64)), Status::SUCCESS);
    assert_eq!(get(&mut io, b"key"), Some(pattern(2, 64)));
}

#[test]
fn a_window_bound_anew_belongs_to_its_new_queue_alone() {
    for remade in [format, remake] {
        let mut io = Io::new();
        io.host.create_pair(2, 16);
        let mut old = Window::bind(&mut io);
        assert_status(put(&mut io, &mut old, b"key", &pattern(1, 64)), Status::SUCCESS);
        drop(old.memory);
        remade(&mut io);
        let mut new = Window::bind_to(&mut io, 2);
        assert_eq!(new.base, old.base, "the window of before is free");
        let stale = io.run(keyed(VendorOpcode::KV_STORE_CXL.0, b"key", 64));
        assert_status(stale, Status::COMMAND_SEQUENCE_ERROR);
        assert!(io.host.delete_sq(1).is_success());
        assert_status(put_over(&mut io, 2, &mut new, b"new", &pattern(2, 64)), Status::SUCCESS);
    }
}

#[test]
fn a_format_that_is_refused_leaves_windows_bound() {
    let mut io = Io::new();
    let mut window = Window::bind(&mut io);
    let mut command = Command::new(AdminOpcode::FORMAT_NVM.0, 0, KV);
    command.cdw10 = 5;
    assert_status(io.host.admin(command), Status::INVALID_FORMAT);
    assert_status(put(&mut io, &mut window, b"key", &pattern(1, 64)), Status::SUCCESS);
}

#[test]
fn every_profile_prices_windows_as_a_device_announces_them() {
    let announced = Io::new().host.subsystem.window_shape().segment_bytes;
    for name in Profile::names() {
        assert_eq!(Profile::by_name(name).unwrap().limits.cxl_segment_bytes, announced, "{name}");
    }
}

/// The host's side of a window where it has no way to the windows themselves.
fn bind_elsewhere(io: &mut Io) -> (Window, usize) {
    let window = Window::bind(io);
    let shape = io.host.subsystem.window_shape();
    let first = (KV - 1) as usize * shape.count as usize * shape.window_bytes as usize;
    let bytes = first + window.memory.len();
    io.host.elsewhere = Some(Some(Mapping::anonymous(bytes).unwrap()));
    (window, first)
}

fn put_elsewhere(io: &mut Io, window: &mut Window, first: usize, key: &[u8], value: &[u8]) -> Completion {
    let head = window.header + key.len() as u64;
    let at = window.cursor.place(head + value.len() as u64).unwrap();
    let within = first as u64 + window.base + (at + head) % window.bytes;
    let memory = io.host.elsewhere.as_ref().unwrap().as_ref().unwrap();
    memory.write_at(within as usize, value).unwrap();
    io.run(keyed(VendorOpcode::KV_STORE_CXL.0, key, value.len()))
}

#[test]
fn window_stores_of_a_remote_host_are_read_from_shared_memory() {
    let mut io = Io::new();
    let (mut window, first) = bind_elsewhere(&mut io);
    for n in 0..300 {
        let key = format!("key{n}");
        let done = put_elsewhere(&mut io, &mut window, first, key.as_bytes(), &pattern(n as u64, n * 7));
        assert_status(done, Status::SUCCESS);
    }
    io.host.elsewhere = Some(None);
    for n in 0..300 {
        assert!(get(&mut io, format!("key{n}").as_bytes()) == Some(pattern(n as u64, n * 7)), "{n}");
    }
}

#[test]
fn window_stores_of_a_remote_host_are_counted_as_by_its_bus() {
    let mut io = Io::new();
    let (mut window, first) = bind_elsewhere(&mut io);
    let meter = byway_link::HostMeter::new(&Profile::by_name("gen4x4").unwrap());
    meter.set_on(true);
    for len in [0, 1, 63, 64, 65, 1000, 4096] {
        let head = window.header + 3;
        let at = window.cursor.clone().place(head + len as u64).unwrap();
        let lines =
            byway_link::Lines::of(first as u64 + window.base + (at + head) % window.bytes, len as u64);
        if len > 0 {
            meter.cxl_store(lines.count, lines.partial);
            meter.cxl_load(1);
        }
        let key = [b'k', (len / 256) as u8, len as u8];
        assert_status(put_elsewhere(&mut io, &mut window, first, &key, &pattern(1, len)), Status::SUCCESS);
    }
    for class in [byway_link::Class::CxlStore, byway_link::Class::CxlLoad] {
        assert_eq!(io.host.meter.ledger().row(class), meter.ledger().row(class), "{class:?}");
    }
}

#[test]
fn a_host_that_shares_no_memory_stores_nothing_through_windows() {
    let mut io = Io::new();
    let mut window = Window::bind(&mut io);
    io.host.elsewhere = Some(None);
    let done = put(&mut io, &mut window, b"key", b"value");
    assert_status(done, Status::DATA_TRANSFER_ERROR);
    assert_eq!(get(&mut io, b"key"), None);
    // Less of it than the windows are is as good as none.
    io.host.elsewhere = Some(Some(Mapping::anonymous(4096).unwrap()));
    assert_status(put(&mut io, &mut window, b"key", b"value"), Status::DATA_TRANSFER_ERROR);
}
