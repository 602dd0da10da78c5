//! Readers of an image beside the process that writes it: they see what it committed, and nothing torn.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use byway::embedded::EmbeddedDevice;
use byway::{CreateOptions, ErrorKind, Kv, NewNamespace, Nvm, Wipe};
use byway_kit::{Random, pattern};

const KEYS: u64 = 400;
const BLOCKS: u64 = 256;
const BLOCK_BYTES: usize = 4096;
/// Reads of each reader process.
const READS: u64 = 20_000;
/// Commands of the writer that overwrite everything several times.
const ROUND: u64 = 6_000;

const ROLE: &str = "BYWAY_FOLLOW_ROLE";
const FOLDER: &str = "BYWAY_FOLLOW_FOLDER";

/// What the writer has done, in a file: of each key and block the version that was acknowledged last, and the number of commands.
struct Progress(File);

impl Progress {
    fn open(folder: &Path) -> Self {
        let mut how = OpenOptions::new();
        let file = how.read(true).write(true).create(true).truncate(false).open(folder.join("progress"));
        let file = file.unwrap();
        file.set_len((KEYS + BLOCKS + 1) * 8).unwrap();
        Self(file)
    }

    fn of(&self, place: u64) -> u64 {
        let mut word = [0; 8];
        self.0.read_exact_at(&mut word, place * 8).unwrap();
        u64::from_le_bytes(word)
    }

    fn set(&self, place: u64, version: u64) {
        self.0.write_all_at(&version.to_le_bytes(), place * 8).unwrap();
    }

    fn commands(&self) -> u64 {
        self.of(KEYS + BLOCKS)
    }

    /// Waits until the writer has done so many more commands.
    fn wait_for(&self, commands: u64) {
        let end = self.commands() + commands;
        while self.commands() < end {
            std::thread::yield_now();
        }
    }
}

/// A value that says whose it is and which version; every 16th version deletes the key.
fn value(key: u64, version: u64) -> Option<Vec<u8>> {
    if version.is_multiple_of(16) {
        return None;
    }
    let len = match version % 50 {
        1 => 30_000,
        2..10 => 4096,
        _ => 16 + version as usize * 7 % 900,
    };
    Some(tagged(key, version, len))
}

fn tagged(place: u64, version: u64, len: usize) -> Vec<u8> {
    let mut bytes = pattern(place << 32 ^ version, len.max(16));
    bytes[..8].copy_from_slice(&place.to_le_bytes());
    bytes[8..16].copy_from_slice(&version.to_le_bytes());
    bytes
}

fn key_of(key: u64) -> [u8; 8] {
    key.to_be_bytes()
}

/// The options of a device with short tables, so that it flushes, merges and compacts all the time.
fn open(folder: &Path, options: &str) -> EmbeddedDevice {
    byway::embedded::open(&format!("embedded:{}?{options}", folder.join("disk.img").display())).unwrap()
}

const WRITER: &str = "memtable=16K&cache=256K";
const FOLLOWER: &str = "follow=1&cache=256K";

fn create(folder: &Path) {
    let kv = NewNamespace { size_bytes: Some(8 << 20), ..NewNamespace::KV };
    let nvm = NewNamespace { size_bytes: Some(BLOCKS * BLOCK_BYTES as u64), ..NewNamespace::NVM };
    let options = CreateOptions::new(16 << 20).namespaces([kv, nvm]);
    byway::create(folder.join("disk.img"), &options).unwrap();
}

/// Overwrites keys and blocks until it is killed.
fn write_until_killed(folder: &Path) {
    let progress = Progress::open(folder);
    let device = open(folder, WRITER);
    let (mut kv, mut nvm) = (device.kv(None).unwrap(), device.nvm(None).unwrap());
    let mut random = Random::new(progress.commands());
    let per_block = BLOCK_BYTES as u64 / u64::from(nvm.lba_bytes());
    loop {
        if random.one_in(4) {
            let block = random.below(BLOCKS);
            let version = progress.of(KEYS + block) + 1;
            nvm.write(block * per_block, &tagged(block, version, BLOCK_BYTES)).unwrap();
            progress.set(KEYS + block, version);
        } else {
            let key = random.below(KEYS);
            let version = progress.of(key) + 1;
            match value(key, version) {
                Some(value) => kv.put(&key_of(key), &value).unwrap(),
                None => kv.delete(&key_of(key)).unwrap(),
            }
            progress.set(key, version);
        }
        progress.set(KEYS + BLOCKS, progress.commands() + 1);
    }
}

/// What a reader has seen.
struct Reader {
    progress: Progress,
    kv: Kv,
    nvm: Nvm,
    seen: Vec<u64>,
}

impl Reader {
    fn new(folder: &Path, device: &EmbeddedDevice) -> Self {
        let seen = vec![0; (KEYS + BLOCKS) as usize];
        Self {
            progress: Progress::open(folder),
            kv: device.kv(None).unwrap(),
            nvm: device.nvm(None).unwrap(),
            seen,
        }
    }

    /// Reads a key, which is of no version before the one that was acknowledged or seen last.
    fn read_key(&mut self, key: u64) {
        let least = self.progress.of(key).max(self.seen[key as usize]);
        let found = self.kv.get(&key_of(key)).unwrap();
        // The writer may be ahead of what it said by one command.
        let most = self.progress.of(key) + 1;
        let version = match &found {
            Some(bytes) => {
                let version = u64::from_le_bytes(bytes[8..16].try_into().unwrap());
                assert_eq!(found, value(key, version), "key {key}, version {version}");
                version
            }
            None => match (least..=most).find(|version| value(key, *version).is_none()) {
                Some(version) => version,
                None => panic!("key {key} is missing: versions {least} to {most}"),
            },
        };
        assert!((least..=most).contains(&version), "key {key}: {version} of {least} to {most}");
        self.seen[key as usize] = version;
    }

    fn read_block(&mut self, block: u64) {
        let place = KEYS + block;
        let least = self.progress.of(place).max(self.seen[place as usize]);
        let mut bytes = vec![0; BLOCK_BYTES];
        self.nvm.read(block * (BLOCK_BYTES as u64 / u64::from(self.nvm.lba_bytes())), &mut bytes).unwrap();
        let most = self.progress.of(place) + 1;
        let version = u64::from_le_bytes(bytes[8..16].try_into().unwrap());
        if version > 0 {
            assert_eq!(bytes, tagged(block, version, BLOCK_BYTES), "block {block}");
        }
        assert!((least..=most).contains(&version), "block {block}: {version} of {least} to {most}");
        self.seen[place as usize] = version;
    }

    fn read_some(&mut self, random: &mut Random) {
        match random.below(50) {
            0 => drop(self.kv.keys(None).collect::<Result<Vec<_>, _>>().unwrap()),
            1..15 => self.read_block(random.below(BLOCKS)),
            _ => self.read_key(random.below(KEYS)),
        }
    }

    fn read_all(&mut self) {
        (0..KEYS).for_each(|key| self.read_key(key));
        (0..BLOCKS).for_each(|block| self.read_block(block));
    }
}

fn read_beside(folder: &Path, seed: u64) {
    let device = open(folder, FOLLOWER);
    let (mut reader, mut random) = (Reader::new(folder, &device), Random::new(seed));
    println!("\nreads");
    (0..READS).for_each(|_| reader.read_some(&mut random));
    reader.read_all();
}

fn spawn(folder: &Path, role: &str) -> Child {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "follow::readers_beside_a_writer_see_what_it_committed", "--nocapture"])
        .env(FOLDER, folder)
        .env(ROLE, role)
        .stdout(Stdio::piped())
        .spawn();
    child.unwrap()
}

/// A reader that has its image open.
fn spawn_reader(folder: &Path, seed: u64) -> Child {
    let mut child = spawn(folder, &seed.to_string());
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(said.any(|line| line == "reads"), "a reader opens its image");
    // What else it says is dropped with the pipe only at its end.
    std::thread::spawn(move || said.for_each(drop));
    child
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

#[test]
fn readers_beside_a_writer_see_what_it_committed() {
    if let (Ok(role), Some(folder)) = (std::env::var(ROLE), std::env::var_os(FOLDER)) {
        return match role.parse() {
            Ok(seed) => read_beside(Path::new(&folder), seed),
            Err(_) => write_until_killed(Path::new(&folder)),
        };
    }
    let dir = tempfile::tempdir().unwrap();
    create(dir.path());
    let progress = Progress::open(dir.path());
    let mut writer = spawn(dir.path(), "writer");
    progress.wait_for(1000);
    let mut readers: Vec<Child> = (1..=2).map(|seed| spawn_reader(dir.path(), seed)).collect();
    // Stopped wherever it is, until all that it may be copying is overwritten.
    let mut sleeper = spawn_reader(dir.path(), 3);
    for _ in 0..4 {
        progress.wait_for(50);
        signal(&sleeper, "-STOP");
        progress.wait_for(ROUND);
        signal(&sleeper, "-CONT");
    }
    for seed in 10..20 {
        let mut killed = spawn_reader(dir.path(), seed);
        progress.wait_for(20 + seed * 7);
        killed.kill().unwrap();
        killed.wait().unwrap();
    }
    for reader in readers.iter_mut().chain([&mut sleeper]) {
        assert!(reader.wait().unwrap().success(), "a reader found something wrong");
    }
    let device = open(dir.path(), FOLLOWER);
    let mut own = Reader::new(dir.path(), &device);
    own.read_all();
    writer.kill().unwrap();
    writer.wait().unwrap();
    own.read_all();
    let mut writer = spawn(dir.path(), "writer");
    progress.wait_for(ROUND);
    own.read_all();
    writer.kill().unwrap();
    writer.wait().unwrap();
    own.read_all();
    drop((own, device));
    assert!(byway::check(dir.path().join("disk.img"), &mut |_, _, _| {}).unwrap().is_clean());
}

#[test]
fn follower_refuses_writes_and_leaves_the_image_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    create(dir.path());
    let device = open(dir.path(), WRITER);
    device.kv(None).unwrap().put(b"key", b"value").unwrap();
    device.close().unwrap();
    let path = dir.path().join("disk.img");
    let before = std::fs::read(&path).unwrap();
    let follower = open(dir.path(), FOLLOWER);
    let (mut kv, mut nvm) = (follower.kv(None).unwrap(), follower.nvm(None).unwrap());
    assert_eq!(kv.get(b"key").unwrap().unwrap(), b"value");
    assert_eq!(kv.put(b"key", b"other").unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(kv.delete(b"key").unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(nvm.write(0, &[1; BLOCK_BYTES]).unwrap_err().kind(), ErrorKind::Denied);
    let mut block = [1; BLOCK_BYTES];
    nvm.read(0, &mut block).unwrap();
    assert_eq!(block, [0; BLOCK_BYTES]);
    follower.close().unwrap();
    assert!(std::fs::read(&path).unwrap() == before, "the image was changed");
}

#[test]
fn follower_goes_on_through_shutdown_restart_and_resize() {
    let dir = tempfile::tempdir().unwrap();
    create(dir.path());
    let follower = open(dir.path(), FOLLOWER);
    let mut kv = follower.kv(None).unwrap();
    for round in 0..5_u8 {
        let device = open(dir.path(), WRITER);
        let mut own = device.kv(None).unwrap();
        for n in 0..200_u8 {
            own.put(&[n], &[round; 500]).unwrap();
            assert_eq!(kv.get(&[n]).unwrap().unwrap(), [round; 500]);
        }
        drop(own);
        device.close().unwrap();
        assert_eq!(kv.get(&[round]).unwrap().unwrap(), [round; 500]);
        let path = dir.path().join("disk.img");
        let size_bytes = (16 + u64::from(round) * 4) << 20;
        byway::resize(&path, size_bytes, &[], &mut |_, _| ControlFlow::Continue(())).unwrap();
        assert_eq!(kv.get(&[7]).unwrap().unwrap(), [round; 500]);
    }
}

#[test]
fn image_in_use_is_read_by_a_follower_where_reading_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    create(dir.path());
    let device = open(dir.path(), WRITER);
    device.kv(None).unwrap().put(b"key", b"value").unwrap();
    let uri = format!("embedded:{}", dir.path().join("disk.img").display());
    let refused = byway::open(&uri).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Busy);
    assert!(refused.to_string().contains("follow=1"), "{refused}");
    let reader = byway::open_to_read(&uri).unwrap();
    assert_eq!(reader.kv(None).unwrap().get(b"key").unwrap().unwrap(), b"value");
}

#[test]
fn follower_sees_a_format_and_a_sanitize_of_the_writer() {
    let dir = tempfile::tempdir().unwrap();
    create(dir.path());
    let writer =
        byway::open(&format!("embedded:{}?{WRITER}", dir.path().join("disk.img").display())).unwrap();
    let follower = open(dir.path(), FOLLOWER);
    let (mut own, mut kv) = (writer.kv(None).unwrap(), follower.kv(None).unwrap());
    let (mut blocks, mut nvm) = (writer.nvm(None).unwrap(), follower.nvm(None).unwrap());
    for round in 0..3_u8 {
        own.put(b"key", &[round; 9]).unwrap();
        blocks.write(8, &[round + 1; BLOCK_BYTES]).unwrap();
        assert_eq!(kv.get(b"key").unwrap().unwrap(), [round; 9]);
        let mut block = [0; BLOCK_BYTES];
        nvm.read(8, &mut block).unwrap();
        assert_eq!(block, [round + 1; BLOCK_BYTES]);
        if round == 1 {
            writer.sanitize(Wipe::BlockErase, |_| ControlFlow::Continue(())).unwrap();
        } else {
            writer.format(kv.nsid(), 0, false).unwrap();
            writer.format(nvm.nsid(), 0, false).unwrap();
        }
        assert_eq!(kv.get(b"key").unwrap(), None);
        assert_eq!(kv.keys(None).count(), 0);
        nvm.read(8, &mut block).unwrap();
        assert_eq!(block, [0; BLOCK_BYTES]);
    }
}
