//! Several threads that store to one device until they are killed, and what they must leave.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use byway::{BackendQueue, Batch, Kv, NvmCommand};
use byway_kit::{Random, tagged};

/// Threads that store at the same time.
pub const WRITERS: u32 = 4;
/// Keys of each of them.
pub(crate) const KEYS: u32 = 200;
/// Further keys of each of them that one batch stores and deletes. They share a version.
const BATCH_KEYS: u32 = 12;
/// Number of that version, behind those of single keys.
const BATCH_VERSION: u32 = KEYS;
/// Every so many stores a writer commits a batch.
const BATCH_EVERY: u64 = 16;
/// Every so many versions of a key delete it.
const DELETED_EVERY: u64 = 11;
/// Every so many stores a writer lists or flushes, which needs the device for itself.
const INTERRUPTED_EVERY: u64 = 500;

/// The version that each key was last begun to be stored with, and last acknowledged with, in a file that outlives the writers.
#[derive(Debug)]
pub struct Versions(File);

impl Versions {
    /// The versions in a file, all 0 if it is new.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(path: &Path) -> Result<Self, String> {
        let open = File::options().read(true).write(true).create(true).truncate(false).open(path);
        let file = open.and_then(|file| file.set_len(u64::from(WRITERS * (KEYS + 1)) * 16).map(|()| file));
        file.map(Self).map_err(|error| error.to_string())
    }

    pub(crate) fn place(writer: u32, key: u32) -> u64 {
        u64::from(writer * (KEYS + 1) + key) * 16
    }

    pub(crate) fn word(&self, at: u64) -> Result<u64, String> {
        let mut bytes = [0; 8];
        self.0.read_exact_at(&mut bytes, at).map_err(|error| error.to_string())?;
        Ok(u64::from_le_bytes(bytes))
    }

    pub(crate) fn set(&self, at: u64, version: u64) -> Result<(), String> {
        self.0.write_all_at(&version.to_le_bytes(), at).map_err(|error| error.to_string())
    }
}

fn key(writer: u32, key: u32) -> Vec<u8> {
    [writer.to_be_bytes(), key.to_be_bytes()].concat()
}

/// What a version stores; `None` where it deletes.
fn value(writer: u32, key: u32, version: u64) -> Option<Vec<u8>> {
    let len = 30 + (version as usize * 37 + key as usize) % 400;
    (version > 0 && !version.is_multiple_of(DELETED_EVERY))
        .then(|| tagged(version, (writer * KEYS + key).into(), len))
}

/// Stores by several threads to the device of a URI, without end; `on_open` is called when they begin.
///
/// # Errors
/// What the device or the system says.
pub fn store(uri: &str, versions: &Path, on_open: impl FnOnce()) -> Result<(), String> {
    let versions = Versions::open(versions)?;
    let device = byway::embedded::open(uri).map_err(|error| error.to_string())?;
    on_open();
    std::thread::scope(|scope| {
        let (device, versions) = (&device, &versions);
        let writers: Vec<_> =
            (0..WRITERS).map(|writer| scope.spawn(move || store_one(device, versions, writer))).collect();
        writers
            .into_iter()
            .try_for_each(|writer| writer.join().map_err(|_| "a writer panicked".to_owned())?)
    })
}

fn store_one(
    device: &byway::embedded::EmbeddedDevice,
    versions: &Versions,
    writer: u32,
) -> Result<(), String> {
    let said = |error: byway::Error| error.to_string();
    let mut kv = device.kv(None).map_err(said)?;
    let mut random = Random::new(versions.word(Versions::place(writer, 0))? ^ u64::from(writer) << 40);
    for step in 1.. {
        let number = random.below(KEYS.into()) as u32;
        let at = Versions::place(writer, number);
        let version = versions.word(at)? + 1;
        versions.set(at, version)?;
        match value(writer, number, version) {
            Some(value) => kv.put(&key(writer, number), &value).map_err(said)?,
            None => drop(kv.delete(&key(writer, number)).map_err(said)?),
        }
        versions.set(at + 8, version)?;
        if step % BATCH_EVERY == 0 {
            commit_batch(&mut kv, versions, writer)?;
        }
        match step % INTERRUPTED_EVERY {
            0 if writer == 0 => drop(kv.keys(None).take(20).count()),
            0 if writer == 1 => flush(&mut kv).map_err(said)?,
            _ => {}
        }
    }
    Ok(())
}

/// The keys that a batch stores or deletes, and their values of a version. Which are deleted changes with each.
fn batch_of(writer: u32, version: u64) -> impl Iterator<Item = (Vec<u8>, Option<Vec<u8>>)> {
    (KEYS..KEYS + BATCH_KEYS).map(move |number| {
        let is_there = version > 0 && !(version + u64::from(number)).is_multiple_of(4);
        let len = 20 + (version as usize * 41 + number as usize * 7) % 80;
        let value = is_there.then(|| tagged(version, (writer * KEYS + number).into(), len));
        (key(writer, number), value)
    })
}

fn commit_batch(kv: &mut Kv, versions: &Versions, writer: u32) -> Result<(), String> {
    let said = |error: byway::Error| error.to_string();
    let at = Versions::place(writer, BATCH_VERSION);
    let version = versions.word(at)? + 1;
    let mut batch = Batch::new();
    for (key, value) in batch_of(writer, version) {
        match value {
            Some(value) => batch.put(&key, &value),
            None => batch.delete(&key),
        }
        .map_err(said)?;
    }
    versions.set(at, version)?;
    kv.commit(&batch).map_err(said)?;
    versions.set(at + 8, version)
}

/// Checks that all keys of a writer's batches are as one of those that may be the last left them.
fn verify_batch(kv: &mut Kv, versions: &Versions, writer: u32) -> Result<(), String> {
    let at = Versions::place(writer, BATCH_VERSION);
    let (begun, done) = (versions.word(at)?, versions.word(at + 8)?);
    let found = batch_of(writer, 1).map(|(key, _)| kv.get(&key)).collect::<byway::Result<Vec<_>>>();
    let found = found.map_err(|error| error.to_string())?;
    let is_version = |version| batch_of(writer, version).map(|(_, value)| value).eq(found.iter().cloned());
    let says = || format!("the keys of writer {writer} match none of its batches {done} to {begun}");
    if (done..=begun).any(is_version) { Ok(()) } else { Err(says()) }
}

fn flush(kv: &mut Kv) -> byway::Result<()> {
    let nsid = kv.nsid();
    kv.queue().execute(NvmCommand::Flush { nsid }.into()).map(drop)
}

/// Opens what is left, and compares each key with the versions. How many versions were acknowledged.
///
/// # Errors
/// What is lost, torn, or older than what was acknowledged; what the device says.
pub fn verify(uri: &str, versions: &Path) -> Result<u64, String> {
    let versions = Versions::open(versions)?;
    let said = |error: byway::Error| error.to_string();
    let mut kv = byway::open(uri).and_then(|device| device.kv(None)).map_err(said)?;
    let mut acknowledged = 0;
    (0..WRITERS).try_for_each(|writer| verify_batch(&mut kv, &versions, writer))?;
    for (writer, number) in (0..WRITERS).flat_map(|writer| (0..KEYS).map(move |key| (writer, key))) {
        let at = Versions::place(writer, number);
        let (begun, done) = (versions.word(at)?, versions.word(at + 8)?);
        let found = kv.get(&key(writer, number)).map_err(said)?;
        if !(done..=begun).any(|version| value(writer, number, version) == found) {
            return Err(format!(
                "key {number} of writer {writer} has none of the versions {done} to {begun}"
            ));
        }
        acknowledged += done;
    }
    Ok(acknowledged)
}
