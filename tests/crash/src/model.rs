//! What an image may hold: for each slot what it has for certain, and what was on its way there.

use std::collections::BTreeMap;

use byway::embedded::EmbeddedDevice;
use byway::{Key, Kv, Nvm};

use crate::content::{BLOCK_BYTES, Slot, block_of, key_of, value_of};
use crate::journal::StepState;
use crate::reading::Reading;
use crate::workload::{Op, Workload};

/// Blocks read by one command.
const READ_BLOCKS: u32 = 256;

/// The step whose content a slot has; `None` if it is empty.
type Holds = Option<u64>;

/// A map beside the device.
#[derive(Debug, Clone)]
pub struct Model {
    workload: Workload,
    seed: u64,
    certain: BTreeMap<Slot, u64>,
    /// What slots may hold instead, the oldest first.
    under_way: BTreeMap<Slot, Vec<Holds>>,
    /// Whether a format of the pairs was under way: then all of them are gone, or none.
    formatting_pairs: bool,
}

impl Model {
    /// The model of a new image.
    #[must_use]
    pub fn new(workload: Workload, seed: u64) -> Self {
        Self { workload, seed, certain: BTreeMap::new(), under_way: BTreeMap::new(), formatting_pairs: false }
    }

    /// Applies what a writer recorded of a step. Steps come in their order.
    pub fn apply(&mut self, step: u64, state: StepState) {
        let op = self.workload.op(self.seed, step);
        // What was refused for want of room changed nothing, but a command of many parts may have done the first.
        let of_one_part = matches!(op, Op::Put { .. } | Op::Delete { .. });
        match state {
            StepState::Done => self.settle(op, step),
            StepState::Refused if of_one_part => {}
            StepState::Begun | StepState::Refused => self.begin(op, step),
        }
    }

    /// Applies that an op was begun; it is unknown how far it came.
    pub fn begin(&mut self, op: Op, step: u64) {
        self.formatting_pairs |= matches!(op, Op::FormatPairs);
        for (slot, holds) in self.workload.effects(op) {
            self.under_way.entry(slot).or_default().push(holds.then_some(step));
        }
    }

    fn settle(&mut self, op: Op, step: u64) {
        for (slot, holds) in self.workload.effects(op) {
            // A queue executes its commands in their order: what was begun before is older.
            self.under_way.remove(&slot);
            self.set(slot, holds.then_some(step));
        }
    }

    fn set(&mut self, slot: Slot, holds: Holds) {
        match holds {
            Some(step) => _ = self.certain.insert(slot, step),
            None => _ = self.certain.remove(&slot),
        }
    }

    fn content(&self, slot: Slot, step: u64) -> Vec<u8> {
        match slot {
            Slot::Pair(key) => value_of(step, key, self.workload.len(self.seed, step, key) as usize),
            Slot::Block(lba) => block_of(step, lba),
        }
    }

    /// Compares all that a device holds, and takes it for certain from then on.
    ///
    /// # Errors
    /// The first thing that is not as it must be, in one sentence.
    pub fn check(&mut self, device: &EmbeddedDevice) -> Result<(), String> {
        let failed = |error: byway::Error| format!("no queue can be had: {error}");
        self.check_pairs(&mut device.kv(None).map_err(failed)?)?;
        self.check_blocks(&mut device.nvm(None).map_err(failed)?)?;
        self.under_way.clear();
        self.formatting_pairs = false;
        Ok(())
    }

    /// As [`Model::check`], of all that an image says without being changed.
    ///
    /// # Errors
    /// As there.
    pub fn check_reading(&mut self, reading: &Reading) -> Result<(), String> {
        let (before, mut present) = (self.pairs(), 0);
        for (slot, said) in &reading.slots {
            let found = said.as_ref().map_err(|said| format!("{slot:?} cannot be read: {said}"))?;
            present += usize::from(found.is_some() && matches!(slot, Slot::Pair(_)));
            self.check_slot(*slot, found.as_deref())?;
        }
        if self.formatting_pairs && present > 0 && self.pairs() != before {
            return Err(format!("a format took {} pairs of {before}", before - self.pairs()));
        }
        let listed = reading.listed.as_ref().map_err(|said| format!("the keys cannot be listed: {said}"))?;
        if listed.len() != present || !listed.is_sorted() {
            return Err(format!("{} keys are listed, {present} can be read", listed.len()));
        }
        match (reading.damage, reading.findings.first()) {
            (0, None) => Ok(()),
            (damage, found) => Err(format!("{damage} stretches of logs are damaged; {found:?}")),
        }
    }

    fn check_pairs(&mut self, kv: &mut Kv) -> Result<(), String> {
        let before = self.pairs();
        let mut present = Vec::new();
        for key in 0..self.workload.keys() {
            let name = key_of(key);
            let found = kv.get(&name).map_err(|error| format!("key {key} cannot be read: {error}"))?;
            self.check_slot(Slot::Pair(key), found.as_deref())?;
            if found.is_some() {
                present.push(Key::new(&name).map_err(|error| error.to_string())?);
            }
        }
        if self.formatting_pairs && !present.is_empty() && self.pairs() != before {
            return Err(format!(
                "a format took {} pairs of {before} and left the others",
                before - self.pairs()
            ));
        }
        present.sort_unstable();
        let listed: Result<Vec<Key>, _> = kv.keys(None).collect();
        match listed {
            Ok(listed) if listed == present => Ok(()),
            Ok(listed) => Err(format!("{} keys are listed, {} can be read", listed.len(), present.len())),
            Err(error) => Err(format!("the keys cannot be listed: {error}")),
        }
    }

    fn pairs(&self) -> usize {
        self.certain.range(Slot::Pair(0)..=Slot::Pair(u16::MAX)).count()
    }

    fn check_blocks(&mut self, nvm: &mut Nvm) -> Result<(), String> {
        let mut data = vec![0; READ_BLOCKS as usize * BLOCK_BYTES];
        for first in (0..self.workload.blocks()).step_by(READ_BLOCKS as usize) {
            let read = nvm.read(first.into(), &mut data);
            read.map_err(|error| format!("blocks from {first} on cannot be read: {error}"))?;
            for (lba, block) in (first..).zip(data.chunks_exact(BLOCK_BYTES)) {
                let holds = block.iter().any(|byte| *byte != 0);
                self.check_slot(Slot::Block(lba), holds.then_some(block))?;
            }
        }
        Ok(())
    }

    /// What was found in a slot must be what it has for certain or what was on its way there.
    fn check_slot(&mut self, slot: Slot, found: Option<&[u8]>) -> Result<(), String> {
        let certain = self.certain.get(&slot).copied();
        let mut allowed = vec![certain];
        allowed.extend(self.under_way.get(&slot).into_iter().flatten());
        let is = |holds: &Holds| holds.map(|step| self.content(slot, step)).as_deref() == found;
        // Of two steps with the same content the newer: content does not distinguish them.
        let Some(now) = allowed.iter().rev().copied().find(is) else {
            return Err(format!("{slot:?} holds {}; it may hold {allowed:?}", describe(found)));
        };
        self.set(slot, now);
        Ok(())
    }
}

/// Unexpected bytes, described by the step number that they begin with.
fn describe(found: Option<&[u8]>) -> String {
    match found {
        None => "nothing".into(),
        Some(bytes) => match bytes.first_chunk() {
            Some(first) => format!("{} bytes of step {}", bytes.len(), u64::from_le_bytes(*first)),
            None => format!("{} bytes", bytes.len()),
        },
    }
}
