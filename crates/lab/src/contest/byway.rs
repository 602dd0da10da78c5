//! Byway: the embedded device on an image file, every call over its whole NVMe path.

use std::path::Path;

use ::byway::embedded::EmbeddedDevice;
use ::byway::uri::{of_image, with_options};
use ::byway::{
    BackendQueue, Batch, Buffer, Command, CreateOptions, Finished, KeyRange, Kv, KvCommand, Outcome, Payload,
    ScanOptions, SmallBytes, StoreOptions,
};
use anyhow::{Context, Result};

use super::key::{Key, behind};
use super::store::{Opening, Session, Store};

/// Commands outstanding at once, where many are.
const DEPTH: usize = 32;
/// A retrieve asks for at least so much: a page, which the driver has ready.
const VALUE_BUFFER_BYTES: usize = 4096;
/// Bytes a key takes in a List answer: its length, itself, padding to 4.
const LISTED_KEY_BYTES: usize = 20;
/// Most keys that one List is asked for.
const LISTED_KEYS: usize = 3200;
/// What a record may take beside its key and value.
const RECORD_ROOM_BYTES: u64 = 128;
/// Room for the device's own state and for what is overwritten.
const SPARE_BYTES: u64 = 512 << 20;

struct Embedded {
    device: EmbeddedDevice,
    value_bytes: usize,
}

/// Opens, or makes, the image of a folder.
pub fn open(folder: &Path, opening: &Opening) -> Result<Box<dyn Store>> {
    let image = folder.join("byway.img");
    if !image.exists() {
        let record_bytes = u64::from(opening.record_bytes) + RECORD_ROOM_BYTES;
        let size_bytes = SPARE_BYTES + 2 * opening.keys * record_bytes;
        byway::create(of_image(&image), &CreateOptions::new(size_bytes))?;
    }
    let (options, guarantee) = (&opening.options, opening.guarantee.name());
    let uri = with_options(&of_image(image), &format!("flush={guarantee}&{options}"));
    let device = byway::embedded::open(&uri)?;
    Ok(Box::new(Embedded { device, value_bytes: (opening.value_bytes as usize).max(VALUE_BUFFER_BYTES) }))
}

impl Store for Embedded {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        let buffer = |_| self.device.driver().buffer(self.value_bytes);
        Ok(Box::new(Client {
            kv: self.device.kv(None)?,
            value: vec![0; self.value_bytes],
            listing: Some(self.device.driver().buffer(LISTED_KEYS * LISTED_KEY_BYTES + 4)?),
            batch: Batch::new(),
            free: (0..DEPTH).map(buffer).collect::<byway::Result<_>>()?,
        }))
    }
}

struct Client {
    kv: Kv,
    value: Vec<u8>,
    listing: Option<Buffer>,
    free: Vec<Buffer>,
    batch: Batch,
}

impl Session for Client {
    fn put(&mut self, key: &Key, value: &[u8]) -> Result<()> {
        Ok(self.kv.put(key, value)?)
    }

    fn get(&mut self, key: &Key, see: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let Some(len) = self.kv.get_into(key, &mut self.value)? else { return Ok(false) };
        see(self.value.get(..len).context("a value of more bytes than the bench has")?);
        Ok(true)
    }

    fn get_together(&mut self, keys: &[Key], see: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let keys = keys.iter().map(|key| byway::Key::new(key)).collect::<Result<Vec<_>, _>>()?;
        let mut all = true;
        self.kv.get_many(&keys, self.value.len(), |_, value| match value {
            Some(value) => see(value),
            None => all = false,
        })?;
        Ok(all)
    }

    fn keys(&mut self, from: &Key, limit: u64, see: &mut dyn FnMut(&[u8])) -> Result<u64> {
        let (mut from, mut seen) = (*from, 0);
        while seen < limit {
            let asked = (limit - seen).min(LISTED_KEYS as u64);
            let page = self.list(&from, asked as usize)?;
            let (mut last, before) = (from, seen);
            for key in keys_of(page.as_slice())? {
                see(key);
                last = *key;
                seen += 1;
            }
            self.listing = Some(page);
            if seen - before < asked {
                break;
            }
            from = behind(&last);
        }
        Ok(seen)
    }

    fn pairs(&mut self, from: &Key, limit: u64, see: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64> {
        let options = ScanOptions::default().limit(Some(limit));
        let mut scan = self.kv.scan_with(KeyRange::new(&from[..]..)?, options);
        let mut seen = 0;
        while let Some((key, value)) = scan.next_pair()? {
            see(key, value);
            seen += 1;
        }
        Ok(seen)
    }

    fn put_batch(&mut self, pairs: &[(Key, &[u8])]) -> Result<()> {
        self.batch.clear();
        pairs.iter().try_for_each(|(key, value)| self.batch.put(key, value))?;
        Ok(self.kv.commit(&self.batch)?)
    }

    fn put_together(&mut self, pairs: &[(Key, &[u8])]) -> Result<()> {
        for window in pairs.chunks(DEPTH) {
            for (key, value) in window {
                let command = self.store(key, value)?;
                self.kv.queue().submit(command, 0).map_err(byway::Error::from)?;
            }
            let Self { kv, free, .. } = self;
            finish(kv, |_, outcome| {
                free.extend(outcome.buffer);
                Ok(())
            })?;
        }
        Ok(())
    }
}

impl Client {
    fn store(&mut self, key: &Key, value: &[u8]) -> Result<Command> {
        let value = match SmallBytes::new(value) {
            Some(small) => Payload::Small(small),
            None => {
                let mut buffer = self.free.pop().context("a window of more commands than buffers")?;
                buffer.set_len(value.len());
                buffer.as_mut_slice().copy_from_slice(value);
                buffer.into()
            }
        };
        let key = byway::Key::new(key)?;
        Ok(KvCommand::Store { nsid: self.kv.nsid(), key, value, options: StoreOptions::NONE }.into())
    }

    /// One page of keys, from `from` on, in the buffer for it.
    fn list(&mut self, from: &Key, count: usize) -> Result<Buffer> {
        let mut into = self.listing.take().context("a listing was given up")?;
        into.set_len(4 + count * LISTED_KEY_BYTES);
        let start = Some(byway::Key::new(from)?);
        let command = KvCommand::List { nsid: self.kv.nsid(), start, into };
        self.kv.queue().execute(command.into())?.buffer.context("list gave no buffer back")
    }
}

/// Waits for all that is outstanding; `on` takes each outcome.
fn finish(kv: &mut Kv, mut on: impl FnMut(u64, Outcome) -> Result<()>) -> Result<()> {
    let (mut refused, mut failed) = (None, None);
    kv.queue().drain(&mut |Finished { tag, result }| match result {
        Ok(outcome) => failed = failed.take().or(on(tag, outcome).err()),
        Err(one) => refused = refused.take().or(Some(one.error)),
    })?;
    let refused = refused.map(|error| kv.queue().explained(error).into());
    refused.or(failed).map_or(Ok(()), Err)
}

/// The keys of a List answer: a count, then each key's length and bytes, padded to 4.
fn keys_of(bytes: &[u8]) -> Result<impl Iterator<Item = &Key>> {
    let (count, entries) = bytes.split_first_chunk::<4>().context("a listing without its count")?;
    let (entries, _) = entries.as_chunks::<LISTED_KEY_BYTES>();
    let listed = entries.iter().take(u32::from_le_bytes(*count) as usize);
    Ok(listed.filter_map(|entry| entry.get(2..18)?.try_into().ok()))
}
