//! Resizes: the image is the old one or the new one, whole, and whichever it is can be resized again.

use std::fs::File;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use byway_crash_tests::flip::{BLOCKS, KEYS, Structure, Subject};
use byway_crash_tests::reading::read;
use byway_crash_tests::sparse;
use byway_forgetful::image_folder;

use crate::stage::{Fate, Left, Losses, STATE, lose_power, start_anew};

/// Where an image goes from six megabytes, and its blocks from two.
#[derive(Debug, Clone, Copy)]
struct To {
    size_bytes: u64,
    blocks_bytes: u64,
}

const LARGER: To = To { size_bytes: 12 << 20, blocks_bytes: 5 << 20 };
const SMALLER: To = To { size_bytes: 5 << 20, blocks_bytes: 1 << 20 };

struct Stage {
    folder: tempfile::TempDir,
    subject: Subject,
    base: PathBuf,
    structures: Vec<Structure>,
}

fn resize(image: &Path, to: To) -> byway::Result<()> {
    let blocks = [(2, to.blocks_bytes)];
    byway::resize(image, to.size_bytes, &blocks, &mut |_, _| ControlFlow::Continue(()))
}

impl Stage {
    fn new(closed: bool) -> Self {
        let folder = image_folder();
        let base = folder.path().join("base");
        let subject = Subject::make(&base, closed, "&flush=media").unwrap();
        let structures = subject.structures().unwrap();
        Self { folder, subject, base, structures }
    }

    fn lose(&self, to: To, fates: Vec<Fate>, left_out: Option<usize>) -> Left {
        let image = self.folder.path().join("image");
        sparse::copy(&self.base, &image).unwrap();
        let (folder, structures) = (self.folder.path().into(), self.structures.clone());
        lose_power(Losses { folder, structures, fates, left_out }, || resize(&image, to).unwrap())
    }

    /// The image is sound and holds everything.
    fn is_whole(&self, image: &Path) -> Result<(), String> {
        let said = |error: byway::Error| error.to_string();
        let checked = byway::check(image, &mut |_, _, _| {}).map_err(said)?;
        if !checked.is_clean() {
            return Err(format!("{:?}", checked.findings));
        }
        let wrong = read(image, KEYS, BLOCKS)?.slots.into_iter().find(|(slot, said)| {
            said.as_ref().ok().and_then(Option::as_ref) != self.subject.known().get(slot)
        });
        wrong.map_or(Ok(()), |(slot, said)| {
            Err(format!("{slot:?}: {:?}", said.map(|held| held.map(|v| v.len()))))
        })
    }

    /// What is wrong with what a loss of power left, and with what becomes of that.
    fn verify(&self, left: &Path, to: To) -> Result<(), String> {
        start_anew(left, &self.structures);
        self.is_whole(left)?;
        // A file of a name that looks like an attempt's.
        let mut beside = left.as_os_str().to_owned();
        beside.push(".resized");
        File::create(&beside).and_then(|file| file.set_len(1 << 20)).unwrap();
        resize(left, to).map_err(|error| format!("resized again: {error}"))?;
        assert_eq!(std::fs::metadata(&beside).unwrap().len(), 1 << 20);
        std::fs::remove_file(beside).unwrap();
        self.is_whole(left).map_err(|said| format!("resized again: {said}"))
    }

    /// What is wrong with anything that a loss of power leaves.
    fn verify_all(&self, left: Left, to: To) -> Result<usize, String> {
        let count = left.images.len() + left.successors.len();
        assert!(!left.successors.is_empty());
        for (left, fate) in left.images.into_iter().chain(left.successors) {
            self.verify(&left, to).map_err(|said| format!("{to:?}, {fate:?}, {}: {said}", left.display()))?;
            std::fs::remove_file(left).unwrap();
        }
        Ok(count)
    }
}

fn fates() -> Vec<Fate> {
    let parts = [STATE, "map", "spare records"].into_iter();
    let parts = parts.flat_map(|name| [Fate::Only(name), Fate::AllBut(name)]);
    [Fate::Nothing, Fate::Everything].into_iter().chain(parts).chain(scattered(2)).collect()
}

fn scattered(count: u64) -> impl Iterator<Item = Fate> {
    (0..count).map(Fate::Scattered)
}

fn lose_in_resizes(closed: bool) {
    let stage = Stage::new(closed);
    for to in [LARGER, SMALLER] {
        let count = stage.verify_all(stage.lose(to, fates(), None), to).unwrap();
        println!("{to:?}: {count} images");
        assert!(count > 5);
    }
}

#[test]
fn a_resize_of_an_image_that_was_closed_leaves_the_old_one_or_the_new_one() {
    lose_in_resizes(true);
}

#[test]
fn a_resize_of_an_image_that_was_killed_leaves_the_old_one_or_the_new_one() {
    lose_in_resizes(false);
}

/// The syncs of files in a resize, in their order, and whether something is lost without that one.
const SYNCS: [(&str, bool); 5] = [
    ("the old image is marked as in use", true),
    ("the new one is made, before its superblock: ignored until it has its name", false),
    ("all of the new one, before it gets its name", true),
    ("the old one, before it is marked as closed", true),
    ("the old one, marked as closed: needed where a resize ends, not where it gives its name away", false),
];

#[test]
fn each_sync_of_a_resize_is_necessary_or_that_of_any_image_which_is_made_or_closed() {
    let stage = Stage::new(true);
    let fates = || [Fate::Nothing, Fate::Everything].into_iter().chain(scattered(8)).collect();
    let lost = |left_out| stage.verify_all(stage.lose(LARGER, fates(), left_out), LARGER).err();
    let count = stage.lose(LARGER, vec![], None).syncs;
    let found: Vec<Option<String>> = (0..count).map(|nth| lost(Some(nth))).collect();
    assert_eq!(count, SYNCS.len(), "{found:?}");
    for ((name, necessary), lost) in SYNCS.into_iter().zip(found) {
        assert_eq!(lost.is_some(), necessary, "{name}: {lost:?}");
    }
}
