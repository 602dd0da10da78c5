//! Flipped bits: an image with known content, and one bit of it turned after the other.
//!
//! A flip is *refused* (the opening names what is damaged), *found* (a read, or the opening, or the check names it), or
//! *harmless* (everything is as it was, and nothing complains). Anything else breaks a promise: a slot that holds
//! something else without a word (*silent*), or a panic.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use byway_flash::{Flash, NamespaceKind, OpenOptions as FlashOptions};
use byway_kv::{KvEngine, KvOptions, STATE_AREA, WINDOWS_AREA};
use serde::Serialize;

use crate::content::{Slot, block_of, key_of, value_of};
use crate::reading::{Reading, read};
use crate::sparse;
use byway_kit::{Random, mix};

/// Steps that a flipped image has to go on for.
const MORE_STEPS: u64 = 120;

/// Keys of the image.
pub const KEYS: u16 = 160;
/// Blocks of the image.
pub const BLOCKS: u32 = 512;

/// A piece of the image file that reports refer to by one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Structure {
    /// Its name.
    pub name: &'static str,
    /// Its bytes.
    pub bytes: Range<u64>,
}

/// What flips of one structure came to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Flips made.
    pub flips: u64,
    /// The image was refused by a word for what is damaged.
    pub refused: u64,
    /// Reads said so.
    pub found_by_reads: u64,
    /// Every slot is as it was, and the opening or the check says so.
    pub found_by_check: u64,
    /// Everything is as it was.
    pub harmless: u64,
    /// Most slots that one flip took.
    pub most_slots: u64,
    /// Flips after which the device went on, with nothing changed but what was written.
    pub went_on: u64,
    /// Promises broken.
    pub broken: u64,
}

/// Flips of one structure of one image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Tallied {
    /// How the image was left: `closed` or `killed`.
    pub image: &'static str,
    /// The structure.
    pub structure: &'static str,
    /// Images that were only read.
    pub tally: Tally,
    /// Images that were written to.
    pub going_on: Tally,
    /// Images that were repaired.
    pub repaired: Tally,
}

/// Flips a bit in one byte of `every`, of an image at `image` that was closed and one that was killed; in fewer of the
/// bytes that are zero or hold data. `on` is called for what breaks.
///
/// # Errors
/// When an image cannot be made.
pub fn everywhere(image: &Path, every: u64, on: &mut impl FnMut(String)) -> Result<Vec<Tallied>, String> {
    let mut all = Vec::new();
    for (name, closed) in [("closed", true), ("killed", false)] {
        let subject = Subject::make(image, closed, "")?;
        for structure in subject.structures()? {
            let scale = match structure.name {
                "pages" => 64,
                "ring of the log" | "unit buffer" => 4,
                _ => 1,
            };
            let one_of = |at: u64, byte: u8, n: u64| {
                mix(n, at).is_multiple_of(n * scale * if byte == 0 { 64 } else { 1 })
            };
            let tally = subject.flip_all(&structure, |at, byte| one_of(at, byte, every), on);
            let going_on = subject.flip_and_go_on(&structure, |at, byte| one_of(at, byte, every * 16), on);
            let repaired = subject.flip_and_repair(&structure, |at, byte| one_of(at, byte, every * 16), on);
            let said = |error: io::Error| error.to_string();
            let (tally, going_on) = (tally.map_err(said)?, going_on.map_err(said)?);
            let repaired = repaired.map_err(said)?;
            all.push(Tallied { image: name, structure: structure.name, tally, going_on, repaired });
        }
    }
    let _ = std::fs::remove_file(image);
    Ok(all)
}

/// An image whose content is known.
#[derive(Debug)]
pub struct Subject {
    path: PathBuf,
    known: Known,
}

impl Subject {
    /// Makes one at `path`, closed in order or killed in the midst of it. The device is opened with `options`, each with its `&`.
    ///
    /// # Errors
    /// What the device says.
    pub fn make(path: &Path, closed: bool, options: &str) -> Result<Self, String> {
        let live = path.with_extension("live");
        let _ = std::fs::remove_file(&live);
        let made = write(&live, closed, options).map_err(|error| error.to_string());
        let known = made.and_then(|(known, open)| {
            sparse::copy(&live, path).map_err(|error| error.to_string())?;
            drop(open);
            Ok(known)
        });
        let _ = std::fs::remove_file(&live);
        let subject = Self { path: path.into(), known: known? };
        let before = read(path, KEYS, BLOCKS)?;
        match subject.verify(Ok(Ok(before))) {
            (Verdict::Harmless, _) => Ok(subject),
            (verdict, _) => Err(format!("the image is not what was written: {verdict:?}")),
        }
    }

    /// What each slot holds that holds something.
    #[must_use]
    pub const fn known(&self) -> &Known {
        &self.known
    }

    /// What the image file holds where.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn structures(&self) -> Result<Vec<Structure>, String> {
        let said = |error: &dyn std::fmt::Display| error.to_string();
        let mut flash = Flash::open(&self.path, FlashOptions::default().read_only(true).timing(false))
            .map_err(|e| said(&e))?;
        let pairs = flash.namespaces().find(|record| record.kind == NamespaceKind::Kv).cloned();
        let pairs = pairs.ok_or("the image has no pairs")?;
        let state = flash.find_area(pairs.nsid, STATE_AREA).and_then(|area| flash.area_at(area));
        let windows = flash.find_area(pairs.nsid, WINDOWS_AREA).and_then(|area| flash.area_at(area));
        let (engine, _) = KvEngine::open(&mut flash, &pairs, KvOptions::default()).map_err(|e| said(&e))?;
        let mut found = Vec::new();
        for (name, bytes) in flash.regions() {
            match (name, state, windows) {
                ("areas", Some(state), Some(windows)) => {
                    let part = |(name, part): (_, Range<usize>)| Structure {
                        name,
                        bytes: state + part.start as u64..state + part.end as u64,
                    };
                    found.extend(engine.state_parts().into_iter().map(part));
                    let name = "windows";
                    let len = u64::from(engine.window_count())
                        * engine.window_range(byway_kv::WindowId(0)).len() as u64;
                    found.push(Structure { name, bytes: windows..windows + len });
                }
                _ => found.push(Structure { name, bytes }),
            }
        }
        Ok(found)
    }

    /// Flips one bit in each byte that `wanted` wants of those that are not in holes, and calls `on` for what breaks.
    ///
    /// # Errors
    /// What the file system says.
    pub fn flip_all(
        &self,
        structure: &Structure,
        wanted: impl Fn(u64, u8) -> bool,
        on: &mut impl FnMut(String),
    ) -> io::Result<Tally> {
        let file = OpenOptions::new().read(true).write(true).open(&self.path)?;
        let mut tally = Tally::default();
        for (at, byte) in
            bytes_of(&file, &structure.bytes)?.into_iter().filter(|(at, byte)| wanted(*at, *byte))
        {
            let bit = mix(at, 0) % 8;
            file.write_all_at(&[byte ^ 1 << bit], at)?;
            let read = catch_unwind(AssertUnwindSafe(|| read(&self.path, KEYS, BLOCKS)));
            let (verdict, slots) = self.verify(read.map_err(drop));
            file.write_all_at(&[byte], at)?;
            tally.add(&verdict, slots);
            if let Verdict::Broken(said) = verdict {
                on(format!("{}, byte {}, bit {bit}: {said}", structure.name, at - structure.bytes.start));
            }
        }
        Ok(tally)
    }

    /// As [`Subject::flip_all`], of copies that are opened for writing then, and written to: what is damaged must not
    /// spread.
    ///
    /// # Errors
    /// What the file system says.
    pub fn flip_and_go_on(
        &self,
        structure: &Structure,
        wanted: impl Fn(u64, u8) -> bool,
        on: &mut impl FnMut(String),
    ) -> io::Result<Tally> {
        self.flip_copies(structure, wanted, "going on", |copy| go_on(copy, &self.known), on)
    }

    /// As [`Subject::flip_all`], of copies that are repaired then: one flipped bit costs nothing, and leaves nothing to be
    /// found.
    ///
    /// # Errors
    /// What the file system says.
    pub fn flip_and_repair(
        &self,
        structure: &Structure,
        wanted: impl Fn(u64, u8) -> bool,
        on: &mut impl FnMut(String),
    ) -> io::Result<Tally> {
        self.flip_copies(structure, wanted, "repaired", |copy| self.repair(copy), on)
    }

    fn flip_copies(
        &self,
        structure: &Structure,
        wanted: impl Fn(u64, u8) -> bool,
        doing: &str,
        verify: impl Fn(&Path) -> Result<bool, String>,
        on: &mut impl FnMut(String),
    ) -> io::Result<Tally> {
        let bytes = bytes_of(&File::open(&self.path)?, &structure.bytes)?;
        let copy = self.path.with_extension("copy");
        let mut tally = Tally::default();
        for (at, byte) in bytes.into_iter().filter(|(at, byte)| wanted(*at, *byte)) {
            let bit = mix(at, 1) % 8;
            sparse::copy(&self.path, &copy)?;
            OpenOptions::new().write(true).open(&copy)?.write_all_at(&[byte ^ 1 << bit], at)?;
            tally.flips += 1;
            let said = match catch_unwind(AssertUnwindSafe(|| verify(&copy))) {
                Ok(Ok(went_on)) => {
                    *(if went_on { &mut tally.went_on } else { &mut tally.refused }) += 1;
                    continue;
                }
                Ok(Err(said)) => said,
                Err(_) => "a panic".to_owned(),
            };
            tally.broken += 1;
            on(format!(
                "{}, byte {}, bit {bit}, {doing}: {said}",
                structure.name,
                at - structure.bytes.start
            ));
        }
        let _ = std::fs::remove_file(&copy);
        Ok(tally)
    }

    /// Repairs a copy; it must be whole then, and what was found first must be what a check foretold.
    fn repair(&self, copy: &Path) -> Result<bool, String> {
        let said = |error: byway::Error| error.to_string();
        let foretold = byway::check(copy, &mut |_, _, _| {}).map_err(said)?;
        let done = byway::repair(copy, &mut |_, _, _| {}).map_err(said)?;
        if done.loses() || !done.is_usable() {
            return Err(format!("{:?}", done.findings));
        }
        if foretold.findings != done.findings {
            return Err(format!("{:?} was foretold, done was {:?}", foretold.findings, done.findings));
        }
        let again = byway::check(copy, &mut |_, _, _| {}).map_err(said)?;
        if !again.is_clean() {
            return Err(format!("{:?}, and before {:?}", again.findings, done.findings));
        }
        match self.verify(Ok(read(copy, KEYS, BLOCKS))) {
            (Verdict::Harmless, _) => Ok(true),
            (verdict, _) => Err(format!("{verdict:?} after {:?}", done.findings)),
        }
    }

    /// What came of a flip, and the slots it took.
    fn verify(&self, read: Result<Result<Reading, String>, ()>) -> (Verdict, u64) {
        let reading = match read {
            Err(()) => return (Verdict::Broken("a panic".into()), 0),
            Ok(Err(_)) => return (Verdict::Refused, 0),
            Ok(Ok(reading)) => reading,
        };
        let (mut lost, mut silent) = (0, Vec::new());
        for (slot, said) in &reading.slots {
            match said {
                Ok(found) if found.as_deref() == self.known.get(slot).map(Vec::as_slice) => {}
                Ok(found) => silent.push((*slot, found.as_ref().map(Vec::len))),
                Err(_) => lost += 1,
            }
        }
        // Keys whose newest record is in a damaged stretch of the log are reported when the image is opened.
        let is_reported = reading.damage > 0 || !reading.findings.is_empty();
        if let Some(first) = silent.first().filter(|_| reading.damage == 0) {
            let said = format!(
                "{} slots changed without a word, the first {first:?}; {:?}",
                silent.len(),
                reading.findings
            );
            return (Verdict::Broken(said), lost);
        }
        match (&reading.listed, self.keys() == reading.listed.as_deref().unwrap_or_default()) {
            (Ok(_), false) if reading.damage == 0 => (Verdict::Broken("a wrong list".into()), lost),
            (Err(_), _) => (Verdict::Read, lost),
            _ if lost > 0 => (Verdict::Read, lost + silent.len() as u64),
            _ if is_reported => (Verdict::Reported, silent.len() as u64),
            _ => (Verdict::Harmless, 0),
        }
    }

    fn keys(&self) -> Vec<Vec<u8>> {
        let mut keys: Vec<Vec<u8>> = self
            .known
            .keys()
            .filter_map(|slot| if let Slot::Pair(number) = slot { Some(key_of(*number)) } else { None })
            .collect();
        keys.sort_unstable();
        keys
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    Refused,
    Read,
    Reported,
    Harmless,
    Broken(String),
}

impl Tally {
    fn add(&mut self, verdict: &Verdict, slots: u64) {
        self.flips += 1;
        self.most_slots = self.most_slots.max(slots);
        match verdict {
            Verdict::Refused => self.refused += 1,
            Verdict::Read => self.found_by_reads += 1,
            Verdict::Reported => self.found_by_check += 1,
            Verdict::Harmless => self.harmless += 1,
            Verdict::Broken(_) => self.broken += 1,
        }
    }
}

/// Opens an image with a flipped bit and writes to it: what it said before of slots that were not written to, it says
/// afterwards, or that it cannot, or what is true: a page that was still open is programmed again. False where the image is
/// refused.
fn go_on(image: &Path, known: &Known) -> Result<bool, String> {
    let Ok(before) = read(image, KEYS, BLOCKS) else { return Ok(false) };
    let Ok(device) = byway::embedded::open(&format!("embedded:{}", image.display())) else {
        return Ok(false);
    };
    let (mut after, mut written) = (known.clone(), BTreeMap::new());
    for step in 1 << 20..(1 << 20) + MORE_STEPS {
        let done = do_step(&device, step, &mut after).is_ok();
        for slot in slots_of(step) {
            let content = after.get(&slot).cloned();
            // What failed may have been done in part.
            written.insert(slot, done.then_some(content));
        }
    }
    drop(device);
    let reading = read(image, KEYS, BLOCKS).map_err(|said| format!("it cannot be opened again: {said}"))?;
    for ((slot, was), (_, is)) in before.slots.iter().zip(&reading.slots) {
        let right = match (written.get(slot), is) {
            (Some(None), _) | (_, Err(_)) => true,
            (Some(Some(content)), Ok(is)) => content == is,
            (None, Ok(is)) => {
                was.as_ref().is_ok_and(|was| was == is) || is.as_deref() == known.get(slot).map(Vec::as_slice)
            }
        };
        if !right {
            let len = |said: &crate::reading::Said| {
                said.as_ref().map(|held| held.as_ref().map(Vec::len)).map_err(Clone::clone)
            };
            return Err(format!("{slot:?} was {:?} and is {:?}", len(was), len(is)));
        }
    }
    Ok(true)
}

/// Bytes of a range that are not in holes, each with its place.
fn bytes_of(file: &File, range: &Range<u64>) -> io::Result<Vec<(u64, u8)>> {
    let mut found = Vec::new();
    for stretch in sparse::stretches(file)? {
        let (start, end) = (stretch.start.max(range.start), stretch.end.min(range.end));
        let mut bytes = vec![0; end.saturating_sub(start) as usize];
        file.read_exact_at(&mut bytes, start)?;
        found.extend((start..end).zip(bytes));
    }
    Ok(found)
}

/// What slots hold.
pub type Known = BTreeMap<Slot, Vec<u8>>;

/// Writes an image with a bit of everything in it: runs and a log behind them, buffers half full, trimmed and
/// overwritten blocks. What is still open comes back with what is known of the content.
fn write(
    path: &Path,
    closed: bool,
    options: &str,
) -> byway::Result<(Known, Option<byway::embedded::EmbeddedDevice>)> {
    let blocks = byway::NewNamespace { size_bytes: Some(2 << 20), ..byway::NewNamespace::NVM };
    let pairs = byway::NewNamespace { size_bytes: Some(4 << 20), ..byway::NewNamespace::KV };
    let namespaces = vec![pairs, blocks];
    byway::create(path, &byway::CreateOptions::new(6 << 20).namespaces(namespaces))?;
    let (mut known, mut step) = (Known::new(), 1);
    for life in 0..4 {
        let device = byway::embedded::open(&format!("embedded:{}?memtable=4K{options}", path.display()))?;
        for _ in 0..220 {
            do_step(&device, step, &mut known)?;
            step += 1;
        }
        if life == 3 && !closed {
            return Ok((known, Some(device)));
        }
        device.close()?;
    }
    Ok((known, None))
}

/// Key and first block of a step, and what it does with one of them.
fn dice_of(step: u64) -> (u16, u32, u64, Random) {
    let mut random = Random::starting_at(step, 1);
    let key = random.below(KEYS.into()) as u16;
    let lba = random.below(u64::from(BLOCKS) - 16) as u32;
    (key, lba, random.below(10), random)
}

fn slots_of(step: u64) -> Vec<Slot> {
    let (key, lba, dice, _) = dice_of(step);
    match dice {
        1 => (lba..lba + 16).map(Slot::Block).collect(),
        2..5 => (lba..lba + 8).map(Slot::Block).collect(),
        _ => vec![Slot::Pair(key)],
    }
}

fn do_step(device: &byway::embedded::EmbeddedDevice, step: u64, known: &mut Known) -> byway::Result<()> {
    let (key, lba, dice, mut random) = dice_of(step);
    match dice {
        0 => {
            device.kv(None)?.delete(&key_of(key))?;
            known.remove(&Slot::Pair(key));
        }
        1 => {
            device.nvm(None)?.trim(lba.into(), 16)?;
            (lba..lba + 16).for_each(|lba| _ = known.remove(&Slot::Block(lba)));
        }
        2..5 => {
            let data: Vec<Vec<u8>> = (lba..lba + 8).map(|lba| block_of(step, lba)).collect();
            device.nvm(None)?.write(lba.into(), &data.concat())?;
            known.extend((lba..).map(Slot::Block).zip(data));
        }
        _ => {
            let len = [5, 60, 200, 700, 5000][random.below(5) as usize];
            device.kv(None)?.put(&key_of(key), &value_of(step, key, len))?;
            known.insert(Slot::Pair(key), value_of(step, key, len));
        }
    }
    Ok(())
}
