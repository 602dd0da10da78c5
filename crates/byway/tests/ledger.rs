//! The ledger against the table of the design, reckoned here a second time: to the byte, for every method, size,
//! MPS and MRRS. The formulas below are written from the table's words and share no code with the device.
#![allow(clippy::unwrap_used)]

use byway::{Device, Ledger};

/// Bytes on the link: what the papers counted, and with packet overhead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Bytes {
    payload: u64,
    wire: u64,
}

impl std::ops::Add for Bytes {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { payload: self.payload + other.payload, wire: self.wire + other.wire }
    }
}

impl std::ops::Mul<u64> for Bytes {
    type Output = Self;
    fn mul(self, n: u64) -> Self {
        Self { payload: self.payload * n, wire: self.wire * n }
    }
}

#[derive(Debug, Clone, Copy)]
struct Link {
    mps: u64,
    mrrs: u64,
}

impl Link {
    /// 24 per request of at most MRRS; 20 + data per completion of at most min(MPS, MRRS), split within each request;
    /// data rounds up to 4 bytes.
    fn read(self, n: u64) -> Bytes {
        let mut wire = 0;
        let mut left = n;
        while left > 0 {
            let mut request = left.min(self.mrrs);
            left -= request;
            wire += 24;
            while request > 0 {
                let completion = request.min(self.mps.min(self.mrrs));
                request -= completion;
                wire += 20 + completion.next_multiple_of(4);
            }
        }
        Bytes { payload: n, wire }
    }

    fn doorbells(self) -> Bytes {
        Bytes { payload: 8, wire: 56 }
    }

    fn completion(self) -> Bytes {
        Bytes { payload: 16, wire: 40 }
    }

    /// Counted apart in payload, with the rest in wire bytes.
    fn interrupt(self) -> Bytes {
        Bytes { payload: 0, wire: 24 }
    }

    fn command(self) -> Bytes {
        Bytes { payload: 64, wire: 24 + 84 }
    }

    /// One command with its doorbells, completion and interrupt.
    fn alone(self) -> Bytes {
        self.doorbells() + self.command() + self.completion() + self.interrupt()
    }

    /// `n` commands rung once, with one interrupt.
    fn together(self, n: u64) -> Bytes {
        self.doorbells() + (self.command() + self.completion()) * n + self.interrupt()
    }
}

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
        "hybrid" if size <= 35 => expected("piggyback", size, link, cosmos),
        "hybrid" => expected("inline", size, link, cosmos),
        other => unreachable!("no formula for {other}"),
    }
}

fn device(profile: &str, method: &str, link: Link) -> Device {
    let (mps, mrrs) = (link.mps, link.mrrs);
    // A ring long enough that none of the puts below meets its end, where a burst is split.
    byway::open(&format!("ram:64M?profile={profile}&transfer={method}&mps={mps}&mrrs={mrrs}&ring=65536"))
        .unwrap()
}

fn cost_of(device: &Device, puts: &mut byway::Kv, key: u32, size: u64) -> Bytes {
    let before = device.ledger();
    puts.put(&key.to_le_bytes(), &vec![0x5a; size as usize]).unwrap();
    let spent: Ledger = device.ledger().since(&before);
    Bytes { payload: spent.payload_bytes(), wire: spent.wire_bytes() }
}

fn sizes() -> impl Iterator<Item = u64> {
    (1..=130).chain([255, 256, 257, 511, 512, 513, 1000, 1024, 2047, 2048, 4095, 4096, 4097, 8000, 8192])
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

#[test]
fn every_method_costs_what_the_table_says_at_every_size() {
    for profile in ["cosmos", "gen4x4"] {
        for method in ["prp", "sgl", "piggyback", "inline", "hybrid"] {
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
            check(profile, "prp", Link { mps, mrrs });
            check(profile, "inline", Link { mps, mrrs });
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
