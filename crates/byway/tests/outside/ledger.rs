//! The ledger against the table of the design, reckoned here a second time: to the byte, for every method, size,
//! MPS and MRRS. The formulas below are written from the table's words and share no code with the device.

use crate::table::{Bytes, Link};
use byway::embedded::EmbeddedDevice;
use byway::{Key, Ledger};

/// What one put of `size` bytes costs by `method`. Two pages are named by the command itself, more by a list.
fn expected(method: &str, size: u64, link: Link, cosmos: bool) -> Bytes {
    let pages = size.div_ceil(4096);
    let list = if pages > 2 { link.read((pages - 1) * 8) } else { Bytes::default() };
    let commands = |n| if cosmos { link.alone() * n } else { link.together(n) };
    match method {
        "prp" if cosmos => link.alone() + list + link.read(4096) * pages,
        "prp" => link.alone() + list + link.read(size),
        "sgl" => link.alone() + link.read(size),
        "piggyback" => commands(1 + size.saturating_sub(35).div_ceil(56)),
        "inline" if cosmos => link.alone() + link.read(64) * size.div_ceil(64),
        "inline" => link.alone() + link.read(size.div_ceil(64) * 64),
        "piggyback-pt" if cosmos => link.alone() * (1 + size.saturating_sub(11).div_ceil(28)),
        // The first completion names the payload, so it is waited for.
        "piggyback-pt" if size <= 11 => link.alone(),
        "piggyback-pt" => link.alone() + link.together((size - 11).div_ceil(28)),
        "prp+tail" if size.is_multiple_of(4096) => expected("prp", size, link, cosmos),
        "prp+tail" if size < 4096 => expected("piggyback", size, link, cosmos),
        "prp+tail" => {
            let (whole, tail) = (size / 4096, size % 4096);
            let list = if whole > 2 { link.read((whole - 1) * 8) } else { Bytes::default() };
            let data = if cosmos { link.read(4096) * whole } else { link.read(whole * 4096) };
            commands(1 + tail.div_ceil(56)) + list + data
        }
        "hybrid" if size <= 35 => expected("piggyback", size, link, cosmos),
        "hybrid" => expected("inline", size, link, cosmos),
        other => unreachable!("no formula for {other}"),
    }
}

fn device(profile: &str, method: &str, link: Link) -> EmbeddedDevice {
    let (mps, mrrs) = (link.mps, link.mrrs);
    // A ring long enough that none of the puts below meets its end, where a burst is split.
    byway::embedded::open(&format!(
        "ram:64M?profile={profile}&transfer={method}&mps={mps}&mrrs={mrrs}&ring=65536"
    ))
    .unwrap()
}

fn cost_of(device: &EmbeddedDevice, puts: &mut byway::Kv, key: u32, size: u64) -> Bytes {
    let before = device.ledger();
    puts.put(&key.to_le_bytes(), &vec![0x5a; size as usize]).unwrap();
    bytes_of(&device.ledger().since(&before))
}

pub(crate) fn bytes_of(spent: &Ledger) -> Bytes {
    Bytes { payload: spent.payload_bytes(), wire: spent.wire_bytes() }
}

/// Methods that a formula from the table and the habits alone describes.
const METHODS: [&str; 7] = ["prp", "sgl", "piggyback", "piggyback-pt", "prp+tail", "inline", "hybrid"];

fn sizes() -> impl Iterator<Item = u64> {
    (1..=130)
        .chain([255, 256, 257, 511, 512, 513, 1000, 1024, 2047, 2048, 4095, 4096, 4097, 8000, 8191, 8192])
}

fn check(profile: &str, method: &str, link: Link) {
    let device = device(profile, method, link);
    let mut kv = device.kv(None).unwrap();
    for (key, size) in sizes().enumerate() {
        let got = cost_of(&device, &mut kv, key as u32, size);
        assert_eq!(
            got,
            expected(method, size, link, profile == "cosmos"),
            "{profile} {method} {size} {link:?}"
        );
    }
}

/// Offsets of the values of consecutive records in a window.
struct InWindow {
    next: u64,
}

impl InWindow {
    const SEGMENT: u64 = 64 << 10;
    const HEADER: u64 = 20;

    fn value_at(&mut self, key_bytes: u64, size: u64) -> u64 {
        let record = Self::HEADER + key_bytes + size;
        if self.next % Self::SEGMENT + record > Self::SEGMENT {
            self.next = self.next.next_multiple_of(Self::SEGMENT);
        }
        let at = self.next + Self::HEADER + key_bytes;
        self.next += record;
        at
    }
}

fn check_through_device_memory(profile: &str, method: &str, in_command: u64) {
    let link = Link { mps: 256, mrrs: 512 };
    let device = device(profile, method, link);
    let mut kv = device.kv(None).unwrap();
    // Binds the window, by an admin command.
    kv.put(b"0000", b"").unwrap();
    let mut window = InWindow { next: 0 };
    window.value_at(4, 0);
    for (key, size) in sizes().enumerate() {
        let got = cost_of(&device, &mut kv, key as u32, size);
        let skip = in_command.min(size);
        let stored = link.cxl_store(window.value_at(4, size) + skip, size - skip);
        let read_back = if size > skip { link.cxl_load(1) } else { Bytes::default() };
        assert_eq!(got, link.alone() + stored + read_back, "{profile} {method} {size}");
    }
}

#[test]
fn stores_through_device_memory_cost_their_lines_and_one_read_back() {
    for profile in ["cosmos", "gen5x8-cxl"] {
        check_through_device_memory(profile, "cxl", 0);
        check_through_device_memory(profile, "cxl+piggyback", 35);
    }
}

#[test]
fn byte_stores_cross_once_and_the_command_alone_after_them() {
    let link = Link { mps: 256, mrrs: 512 };
    for profile in ["cosmos", "gen4x4"] {
        let device = device(profile, "prp", link);
        let mut kv = device.kv(None).unwrap();
        for size in sizes() {
            let before = device.ledger();
            kv.put_by_bytes(b"key", &vec![7; size as usize]).unwrap();
            let expected = link.alone() + link.byte_store(size) + link.load();
            assert_eq!(bytes_of(&device.ledger().since(&before)), expected, "{profile} {size}");
        }
    }
}

#[test]
fn a_bulk_store_costs_one_command_and_its_payload_by_the_queues_method() {
    let link = Link { mps: 256, mrrs: 512 };
    for (profile, method) in [("cosmos", "prp"), ("gen4x4", "prp"), ("gen4x4", "sgl"), ("gen4x4", "inline")] {
        let device = device(profile, method, link);
        let mut kv = device.kv(None).unwrap();
        for (count, size) in [(1, 1), (10, 35), (100, 32), (7, 1001)] {
            let keys: Vec<Key> = (0..count).map(|n: u32| Key::new(&n.to_le_bytes()).unwrap()).collect();
            let value = vec![3; size];
            let pairs: Vec<(Key, &[u8])> = keys.iter().map(|key| (*key, &value[..])).collect();
            // A count; for each pair 8 bytes of lengths, the key, and the value padded to 4.
            let payload = 4 + u64::from(count) * (8 + 4 + size.next_multiple_of(4) as u64);
            let before = device.ledger();
            kv.put_bulk(&pairs).unwrap();
            let got = bytes_of(&device.ledger().since(&before));
            assert_eq!(
                got,
                expected(method, payload, link, profile == "cosmos"),
                "{profile} {method} {count}"
            );
        }
    }
}

#[test]
fn adaptive_never_crosses_more_bytes_than_a_method_it_could_have_chosen() {
    let link = Link { mps: 256, mrrs: 512 };
    for profile in ["cosmos", "gen4x4", "gen5x8-cxl"] {
        let device = device(profile, "adaptive", link);
        let mut kv = device.kv(None).unwrap();
        for (key, size) in sizes().enumerate() {
            let got = cost_of(&device, &mut kv, key as u32, size);
            for method in ["prp", "sgl", "piggyback", "inline", "prp+tail"] {
                let other = expected(method, size, link, profile == "cosmos");
                assert!(got.wire <= other.wire, "{profile} {size}: {got:?}, by {method} {other:?}");
            }
        }
    }
}

#[test]
fn the_end_of_the_ring_splits_a_fetch_and_nothing_else() {
    for (profile, mps, mrrs) in
        [("gen4x4", 256, 512), ("gen4x4", 128, 4096), ("gen5x4", 512, 256), ("cosmos", 256, 512)]
    {
        let link = Link { mps, mrrs };
        let device = byway::embedded::open(&format!(
            "ram:64M?profile={profile}&transfer=inline&mps={mps}&mrrs={mrrs}&ring=256"
        ));
        let (device, mut slot) = (device.unwrap(), 0);
        let mut kv = device.kv(None).unwrap();
        for (key, size) in sizes().chain((0..200).map(|n| n * 37 % 8000 + 1)).enumerate() {
            let got = cost_of(&device, &mut kv, key as u32, size);
            let (first, chunks) = ((slot + 1) % 256, size.div_ceil(64));
            let here = chunks.min(256 - first);
            let split = link.read(here * 64) + link.read((chunks - here) * 64);
            let data = if profile == "cosmos" { link.read(64) * chunks } else { split };
            assert_eq!(got, link.alone() + data, "{profile} {size} at slot {slot} {link:?}");
            slot = (slot + 1 + chunks) % 256;
        }
    }
}

#[test]
fn every_method_costs_what_the_table_says_at_every_size() {
    for profile in ["cosmos", "gen4x4"] {
        for method in METHODS {
            check(profile, method, Link { mps: 256, mrrs: 512 });
        }
    }
}

#[test]
fn packet_sizes_are_obeyed_exactly() {
    for (mps, mrrs) in
        [(128, 128), (128, 4096), (256, 128), (512, 512), (512, 4096), (4096, 256), (4096, 4096)]
    {
        for profile in ["cosmos", "gen5x4"] {
            for method in METHODS {
                check(profile, method, Link { mps, mrrs });
            }
        }
    }
}

#[test]
fn a_32_byte_put_costs_what_the_design_prints() {
    let link = Link { mps: 256, mrrs: 512 };
    let printed = [
        ("cosmos", "prp", 4184, 4836),
        ("cosmos", "piggyback", 88, 228),
        ("cosmos", "inline", 152, 336),
        ("cosmos", "hybrid", 88, 228),
        ("gen4x4", "sgl", 120, 304),
        ("gen4x4", "prp", 120, 304),
    ];
    for (profile, method, payload, wire) in printed {
        let device = device(profile, method, link);
        let got = cost_of(&device, &mut device.kv(None).unwrap(), 1, 32);
        assert_eq!(got, Bytes { payload, wire }, "{profile} {method}");
    }
}
