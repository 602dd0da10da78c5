//! Reads that fail while an image is opened: of one structure after the other, and of each page. The opening says so in one
//! sentence, or the device is there and reads say so; nothing is read that was not written; and once the file or the medium
//! is well, everything is there.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use byway::{ErrorKind, FileEvents};
use byway_crash_tests::content::{BLOCK_BYTES, Slot, key_of};
use byway_crash_tests::flip::{BLOCKS, KEYS, Structure, Subject};
use byway_crash_tests::reading::read;
use byway_crash_tests::sparse;
use rustix::io::Errno;

const PAGE_BYTES: u64 = 16 << 10;
/// Reads fail of one page in this many of each kind.
const EVERY: usize = 5;

/// A file of which these bytes cannot be read.
#[derive(Debug)]
struct Failing {
    bytes: Range<u64>,
    met: AtomicU64,
}

impl FileEvents for Failing {
    fn before_read(&self, at: u64, len_bytes: u64) -> io::Result<()> {
        if at >= self.bytes.end || at + len_bytes <= self.bytes.start {
            return Ok(());
        }
        self.met.fetch_add(1, Ordering::Relaxed);
        Err(Errno::IO.into())
    }
}

struct Stage {
    folder: tempfile::TempDir,
    subject: Subject,
    base: PathBuf,
    structures: Vec<Structure>,
}

/// What came of failing reads of one kind of structure.
#[derive(Debug, Default)]
struct Counts {
    met: u64,
    refused: u64,
    /// Slots whose reads said so.
    slots: u64,
}

/// How the image was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Closed,
    Killed,
    /// Killed, and real power was lost: what is not known to be synced is read again.
    Lost,
}

impl Stage {
    fn new(end: End) -> Self {
        let folder =
            tempfile::tempdir_in(if Path::new("/dev/shm").is_dir() { "/dev/shm" } else { "." }).unwrap();
        let base = folder.path().join("base");
        let subject = Subject::make(&base, end == End::Closed, "&flush=media").unwrap();
        let structures = subject.structures().unwrap();
        let stage = Self { folder, subject, base, structures };
        if end == End::Lost {
            // The boot that it was written under, and the number of the program that was synced last: it says nothing.
            let at = stage.structure("device state").start;
            let file = File::options().write(true).open(&stage.base).unwrap();
            file.write_all_at(&[0x5a; 16], at + 80).unwrap();
            file.write_all_at(&[0; 8], at + 72).unwrap();
        }
        stage
    }

    fn structure(&self, name: &str) -> Range<u64> {
        self.structures.iter().find(|structure| structure.name == name).unwrap().bytes.clone()
    }

    /// Pages that hold something, by what they hold.
    fn pages(&self) -> BTreeMap<&'static str, Vec<Range<u64>>> {
        let (file, all) = (File::open(&self.base).unwrap(), self.structure("pages"));
        let mut found: BTreeMap<_, Vec<_>> = BTreeMap::new();
        let mut page = vec![0; PAGE_BYTES as usize];
        for at in (all.start..all.end).step_by(PAGE_BYTES as usize) {
            file.read_exact_at(&mut page, at).unwrap();
            if page.iter().any(|byte| *byte != 0) {
                let kind =
                    if page.starts_with(b"BYIX") { "index pages" } else { "pages of the log and of blocks" };
                found.entry(kind).or_default().push(at..at + PAGE_BYTES);
            }
        }
        found
    }

    /// Opens a copy of which these bytes cannot be read, reads all of it, and opens it again once they can.
    fn fail(&self, bytes: Range<u64>, counts: &mut Counts) {
        let image = self.folder.path().join("image");
        sparse::copy(&self.base, &image).unwrap();
        let failing = Arc::new(Failing { bytes: bytes.clone(), met: AtomicU64::new(0) });
        let uri = format!("embedded:{}?reads=checked&memtable=4K", image.display());
        match byway::embedded::open_watched(&uri, failing.clone()) {
            Ok(device) => counts.slots += self.read_all(&device, &bytes),
            Err(error) => {
                one_sentence(&error);
                counts.refused += 1;
                assert!(failing.met.load(Ordering::Relaxed) > 0, "refused for nothing: {error}");
            }
        }
        counts.met += failing.met.load(Ordering::Relaxed);
        self.is_whole(&image, &format!("{bytes:?}"));
    }

    /// Slots that cannot be read; all others hold what they should.
    fn read_all(&self, device: &byway::embedded::EmbeddedDevice, failing: &Range<u64>) -> u64 {
        let mut unread = 0;
        let mut pairs = device.kv(None).unwrap();
        let mut verify = |slot: Slot, found: byway::Result<Option<Vec<u8>>>| match found {
            Ok(found) => assert_eq!(
                found.as_ref(),
                self.subject.known().get(&slot),
                "{slot:?}, {failing:?} cannot be read"
            ),
            Err(error) => {
                one_sentence(&error);
                unread += 1;
            }
        };
        for number in 0..KEYS {
            verify(Slot::Pair(number), pairs.get(&key_of(number)));
        }
        let mut blocks = device.nvm(None).unwrap();
        for lba in 0..BLOCKS {
            let mut block = vec![0; BLOCK_BYTES];
            let found = blocks.read(lba.into(), &mut block);
            verify(Slot::Block(lba), found.map(|()| block.iter().any(|byte| *byte != 0).then_some(block)));
        }
        unread
    }

    fn is_whole(&self, image: &Path, label: &str) {
        let checked = byway::check(image, &mut |_, _, _| {}).unwrap();
        assert_eq!(checked.findings, [], "{label} could not be read");
        let reading = read(image, KEYS, BLOCKS).unwrap();
        for (slot, said) in reading.slots {
            assert_eq!(
                said.unwrap().as_ref(),
                self.subject.known().get(&slot),
                "{slot:?}, {label} could not be read"
            );
        }
    }
}

fn one_sentence(error: &byway::Error) {
    let said = error.to_string();
    assert!(matches!(error.kind(), ErrorKind::Media | ErrorKind::System), "{:?}, {said}", error.kind());
    assert!(!said.is_empty() && !said.contains('\n'), "{said:?}");
}

fn fail_each(end: End) -> BTreeMap<&'static str, Counts> {
    let stage = Stage::new(end);
    let mut all: BTreeMap<&'static str, Counts> = BTreeMap::new();
    for structure in &stage.structures {
        stage.fail(structure.bytes.clone(), all.entry(structure.name).or_default());
    }
    for (kind, pages) in stage.pages() {
        for page in pages.into_iter().step_by(EVERY) {
            stage.fail(page, all.entry(kind).or_default());
        }
    }
    all.iter().for_each(|(name, counts)| println!("{end:?}, {name}: {counts:?}"));
    // Everything else is mapped, and what cannot be read of that no process survives.
    assert!(all["superblock"].refused == 1 && all["pages"].met > 0 && all["index pages"].met > 0);
    all
}

#[test]
fn a_closed_image_reports_what_cannot_be_read_and_has_it_once_it_can() {
    let all = fail_each(End::Closed);
    assert!(all["index pages"].slots > 0 && all["pages of the log and of blocks"].slots > 0);
}

#[test]
fn a_killed_image_reports_what_cannot_be_read_and_has_it_once_it_can() {
    let all = fail_each(End::Killed);
    assert!(all["pages of the log and of blocks"].slots > 0);
}

/// Pages whose data could not be read were taken for ones that had not reached the medium, and what they replaced came back.
#[test]
fn an_image_that_lost_power_gives_up_nothing_that_cannot_be_read_now() {
    let all = fail_each(End::Lost);
    assert!(all["pages of the log and of blocks"].refused > 0);
}

/// The same of a medium that fails: what it does not give now may be there the next time.
#[test]
fn a_recovery_from_a_loss_of_power_takes_back_nothing_that_the_medium_fails_to_read() {
    let stage = Stage::new(End::Lost);
    let image = stage.folder.path().join("image");
    for inject in ["read:nth=1:always", "read:nth=7", "read:ppm=100000,seed=3"] {
        sparse::copy(&stage.base, &image).unwrap();
        let uri = format!("embedded:{}?reads=checked&inject={inject}", image.display());
        match byway::embedded::open(&uri) {
            Ok(device) => _ = stage.read_all(&device, &(0..0)),
            Err(error) => one_sentence(&error),
        }
        stage.is_whole(&image, inject);
    }
}
