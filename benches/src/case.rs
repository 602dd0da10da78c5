//! What is measured: one call of the public API to a device of its own.

use byway::embedded::Device;
use byway::{Key, Kv, Nvm};

/// Keys that puts go round over, so that a device is in the same state however long it is measured.
const KEYS: u32 = 50_000;

/// A call that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// A write of 512 bytes to a namespace of blocks on media that keep nothing.
    Write,
    /// A put of 32 bytes under a 4-byte key, on media in memory.
    Put,
    /// A get of a value of so many bytes.
    Get(usize, Found),
    /// One key of a list of all keys.
    List(Found),
}

/// Where a get finds what it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// The index in RAM, the value in a page that is still open.
    Open,
    /// The index in RAM, the value in a page of an image file.
    Flash,
    /// The index in runs, as after a reopening, the value in a page of an image file.
    Run,
}

/// A call, and how it is made.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// Its name in results.
    pub name: &'static str,
    /// The call.
    pub call: Call,
    /// Transfer method.
    pub transfer: &'static str,
    /// Whether the ledger is on. The clock is always off.
    pub ledger: bool,
}

/// What is measured, everywhere under these names.
pub const CASES: [Case; 14] = [
    Case { name: "nvm-write-512-inline", call: Call::Write, transfer: "inline", ledger: false },
    Case { name: "nvm-write-512-inline-ledger", call: Call::Write, transfer: "inline", ledger: true },
    Case { name: "nvm-write-512-prp", call: Call::Write, transfer: "prp", ledger: false },
    Case { name: "kv-put-32-hybrid", call: Call::Put, transfer: "hybrid", ledger: false },
    Case { name: "kv-put-32-hybrid-ledger", call: Call::Put, transfer: "hybrid", ledger: true },
    Case { name: "kv-put-32-inline", call: Call::Put, transfer: "inline", ledger: false },
    Case { name: "kv-put-32-piggyback", call: Call::Put, transfer: "piggyback", ledger: false },
    Case { name: "kv-put-32-prp", call: Call::Put, transfer: "prp", ledger: false },
    get("kv-get-32-open", 32, Found::Open),
    get("kv-get-32-flash", 32, Found::Flash),
    get("kv-get-32-run", 32, Found::Run),
    get("kv-get-1024-flash", 1024, Found::Flash),
    Case { name: "kv-list-key", call: Call::List(Found::Flash), transfer: "adaptive", ledger: false },
    Case { name: "kv-list-key-run", call: Call::List(Found::Run), transfer: "adaptive", ledger: false },
];

const fn get(name: &'static str, bytes: usize, found: Found) -> Case {
    Case { name, call: Call::Get(bytes, found), transfer: "adaptive", ledger: false }
}

impl Case {
    /// The case of this name.
    ///
    /// # Errors
    /// When there is none.
    pub fn find(name: &str) -> anyhow::Result<Self> {
        let found = CASES.into_iter().find(|case| case.name == name);
        found.ok_or_else(|| anyhow::anyhow!("there is no case {name}"))
    }

    /// Opens a device for it.
    ///
    /// # Errors
    /// What opening says.
    pub fn open(&self) -> anyhow::Result<Caller> {
        let ledger = if self.ledger { "on" } else { "off" };
        let options = format!("transfer={}&ledger={ledger}&flash=off", self.transfer);
        let device = match self.call {
            Call::Write => byway::embedded::open(&format!("null:1G?{options}"))?,
            Call::Put => byway::embedded::open(&format!("ram:1G?{options}"))?,
            Call::Get(bytes, found) => filled(&options, bytes, found)?,
            Call::List(found) => filled(&options, 0, found)?,
        };
        let end = match self.call {
            Call::Write => End::Nvm(device.nvm(None)?),
            Call::Put => End::Put(device.kv(None)?),
            Call::Get(bytes, Found::Open) => End::Get(device.kv(None)?, vec![0; bytes], OPEN_KEYS),
            Call::Get(bytes, _) => End::Get(device.kv(None)?, vec![0; bytes], KEYS),
            Call::List(_) => End::List(device.kv(None)?, None),
        };
        Ok(Caller { end, device, at: 0 })
    }
}

/// Keys whose values of 32 bytes fit in open pages.
const OPEN_KEYS: u32 = 1000;

/// A device on an image file without a name, with all keys in it.
fn filled(options: &str, value_bytes: usize, found: Found) -> anyhow::Result<Device> {
    let image =
        std::env::temp_dir().join(format!("byway-bench-{}-{value_bytes}-{found:?}", std::process::id()));
    byway::create(&image, &byway::CreateOptions::new(1 << 30))?;
    let uri = format!("embedded:{}?{options}", image.display());
    let mut device = byway::embedded::open(&uri)?;
    let keys = if found == Found::Open { OPEN_KEYS } else { KEYS };
    let mut kv = device.kv(None)?;
    (0..keys).try_for_each(|n| kv.put(&key(n), &vec![n as u8; value_bytes]))?;
    drop(kv);
    if found == Found::Run {
        drop(device);
        device = byway::embedded::open(&uri)?;
    }
    // The device keeps what it has opened.
    std::fs::remove_file(image)?;
    Ok(device)
}

/// Somebody who makes the call over and over.
pub struct Caller {
    end: End,
    device: Device,
    at: u32,
}

enum End {
    Nvm(Nvm),
    Put(Kv),
    Get(Kv, Vec<u8>, u32),
    /// With the key that the next list begins at.
    List(Kv, Option<Key>),
}

impl Caller {
    /// The device that is called.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Makes so many calls.
    ///
    /// # Errors
    /// What the device says.
    pub fn call(&mut self, count: u32) -> byway::Result<()> {
        let calls = self.at..self.at.wrapping_add(count);
        self.at = calls.end % KEYS;
        match &mut self.end {
            End::Nvm(nvm) => write(nvm, calls),
            End::Put(kv) => put(kv, calls),
            End::Get(kv, into, keys) => get_all(kv, into, *keys, calls),
            End::List(kv, start) => list(kv, start, count),
        }
    }

    /// Makes every call that leaves a device in another state than it was made in.
    ///
    /// # Errors
    /// What the device says.
    pub fn warm_up(&mut self) -> byway::Result<()> {
        self.call(KEYS)
    }
}

/// Never inlined: what is counted and profiled begins here.
#[inline(never)]
fn write(nvm: &mut Nvm, mut calls: std::ops::Range<u32>) -> byway::Result<()> {
    calls.try_for_each(|n| nvm.write(u64::from(n % 1000), &[0x5a; 512]))
}

#[inline(never)]
fn put(kv: &mut Kv, mut calls: std::ops::Range<u32>) -> byway::Result<()> {
    calls.try_for_each(|n| kv.put(&key(n), &[7; 32]))
}

#[inline(never)]
fn get_all(kv: &mut Kv, into: &mut [u8], keys: u32, mut calls: std::ops::Range<u32>) -> byway::Result<()> {
    calls.try_for_each(|n| kv.get_into(&key(n % keys), into).map(drop))
}

/// Lists so many keys from where the last list ended, and from the first again after the last.
#[inline(never)]
fn list(kv: &mut Kv, start: &mut Option<Key>, count: u32) -> byway::Result<()> {
    let mut left = count;
    while left > 0 {
        for key in kv.keys(*start).take(left as usize) {
            *start = Some(key?);
            left -= 1;
        }
        if left > 0 {
            *start = None;
        }
    }
    Ok(())
}

/// Keys in no order.
fn key(n: u32) -> [u8; 4] {
    (n % KEYS).wrapping_mul(0x9e37_79b9).to_le_bytes()
}
