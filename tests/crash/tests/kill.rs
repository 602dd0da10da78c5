//! SIGKILL in the middle of an import, by every transfer method: what was acknowledged is there, whole, and nothing
//! else changed.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::{PoisonError, RwLock, mpsc};
use std::time::Duration;

use byway::{BackendQueue, CreateOptions, ErrorKind, Key, KvCommand, Nsid, Payload, StoreOptions};
use byway_crash_tests::{KEYS, key_of, value_of};

const URI: &str = "BYWAY_TEST_KILL_URI";
const FIRST_STEP: &str = "BYWAY_TEST_KILL_FIRST_STEP";
const OUTSTANDING: &str = "BYWAY_TEST_KILL_OUTSTANDING";
const KILLS: u64 = 20;
/// Puts on their way at once, in the kills where there is more than one.
const DEPTH: u64 = 8;

/// Held for writing while a process starts: until it runs its own program it holds the image of every other test that
/// has one open, and its lock.
static STARTING: RwLock<()> = RwLock::new(());

/// One life of a writer.
struct Life {
    first: u64,
    outstanding: u64,
    /// Whether the time runs from the start of the process, or from when the image is open.
    from_start: bool,
    time: Duration,
}

/// What each key may hold.
#[derive(Default)]
struct Model {
    /// The step whose value a key has for certain.
    certain: BTreeMap<[u8; 8], u64>,
}

impl Model {
    /// The image after a life: each key has its last acknowledged value, or that of a put that was on its way.
    fn check(&mut self, uri: &str, life: &Life, done: &BTreeSet<u64>) {
        let end = next_step(life, done);
        let mut under_way: BTreeMap<[u8; 8], Vec<u64>> = BTreeMap::new();
        for step in life.first..end {
            match done.contains(&step) {
                true => _ = self.certain.insert(key_of(step), step),
                false => under_way.entry(key_of(step)).or_default().push(step),
            }
        }
        let _nobody_starts = STARTING.read().unwrap_or_else(PoisonError::into_inner);
        let device = byway::open(uri).unwrap();
        let mut kv = device.kv(None).unwrap();
        let mut present = 0;
        for key in (0..KEYS).map(key_of) {
            let found = kv.get(&key).unwrap();
            present += usize::from(found.is_some());
            let certain = self.certain.get(&key).copied();
            let mut newer = under_way.get(&key).into_iter().flatten().filter(|step| Some(**step) > certain);
            if let Some(step) = newer.find(|step| found.as_deref() == Some(&value_of(**step)[..])) {
                self.certain.insert(key, *step);
                continue;
            }
            assert!(found == certain.map(value_of), "key {key:?} lost the value of step {certain:?}");
        }
        assert_eq!(kv.keys(None).count(), present, "a key that nobody put");
    }
}

/// The first step that a life cannot have begun.
fn next_step(life: &Life, done: &BTreeSet<u64>) -> u64 {
    done.last().map_or(life.first, |last| last + 1) + life.outstanding
}

fn killed_by(method: &str) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.img");
    {
        let _nobody_starts = STARTING.read().unwrap_or_else(PoisonError::into_inner);
        byway::create(&path, &CreateOptions::new(48 << 20)).unwrap();
    }
    let uri = format!("embedded:{}?transfer={method}", path.display());
    let (mut model, mut first, mut puts) = (Model::default(), 1, 0);
    for kill in 0..KILLS {
        let mixed = (kill + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
        let from_start = kill % 5 == 4;
        let time = Duration::from_micros(mixed % 25_000);
        let life = Life { first, outstanding: if kill % 2 == 0 { 1 } else { DEPTH }, from_start, time };
        let done = run_and_kill(&uri, &life);
        model.check(&uri, &life, &done);
        puts += done.len() as u64;
        first = next_step(&life, &done);
    }
    assert!(puts > 10 * KILLS, "{method}: the writer came to write: {puts} puts");
}

/// Runs a writer, kills it, and says what it acknowledged.
fn run_and_kill(uri: &str, life: &Life) -> BTreeSet<u64> {
    let starting = STARTING.write().unwrap_or_else(PoisonError::into_inner);
    let mut writer = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_writer_puts_until_it_is_killed", "--nocapture"])
        .env(URI, uri)
        .env(FIRST_STEP, life.first.to_string())
        .env(OUTSTANDING, life.outstanding.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(starting);
    let said = BufReader::new(writer.stdout.take().unwrap());
    let (opened, is_open) = mpsc::channel();
    let listener = std::thread::spawn(move || {
        let mut done = BTreeSet::new();
        for line in said.lines().map_while(Result::ok) {
            if line == "open" {
                let _ = opened.send(());
            }
            done.extend(line.strip_prefix("done ").map(|step| step.parse::<u64>().unwrap()));
        }
        done
    });
    if !life.from_start {
        // A writer that cannot open the image ends, and its end of the channel with it.
        let _ = is_open.recv();
    }
    std::thread::sleep(life.time);
    let running = writer.try_wait().unwrap().is_none();
    writer.kill().unwrap();
    writer.wait().unwrap();
    assert!(running, "the writer ended by itself");
    listener.join().unwrap()
}

/// The writer, in a process of its own: says each put once it is acknowledged. Where nobody started one, this does
/// nothing.
#[test]
fn the_writer_puts_until_it_is_killed() {
    let Ok(uri) = std::env::var(URI) else { return };
    let number = |name| std::env::var(name).unwrap().parse::<u64>().unwrap();
    let (first, outstanding) = (number(FIRST_STEP), number(OUTSTANDING));
    let device = byway::open(&uri).unwrap();
    let mut kv = device.kv(None).unwrap();
    say("\nopen");
    if outstanding == 1 {
        for step in first.. {
            kv.put(&key_of(step), &value_of(step)).unwrap();
            say(&format!("done {step}"));
        }
    }
    let nsid = kv.nsid();
    put_queued(kv.queue(), nsid, first, outstanding);
}

fn put_queued(queue: &mut impl BackendQueue, nsid: Nsid, first: u64, outstanding: u64) {
    let mut step = first;
    loop {
        while u64::from(queue.outstanding()) < outstanding && submitted(queue, nsid, step) {
            step += 1;
        }
        let told = &mut |finished: byway::Finished| {
            finished.result.map_err(byway::Error::from).unwrap();
            say(&format!("done {}", finished.tag));
        };
        queue.wait(1, Duration::from_secs(10), told).unwrap();
    }
}

/// Submits a put, unless the ring has no slots for it now.
fn submitted(queue: &mut impl BackendQueue, nsid: Nsid, step: u64) -> bool {
    let value = Payload::copy_of(&value_of(step)).unwrap();
    let key = Key::new(&key_of(step)).unwrap();
    let store = KvCommand::Store { nsid, key, value, options: StoreOptions::NONE };
    match queue.submit(byway::Command::Kv(store), step).map_err(byway::Error::from) {
        Ok(()) => true,
        Err(error) if error.kind() == ErrorKind::QueueFull => false,
        Err(error) => panic!("{error}"),
    }
}

/// One line by one write, so that a killed writer leaves whole lines.
fn say(line: &str) {
    std::io::stdout().write_all(format!("{line}\n").as_bytes()).unwrap();
}

#[test]
fn a_killed_import_by_prp_loses_nothing_acknowledged() {
    killed_by("prp");
}

#[test]
fn a_killed_import_by_sgl_loses_nothing_acknowledged() {
    killed_by("sgl");
}

#[test]
fn a_killed_import_by_piggyback_loses_nothing_acknowledged() {
    killed_by("piggyback");
}

#[test]
fn a_killed_import_by_pass_through_piggyback_loses_nothing_acknowledged() {
    killed_by("piggyback-pt");
}

#[test]
fn a_killed_import_by_prp_and_tail_loses_nothing_acknowledged() {
    killed_by("prp+tail");
}

#[test]
fn a_killed_import_by_inline_loses_nothing_acknowledged() {
    killed_by("inline");
}

#[test]
fn a_killed_import_by_hybrid_loses_nothing_acknowledged() {
    killed_by("hybrid");
}

#[test]
fn a_killed_import_through_device_memory_loses_nothing_acknowledged() {
    killed_by("cxl");
}

#[test]
fn a_killed_import_through_device_memory_and_piggyback_loses_nothing_acknowledged() {
    killed_by("cxl+piggyback");
}

#[test]
fn a_killed_import_by_whatever_is_cheapest_loses_nothing_acknowledged() {
    killed_by("adaptive");
}
