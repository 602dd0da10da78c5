//! All that an image says of its content, read without changing a byte of it.

use std::path::Path;

use byway_flash::{Cause, Flash, NamespaceKind, NamespaceRecord, OpenOptions, UNIT_BYTES};
use byway_kv::{Key, KvEngine, KvError, KvOptions};

use crate::content::{BLOCK_BYTES, Slot, key_of};

const BLOCKS_OF_A_UNIT: u32 = (UNIT_BYTES / BLOCK_BYTES) as u32;

/// What a slot says: what it holds, if anything, or why it cannot be read.
pub type Said = Result<Option<Vec<u8>>, String>;

/// What an image says.
#[derive(Debug)]
pub struct Reading {
    /// Of each slot that was asked for.
    pub slots: Vec<(Slot, Said)>,
    /// Keys in the order that they are listed in.
    pub listed: Result<Vec<Vec<u8>>, String>,
    /// Stretches of logs that could not be read at the opening.
    pub damage: usize,
    /// What the check of the flash finds.
    pub findings: Vec<String>,
}

/// Reads keys number `0..keys` and logical blocks `0..blocks` of an image.
///
/// # Errors
/// Why the image, or a namespace of it, is refused.
pub fn read(image: &Path, keys: u16, blocks: u32) -> Result<Reading, String> {
    let mut flash = Flash::open(image, OpenOptions::default().read_only(true).timing(false))
        .map_err(|e| e.to_string())?;
    let mut reading = Reading { slots: Vec::new(), listed: Ok(Vec::new()), damage: 0, findings: Vec::new() };
    let records: Vec<NamespaceRecord> = flash.namespaces().cloned().collect();
    for record in records {
        match record.kind {
            NamespaceKind::Kv => reading.take_pairs(&mut flash, &record, keys)?,
            NamespaceKind::Nvm { .. } => reading.take_blocks(&mut flash, &record, blocks),
        }
    }
    reading.findings = flash.check().iter().map(ToString::to_string).collect();
    Ok(reading)
}

impl Reading {
    fn take_pairs(&mut self, flash: &mut Flash, record: &NamespaceRecord, keys: u16) -> Result<(), String> {
        let opened = KvEngine::open(flash, record, KvOptions::default());
        let (mut engine, recovery) = opened.map_err(|error| error.to_string())?;
        self.damage += recovery.damage.len();
        for number in 0..keys {
            self.slots.push((Slot::Pair(number), value(&mut engine, flash, number)));
        }
        let mut listed = Vec::new();
        let each = |key: &Key, _| {
            listed.push(key.as_bytes().to_vec());
            true
        };
        let whole = engine.list(flash, b"", each, &mut 0);
        self.listed = whole.map(|_| listed).map_err(|error| error.to_string());
        Ok(())
    }

    fn take_blocks(&mut self, flash: &mut Flash, record: &NamespaceRecord, blocks: u32) {
        let mut unit = [0; UNIT_BYTES];
        for first in (0..blocks).step_by(BLOCKS_OF_A_UNIT as usize) {
            let at_bytes = u64::from(first) * BLOCK_BYTES as u64;
            let read = flash.read(record.extent, at_bytes, &mut unit, Cause::Host, &mut 0);
            let read = read.map_err(|error| error.to_string());
            for (lba, block) in (first..).zip(unit.chunks_exact(BLOCK_BYTES)) {
                let holds = block.iter().any(|byte| *byte != 0);
                let said = read.clone().map(|()| holds.then(|| block.to_vec()));
                self.slots.push((Slot::Block(lba), said));
            }
        }
    }
}

fn value(engine: &mut KvEngine, flash: &mut Flash, number: u16) -> Said {
    let key = Key::new(&key_of(number)).map_err(|error| error.to_string())?;
    let mut value = Vec::new();
    let into = |piece: &[u8], _: &mut u64| {
        value.extend_from_slice(piece);
        Ok::<(), KvError>(())
    };
    match engine.get(flash, &key, 0, u64::MAX, into, &mut 0) {
        Ok(_) => Ok(Some(value)),
        Err(KvError::NotFound) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}
