//! What is measured: one call of the public API to a device of its own.

use byway::{Device, Kv, Nvm};

/// Keys that puts go round over, so that a device is in the same state however long it is measured.
const KEYS: u32 = 50_000;

/// A call that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// A write of 512 bytes to a namespace of blocks on media that keep nothing.
    Write,
    /// A put of 32 bytes under a 4-byte key, on media in memory.
    Put,
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
pub const CASES: [Case; 8] = [
    Case { name: "nvm-write-512-inline", call: Call::Write, transfer: "inline", ledger: false },
    Case { name: "nvm-write-512-inline-ledger", call: Call::Write, transfer: "inline", ledger: true },
    Case { name: "nvm-write-512-prp", call: Call::Write, transfer: "prp", ledger: false },
    Case { name: "kv-put-32-hybrid", call: Call::Put, transfer: "hybrid", ledger: false },
    Case { name: "kv-put-32-hybrid-ledger", call: Call::Put, transfer: "hybrid", ledger: true },
    Case { name: "kv-put-32-inline", call: Call::Put, transfer: "inline", ledger: false },
    Case { name: "kv-put-32-piggyback", call: Call::Put, transfer: "piggyback", ledger: false },
    Case { name: "kv-put-32-prp", call: Call::Put, transfer: "prp", ledger: false },
];

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
        let media = if self.call == Call::Write { "null" } else { "ram" };
        let ledger = if self.ledger { "on" } else { "off" };
        let device =
            byway::open(&format!("{media}:1G?transfer={}&ledger={ledger}&flash=off", self.transfer))?;
        let end = match self.call {
            Call::Write => End::Nvm(device.nvm(None)?),
            Call::Put => End::Kv(device.kv(None)?),
        };
        Ok(Caller { end, device, at: 0 })
    }
}

/// Somebody who makes the call over and over.
pub struct Caller {
    end: End,
    device: Device,
    at: u32,
}

enum End {
    Nvm(Nvm),
    Kv(Kv),
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
            End::Kv(kv) => put(kv, calls),
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
    calls.try_for_each(|n| kv.put(&(n % KEYS).wrapping_mul(0x9e37_79b9).to_le_bytes(), &[7; 32]))
}
