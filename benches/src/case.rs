//! What is measured: one call of the public API to a device of its own.

use byway::{Backend, BackendQueue, Buffer, Device, Key, Kv, Nsid, Nvm, NvmCommand, Queue, embedded};

/// Keys that puts go round over, so that a device is in the same state however long it is measured.
const KEYS: u32 = 50_000;

/// Commands that queued cases have on their way at once.
const BATCH: u32 = 32;

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
    /// One of 32 gets of 32 bytes that are one command, Retrieve Many.
    GetMany,
    /// One of 32 gets of 32 bytes that are a command each and cross a queue together.
    GetEach,
    /// One of 32 reads of a block that cross a queue together, on media that keep nothing.
    ReadMany,
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
pub const CASES: [Case; 17] = [
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
    Case { name: "kv-get-many-32", call: Call::GetMany, transfer: "adaptive", ledger: false },
    Case { name: "kv-get-each-32", call: Call::GetEach, transfer: "adaptive", ledger: false },
    Case { name: "nvm-read-qd32", call: Call::ReadMany, transfer: "prp", ledger: false },
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
        // Opened by URI, as programs do: what a queue of that type loses of its own calls shows here.
        let device = match self.call {
            Call::Write | Call::ReadMany => byway::open(&format!("null:1G?{options}"))?,
            Call::Put => byway::open(&format!("ram:1G?{options}"))?,
            Call::Get(bytes, found) => filled(&options, bytes, found)?,
            Call::GetMany | Call::GetEach => filled(&options, 32, Found::Open)?,
            Call::List(found) => filled(&options, 0, found)?,
        };
        let end = match self.call {
            Call::Write => End::Nvm(device.nvm(None)?),
            Call::Put => End::Put(device.kv(None)?),
            Call::Get(bytes, Found::Open) => End::Get(device.kv(None)?, vec![0; bytes], OPEN_KEYS),
            Call::Get(bytes, _) => End::Get(device.kv(None)?, vec![0; bytes], KEYS),
            Call::List(_) => End::List(device.kv(None)?, None),
            Call::GetMany => End::GetMany(device.kv(None)?, (0..OPEN_KEYS).map(key_of).collect()),
            Call::GetEach => {
                let mut can = device.capabilities().clone();
                can.kv = can.kv.without_retrieve_many();
                let kv = device.kv(None)?.with_capabilities(&can);
                End::GetMany(kv, (0..OPEN_KEYS).map(key_of).collect())
            }
            Call::ReadMany => {
                let nsid = device.nvm_namespace(None)?.nsid;
                let rooms: byway::Result<Vec<Buffer>> = (0..BATCH).map(|_| device.buffer(512)).collect();
                End::ReadMany(device.default_queue()?, nsid, rooms?)
            }
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
    let mut device = byway::open(&uri)?;
    let keys = if found == Found::Open { OPEN_KEYS } else { KEYS };
    let mut kv = device.kv(None)?;
    (0..keys).try_for_each(|n| kv.put(&key(n), &vec![n as u8; value_bytes]))?;
    drop(kv);
    if found == Found::Run {
        drop(device);
        device = byway::open(&uri)?;
    }
    // The device keeps what it has opened.
    std::fs::remove_file(image)?;
    Ok(device)
}

/// Makes the call over and over.
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
    /// With all keys.
    GetMany(Kv, Vec<Key>),
    /// With as many buffers as commands go together.
    ReadMany(Queue, Nsid, Vec<Buffer>),
}

impl Caller {
    /// The device that is called.
    pub fn device(&self) -> &embedded::EmbeddedDevice {
        self.device.as_embedded().unwrap_or_else(|| unreachable!("every case is in this process"))
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
            End::GetMany(kv, keys) => get_many(kv, keys, count),
            End::ReadMany(queue, nsid, rooms) => read_many(queue, *nsid, rooms, count),
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

/// So many gets, by batches: a count that is no whole number of them is rounded up.
#[inline(never)]
fn get_many(kv: &mut Kv, keys: &[Key], count: u32) -> byway::Result<()> {
    let mut batches = keys.chunks_exact(BATCH as usize).cycle();
    let mut some = (0..count.div_ceil(BATCH)).filter_map(|_| batches.next());
    some.try_for_each(|keys| kv.get_many(keys, 32, |_, value| assert!(value.is_some())))
}

/// So many reads, by batches, rounded up.
#[inline(never)]
fn read_many(queue: &mut Queue, nsid: Nsid, rooms: &mut Vec<Buffer>, count: u32) -> byway::Result<()> {
    for batch in 0..count.div_ceil(BATCH) {
        let slbas = u64::from(batch * BATCH)..;
        let read = |(slba, into)| (NvmCommand::Read { nsid, slba, blocks: 1, into }.into(), slba);
        queue.submit_all(&mut slbas.zip(rooms.drain(..)).map(read))?;
        queue.drain(&mut |finished| {
            rooms.extend(finished.result.ok().and_then(|outcome| outcome.buffer));
        })?;
        assert_eq!(rooms.len(), BATCH as usize, "a read failed");
    }
    Ok(())
}

fn key_of(n: u32) -> Key {
    Key::new(&key(n)).unwrap_or_else(|_| unreachable!("four bytes are a key"))
}

/// Keys in no order.
fn key(n: u32) -> [u8; 4] {
    (n % KEYS).wrapping_mul(0x9e37_79b9).to_le_bytes()
}
