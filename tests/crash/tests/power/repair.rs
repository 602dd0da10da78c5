//! Repairs of damaged images.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use byway::Checked;
use byway_crash_tests::content::Slot;
use byway_crash_tests::flip::{BLOCKS, KEYS, Structure, Subject};
use byway_crash_tests::reading::{Said, read};
use byway_crash_tests::sparse;
use byway_forgetful::image_folder;
use byway_kit::mix;

use crate::stage::{Fate, Left, Losses, STATE, lose_power, start_anew};

/// An image that was sound once.
struct Patient {
    folder: tempfile::TempDir,
    subject: Subject,
    base: PathBuf,
    structures: Vec<Structure>,
}

/// What is wrong with a copy of it.
#[derive(Debug, Clone, Copy)]
struct Damage {
    structure: &'static str,
    /// How far into what is used of the structure, in 64ths.
    part: u64,
    how: How,
}

#[derive(Debug, Clone, Copy)]
enum How {
    /// A bit is flipped.
    Bit,
    /// So many bytes are noise.
    Noise(u64),
    /// So many bytes are gone.
    Zeroes(u64),
}

const HOWS: [How; 5] = [How::Bit, How::Noise(24), How::Noise(4096), How::Zeroes(512), How::Zeroes(4096)];

type Slots = BTreeMap<Slot, Said>;

/// What may be read where, beside what was there before the damage.
struct Expected {
    /// After a repair that nothing disturbed: the rest was hit by the damage.
    whole: Slots,
    /// Before any.
    sick: Option<Slots>,
    /// After a repair of the image as a loss of power leaves it before that began.
    late: Slots,
}

impl Patient {
    fn new(closed: bool) -> Self {
        let folder = image_folder();
        let base = folder.path().join("base");
        let subject = Subject::make(&base, closed, "&flush=media").unwrap();
        let structures = subject.structures().unwrap();
        Self { folder, subject, base, structures }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn structure(&self, name: &str) -> &Structure {
        self.structures.iter().find(|structure| structure.name == name).unwrap()
    }

    /// Words of a structure that are not zero.
    fn used(&self, structure: &str) -> Vec<u64> {
        let (file, bytes) = (File::open(&self.base).unwrap(), &self.structure(structure).bytes);
        let stretches = sparse::stretches(&file).unwrap().into_iter();
        let words = stretches
            .flat_map(|stretch| (stretch.start.max(bytes.start)..stretch.end.min(bytes.end)).step_by(8));
        let is_used = |at: &u64| {
            let mut word = [0; 8];
            file.read_exact_at(&mut word, *at).unwrap();
            word != [0; 8]
        };
        words.filter(is_used).collect()
    }

    /// A damaged copy; none where the structure holds nothing.
    fn damaged(&self, damage: Damage) -> Option<PathBuf> {
        let used = self.used(damage.structure);
        let at = *used.get(used.len() * damage.part as usize / 64)?;
        let image = self.path("image");
        sparse::copy(&self.base, &image).unwrap();
        let file = File::options().read(true).write(true).open(&image).unwrap();
        let within = |len: u64| at / len.next_power_of_two() * len.next_power_of_two();
        match damage.how {
            How::Bit => {
                let (at, mut byte) = (at + damage.part % 8, [0]);
                file.read_exact_at(&mut byte, at).unwrap();
                file.write_all_at(&[byte[0] ^ 1 << (damage.part % 7)], at).unwrap();
            }
            How::Noise(len) => {
                let noise: Vec<u8> = (0..len).map(|n| mix(len, n) as u8).collect();
                file.write_all_at(&noise, within(len)).unwrap();
            }
            How::Zeroes(len) => file.write_all_at(&vec![0; len as usize], within(len)).unwrap(),
        }
        Some(image)
    }

    fn slots(&self, image: &Path) -> Option<Slots> {
        Some(read(image, KEYS, BLOCKS).ok()?.slots.into_iter().collect())
    }

    /// What is to be expected of a damaged image; none where a repair finds nothing, or has to give up.
    fn expected(&self, image: &Path) -> Option<Expected> {
        let [whole, late] = [false, true].map(|is_late| {
            let copy = self.path("repaired");
            sparse::copy(image, &copy).unwrap();
            if is_late {
                start_anew(&copy, &self.structures);
            }
            let done = repair(&copy).ok()?;
            assert!(!done.is_usable() || check(&copy).is_clean(), "{:?}", done.findings);
            (done.is_usable() && !done.is_clean()).then(|| self.slots(&copy).unwrap())
        });
        Some(Expected { whole: whole?, sick: self.slots(image), late: late? })
    }

    /// Loses power on the way of a repair.
    fn lose(&self, image: &Path, fates: Vec<Fate>) -> Left {
        let operated = self.path("operated");
        sparse::copy(image, &operated).unwrap();
        let (folder, structures) = (self.folder.path().into(), self.structures.clone());
        let losses = Losses { folder, structures, fates, left_out: None };
        lose_power(losses, || _ = repair(&operated).unwrap())
    }

    /// What is wrong with what a loss of power left.
    fn verify(&self, left: &Path, expected: &Expected) -> Result<(), String> {
        // Findings that the repair would have reported may be missing then.
        let is_late = self.has_not_begun(left);
        start_anew(left, &self.structures);
        let was = |slot: &Slot, said: &Said| {
            said.as_ref().is_ok_and(|said| said.as_ref() == self.subject.known().get(slot))
                || *said == expected.whole[slot]
                || is_late && *said == expected.late[slot]
        };
        self.says_nothing_wrong(left, |slot, said| {
            was(slot, said) || expected.sick.as_ref().is_some_and(|sick| *said == sick[slot])
        })?;
        let done = repair(left).map_err(|error| format!("repaired again: {error}"))?;
        if !done.is_usable() {
            return Err(format!("repaired again: {:?}", done.findings));
        }
        if !check(left).is_clean() {
            return Err(format!("after the second repair: {:?}", check(left).findings));
        }
        let slots = self.slots(left).ok_or("repaired, and refused")?;
        let is_reported = |said: &Said| is_late && done.loses() && matches!(said, Ok(None) | Err(_));
        match slots.iter().find(|(slot, said)| !was(slot, said) && !is_reported(said)) {
            Some((slot, said)) => Err(format!("{slot:?} is {} after {:?}", describe(said), done.findings)),
            None => Ok(()),
        }
    }

    /// Before it is repaired again an image may be refused, and a slot say that it cannot be read.
    fn says_nothing_wrong(&self, left: &Path, right: impl Fn(&Slot, &Said) -> bool) -> Result<(), String> {
        let Ok(reading) = read(left, KEYS, BLOCKS) else { return Ok(()) };
        let wrong = reading.slots.iter().find(|(slot, said)| said.is_ok() && !right(slot, said));
        match wrong {
            Some((slot, said)) if reading.damage == 0 && reading.findings.is_empty() => {
                Err(format!("{slot:?} is {} without a word", describe(said)))
            }
            _ => Ok(()),
        }
    }

    /// Whether an image is still marked as in use by the killed process.
    fn has_not_begun(&self, left: &Path) -> bool {
        let at = self.structure(STATE).bytes.start;
        let marks = [left, &self.base].map(|path| {
            let mut marks = [0; 16];
            File::open(path).unwrap().read_exact_at(&mut marks, at).unwrap();
            marks
        });
        // Zero, and the number of times it was opened.
        marks[0][..8] == [0; 8] && marks[0] == marks[1]
    }
}

fn repair(image: &Path) -> byway::Result<Checked> {
    byway::repair(image, &mut |_, _, _| {})
}

fn check(image: &Path) -> Checked {
    byway::check(image, &mut |_, _, _| {}).unwrap()
}

fn describe(said: &Said) -> String {
    match said {
        Ok(Some(value)) => format!("{} bytes", value.len()),
        Ok(None) => "nothing".into(),
        Err(error) => error.clone(),
    }
}

/// Damage of every structure, of each kind where so much is asked for.
fn damages(structures: &[Structure], kind: usize) -> Vec<Damage> {
    let is_all = is_all();
    let damage = |structure: &Structure, nth: usize| {
        let part = mix(structure.bytes.start, nth as u64) % 64;
        Damage { structure: structure.name, part, how: HOWS[nth] }
    };
    let each = structures.iter().zip(kind..);
    each.flat_map(|(structure, kind)| {
        let kinds = (0..HOWS.len()).filter(move |nth| is_all || *nth == kind % HOWS.len());
        kinds.map(move |nth| damage(structure, nth))
    })
    .collect()
}

/// Every kind of damage, and every fate of what was not synced.
fn is_all() -> bool {
    std::env::var("BYWAY_TEST_EVERY_FATE").is_ok()
}

fn fates_of(damage: Damage, structures: &[Structure]) -> Vec<Fate> {
    if is_all() {
        return Fate::all(structures);
    }
    let own = damage.structure;
    vec![
        Fate::Nothing,
        Fate::Everything,
        Fate::Only(own),
        Fate::AllBut(own),
        Fate::Only(STATE),
        Fate::AllBut("map"),
        Fate::Scattered(0),
        Fate::Scattered(damage.part),
    ]
}

fn lose_in_repairs(closed: bool, kind: usize) {
    let patient = Patient::new(closed);
    let (mut repairs, mut images, mut broken) = (0, 0, Vec::new());
    for damage in damages(&patient.structures, kind) {
        let Some(image) = patient.damaged(damage) else { continue };
        let Some(expected) = patient.expected(&image) else { continue };
        repairs += 1;
        for (left, fate) in patient.lose(&image, fates_of(damage, &patient.structures)).images {
            images += 1;
            let verified = patient.verify(&left, &expected);
            broken.extend(
                verified.err().map(|said| format!("{damage:?}, {fate:?}, {}: {said}", left.display())),
            );
            std::fs::remove_file(left).unwrap();
        }
    }
    println!("{repairs} repairs, {images} images");
    assert_eq!(broken, Vec::<String>::new());
    assert!(repairs > 5 && images > 50);
}

#[test]
fn a_repair_of_an_image_that_was_closed_loses_power_and_is_done_again() {
    lose_in_repairs(true, 0);
}

#[test]
fn a_repair_of_an_image_that_was_killed_loses_power_and_is_done_again() {
    lose_in_repairs(false, 2);
}

/// It was counted on from, and did not fit the word of the engine that notes it.
#[test]
fn a_count_of_losses_of_power_that_is_noise_is_counted_on_from() {
    for count in [u64::MAX, u64::MAX - 1, 1 << 56] {
        let patient = Patient::new(false);
        let file = File::options().write(true).open(&patient.base).unwrap();
        file.write_all_at(&count.to_le_bytes(), patient.structure(STATE).bytes.start + 96).unwrap();
        start_anew(&patient.base, &patient.structures);
        assert!(repair(&patient.base).unwrap().is_usable());
        assert!(check(&patient.base).is_clean());
    }
}

/// They were trimmed as single units, whatever they were, and the loss of other blocks was reported.
#[test]
fn entries_of_namespaces_that_are_gone_are_dropped_and_nothing_is_left_to_be_found() {
    let patient = Patient::new(true);
    let damage = Damage { structure: "namespace table", part: 0, how: How::Zeroes(4096) };
    let image = patient.damaged(damage).unwrap();
    let done = repair(&image).unwrap();
    assert!(done.loses() && done.namespaces == 0, "{:?}", done.findings);
    assert_eq!(check(&image).findings, []);
}
