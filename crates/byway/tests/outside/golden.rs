//! Golden images: one of each format stays in `tests/golden`; every later version opens that of a released one, or refuses it by name.
//!
//! They are made by `cargo test -p byway --test outside golden:: -- --ignored`, with the program whose format they are of.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use byway::embedded::EmbeddedDevice;
use byway::{CreateOptions, MediaNamespaceKind, NewNamespace, Nsid};
use byway_sys::copy::{CopyFile, DataRanges, copy_sparse};

const LBA_BYTES: usize = 512;
/// Bytes that are kept or left out together.
const LINE: usize = 32;

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;
type Blocks = BTreeMap<u64, Vec<u8>>;
/// A store, or a deletion.
type Change = (Vec<u8>, Option<Vec<u8>>);

fn value(n: u32, len: usize) -> Vec<u8> {
    (0..len).map(|i| (n as usize * 31 + i / 3) as u8).collect()
}

/// What is stored, in order: keys of every length, values of none, few, a page's and many bytes, overwrites, deletions.
fn stores() -> Vec<Change> {
    let lens = [0, 1, 35, 36, 127, 128, 1000, 4095, 4096, 4097, 16_384, 20_000, 70_000];
    let mut stores = Vec::new();
    for n in 0..160_u32 {
        let key = format!("{n:016}").into_bytes()[16 - (n as usize % 16 + 1)..].to_vec();
        let len = if n % 8 == 7 { lens[n as usize / 8 % lens.len()] } else { n as usize % 90 };
        stores.push((key, Some(value(n, len))));
        if n % 6 == 5 {
            stores.push((format!("{:016}", n / 2).into_bytes(), Some(value(n + 1, 10))));
        }
        if n % 10 == 9 {
            let gone = format!("{:016}", n / 2 - n / 2 % 6 + 1).into_bytes();
            stores.push((gone, None));
        }
    }
    stores
}

fn expected() -> (Pairs, Blocks) {
    let mut pairs = Pairs::new();
    for (key, value) in stores() {
        match value {
            Some(value) => _ = pairs.insert(key, value),
            None => _ = pairs.remove(&key),
        }
    }
    let mut blocks = Blocks::new();
    for lba in 0..90 {
        blocks.insert(lba * 3, value(lba as u32, LBA_BYTES));
    }
    (1..20).for_each(|lba| _ = blocks.insert(lba * 6, vec![0; LBA_BYTES]));
    (pairs, blocks)
}

fn fill(device: &EmbeddedDevice, half: usize) {
    let mut kv = device.kv(Some(Nsid::new(1).unwrap())).unwrap();
    let all = stores();
    let (first, second) = all.split_at(all.len() / 2);
    for (key, value) in if half == 0 { first } else { second } {
        match value {
            Some(value) => kv.put(key, value).unwrap(),
            None => kv.delete(key).unwrap(),
        }
    }
    let mut nvm = device.nvm(Some(Nsid::new(2).unwrap())).unwrap();
    for lba in (0..90).filter(|lba| lba % 2 == half as u64) {
        nvm.write(lba * 3, &value(lba as u32, LBA_BYTES)).unwrap();
    }
    if half == 1 {
        (1..20).for_each(|lba| nvm.trim(lba * 6, 1).unwrap());
        (1..20).for_each(|lba| nvm.write_zeroes(lba * 6, 1).unwrap());
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden")
}

/// The bytes of a sparse file that are not zero: its length, then place, length and bytes of each run of them.
fn pack(path: &Path) -> Vec<u8> {
    let file = File::open(path).unwrap();
    let len = file.metadata().unwrap().len();
    let mut packed = len.to_le_bytes().to_vec();
    for range in DataRanges::new(&file, len) {
        let (at, len) = range.unwrap();
        let mut bytes = vec![0; len as usize];
        file.read_exact_at(&mut bytes, at).unwrap();
        let lines: Vec<&[u8]> = bytes.chunks(LINE).collect();
        let is_used = |line: &&[u8]| line.iter().any(|byte| *byte != 0);
        let mut nth = 0;
        for run in lines.chunk_by(|a, b| is_used(a) == is_used(b)) {
            if is_used(&run[0]) {
                let run_bytes = run.concat();
                packed.extend((at + (nth * LINE) as u64).to_le_bytes());
                packed.extend((run_bytes.len() as u32).to_le_bytes());
                packed.extend(run_bytes);
            }
            nth += run.len();
        }
    }
    packed
}

fn unpack(packed: &[u8], path: &Path) {
    let word = |at: usize| u64::from_le_bytes(packed[at..at + 8].try_into().unwrap());
    let file = File::create_new(path).unwrap();
    file.set_len(word(0)).unwrap();
    let mut at = 8;
    while at < packed.len() {
        let len = u32::from_le_bytes(packed[at + 8..at + 12].try_into().unwrap()) as usize;
        file.write_all_at(&packed[at + 12..at + 12 + len], word(at)).unwrap();
        at += 12 + len;
    }
}

fn golden(name: &str) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("golden.img");
    unpack(&std::fs::read(folder().join(name)).unwrap(), &path);
    (dir, path)
}

fn holds_everything(path: &Path) {
    let (pairs, blocks) = expected();
    let device = byway::embedded::open(&format!("embedded:{}", path.display())).unwrap();
    let counted = device.details().counters.host;
    let mut kv = device.kv(None).unwrap();
    for (key, value) in &pairs {
        assert!(kv.get(key).unwrap().as_ref() == Some(value), "{}", String::from_utf8_lossy(key));
    }
    let keys: Vec<Vec<u8>> = kv.keys(None).map(|key| key.unwrap().as_bytes().to_vec()).collect();
    assert_eq!(keys, pairs.keys().cloned().collect::<Vec<_>>());
    let mut nvm = device.nvm(None).unwrap();
    for (lba, block) in &blocks {
        let mut found = vec![0xEE; LBA_BYTES];
        nvm.read(*lba, &mut found).unwrap();
        assert!(found == *block, "block {lba}");
    }
    kv.put(b"written later", b"by this program").unwrap();
    assert_eq!(kv.get(b"written later").unwrap().as_deref(), Some(&b"by this program"[..]));
    assert_eq!(device.details().counters.host.writes, counted.writes + 1, "counting begins, or goes on");
}

#[test]
fn the_golden_images_of_version_1_are_sound_and_hold_what_was_stored() {
    for name in ["v1-closed.img", "v1-unclosed.img"] {
        let (_dir, path) = golden(name);
        let checked = byway::check(&path, &mut |_, _, _| {}).unwrap();
        assert!(checked.is_clean(), "{name}: {:?}", checked.findings);
        holds_everything(&path);
        let checked = byway::check(&path, &mut |_, _, _| {}).unwrap();
        assert!(checked.is_clean(), "{name} after it was written to: {:?}", checked.findings);
    }
}

/// What two batches leave, of which the second deletes every third key of the first.
fn batches() -> [Vec<Change>; 2] {
    let key = |n: u32| format!("batch {n:02}").into_bytes();
    let first = (0..40).map(|n| (key(n), Some(value(n, n as usize * 9)))).collect();
    [first, (0..40).step_by(3).map(|n| (key(n), None)).collect()]
}

fn commit(kv: &mut byway::Kv, changes: &[Change]) {
    let mut batch = byway::Batch::new();
    for (key, value) in changes {
        match value {
            Some(value) => batch.put(key, value).unwrap(),
            None => batch.delete(key).unwrap(),
        }
    }
    kv.commit(&batch).unwrap();
}

#[test]
fn the_golden_image_that_ends_in_batches_holds_them_whole() {
    let (_dir, path) = golden("v1-batches.img");
    let device = byway::embedded::open(&format!("embedded:{}", path.display())).unwrap();
    let mut kv = device.kv(None).unwrap();
    let pairs: Pairs = kv
        .scan(byway::KeyRange::ALL)
        .map(|pair| pair.map(|(key, value)| (key.as_bytes().to_vec(), value)))
        .collect::<byway::Result<_>>()
        .unwrap();
    let mut expected = Pairs::new();
    for (key, value) in batches().concat() {
        match value {
            Some(value) => _ = expected.insert(key, value),
            None => _ = expected.remove(&key),
        }
    }
    assert_eq!(pairs, expected);
    drop((kv, device));
    assert!(byway::check(&path, &mut |_, _, _| {}).unwrap().is_clean());
}

#[test]
#[ignore = "makes the golden image with batches anew: only for a new version of the format"]
fn make_the_image_with_batches() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk.img");
    let options = CreateOptions::new(8 << 20).namespaces([NewNamespace::KV]).uuid(*b"byway-golden-two");
    byway::create(&path, &options).unwrap();
    let device = byway::embedded::open(&format!("embedded:{}", path.display())).unwrap();
    let mut kv = device.kv(None).unwrap();
    batches().iter().for_each(|changes| commit(&mut kv, changes));
    std::fs::write(folder().join("v1-batches.img"), pack(&path)).unwrap();
}

#[test]
#[ignore = "makes the golden images anew: only for a new version of the format"]
fn make_the_golden_images() {
    let dir = tempfile::tempdir().unwrap();
    let (path, unclosed) = (dir.path().join("disk.img"), dir.path().join("unclosed.img"));
    let nvm = NewNamespace { kind: MediaNamespaceKind::Nvm { lba_bytes: 512 }, size_bytes: Some(4 << 20) };
    let options = CreateOptions::new(16 << 20).namespaces([NewNamespace::KV, nvm]).uuid(*b"byway-golden-one");
    byway::create(&path, &options).unwrap();
    let uri = format!("embedded:{}", path.display());
    let device = byway::embedded::open(&uri).unwrap();
    fill(&device, 0);
    device.close().unwrap();
    let device = byway::embedded::open(&uri).unwrap();
    fill(&device, 1);
    copy_sparse(
        &File::open(&path).unwrap(),
        &CopyFile::new(File::create_new(&unclosed).unwrap(), &unclosed),
        |_| {},
    )
    .unwrap();
    device.close().unwrap();
    std::fs::create_dir_all(folder()).unwrap();
    for (path, name) in [(&path, "v1-closed.img"), (&unclosed, "v1-unclosed.img")] {
        holds_everything_in_a_copy(path);
        std::fs::write(folder().join(name), pack(path)).unwrap();
    }
}

fn holds_everything_in_a_copy(path: &Path) {
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join("copy.img");
    copy_sparse(&File::open(path).unwrap(), &CopyFile::new(File::create_new(&copy).unwrap(), &copy), |_| {})
        .unwrap();
    holds_everything(&copy);
}
