//! SIGKILL of a process that serves a device, while this library puts and deletes pairs from another, by its driver or over the
//! network: what was acknowledged is there, whole, once the next server has the image, and what was under way is old or new. And
//! SIGKILL of hosts, which affects no other host.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use byway::{ErrorKind, Kv};
use byway_crash_tests::content::{LONG_BYTES, LONG_KEYS, key_of, value_of};
use byway_crash_tests::journal::StepState;
use byway_crash_tests::life::is_refusal;
use byway_crash_tests::model::Model;
use byway_crash_tests::workload::{Op, Workload};
use byway_kit::Random;

const SEED: u64 = 20_261_122;

/// Kills of one image, one after the other.
const KILLS: u64 = 6;

/// Longest time from a client's first command to the kill, in microseconds.
const LIFE_US: u64 = 24_000;

/// Hosts that are killed, one after the other.
const KILLED_HOSTS: u64 = 24;

/// By what a client reaches its server.
#[derive(Clone, Copy)]
enum Front {
    Socket,
    Network,
}

/// A front, and options of the client's URI.
type Way<'a> = (Front, &'a str);

/// A process that is killed when it is dropped.
struct Process {
    child: Child,
    _out: BufReader<ChildStdout>,
    /// Its first line.
    said: String,
}

impl Process {
    fn start(args: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_byway-crash-tests"));
        let mut child = command.args(args).stdout(Stdio::piped()).spawn().unwrap();
        let (mut out, mut said) = (BufReader::new(child.stdout.take().unwrap()), String::new());
        out.read_line(&mut said).unwrap();
        assert!(said.ends_with('\n'), "it ended before it was ready");
        Self { child, _out: out, said: said.trim_end().to_owned() }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// An image that is served, killed and served again.
struct Device {
    folder: tempfile::TempDir,
    workload: Workload,
    model: Model,
    next_step: u64,
    acknowledged: u64,
}

impl Device {
    fn new(workload: Workload) -> Self {
        let folder = tempfile::tempdir().unwrap();
        byway::create(folder.path().join("image"), &workload.image()).unwrap();
        Self { folder, workload, model: Model::new(workload, SEED), next_step: 1, acknowledged: 0 }
    }

    fn image(&self) -> PathBuf {
        self.folder.path().join("image")
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// A server in a process of its own, which listens.
    fn serve(&self, front: Front, idle: &str) -> Process {
        let uri = format!("embedded:{}?memtable=2K&cache=256K", self.image().display());
        let socket = self.socket();
        let place = match front {
            Front::Socket => socket.to_str().unwrap(),
            Front::Network => "127.0.0.1:0",
        };
        Process::start(&["serve", &uri, place, idle])
    }

    /// Has a client at work until its server is killed.
    fn live(&mut self, (front, options): Way, idle: &str, instant: Duration) {
        let server = self.serve(front, idle);
        let device = byway::open(&format!("{}?{options}", server.said)).unwrap();
        let mut pairs = device.kv(None).unwrap();
        let killer = std::thread::spawn(move || {
            std::thread::sleep(instant);
            drop(server);
        });
        while self.step(&mut pairs) {}
        killer.join().unwrap();
    }

    /// One step; whether the server is still there.
    fn step(&mut self, pairs: &mut Kv) -> bool {
        let step = self.next_step;
        self.next_step += 1;
        let done = match self.workload.op(SEED, step) {
            Op::Put { key, .. } => {
                let len = self.workload.len(SEED, step, key) as usize;
                pairs.put(&key_of(key), &value_of(step, key, len))
            }
            Op::Delete { key } => pairs.delete(&key_of(key)),
            other => panic!("{other:?}"),
        };
        let state = match &done {
            Ok(()) => StepState::Done,
            Err(error) if is_refusal(error) => StepState::Refused,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::DeviceLost, "{error}");
                StepState::Begun
            }
        };
        self.acknowledged += u64::from(state == StepState::Done);
        self.model.apply(step, state);
        state != StepState::Begun
    }

    /// Compares what is left.
    fn verify(&mut self) {
        let checked = byway::check(self.image(), &mut |_, _, _| {}).unwrap();
        assert!(checked.findings.is_empty(), "{:?}", checked.findings);
        let device = byway::embedded::open(&format!("embedded:{}", self.image().display())).unwrap();
        self.model.check(&device).unwrap();
    }
}

fn nothing_is_lost(way: Way, idle: &str, workload: Workload) {
    let mut random = Random::starting_at(SEED, 1);
    let mut device = Device::new(workload);
    for _ in 0..KILLS {
        device.live(way, idle, Duration::from_micros(random.below(LIFE_US)));
        device.verify();
    }
    assert!(device.acknowledged > 0);
}

#[test]
fn a_killed_server_loses_nothing_that_was_put_through_its_device_memory() {
    for method in ["cxl", "cxl+piggyback"] {
        nothing_is_lost((Front::Socket, &format!("transfer={method}")), "sleep", Workload::Put);
        nothing_is_lost((Front::Socket, &format!("transfer={method}")), "poll", Workload::Overwrite);
    }
}

#[test]
fn a_killed_server_loses_nothing_that_was_put_by_any_other_method() {
    for method in ["prp", "sgl", "inline", "hybrid", "adaptive"] {
        nothing_is_lost((Front::Socket, &format!("transfer={method}")), "sleep", Workload::Delete);
    }
}

#[test]
fn a_killed_server_loses_nothing_that_was_put_over_the_network() {
    // A server that is gone is looked for no more.
    let way = (Front::Network, "ctrl-loss-tmo=0");
    nothing_is_lost(way, "sleep", Workload::Put);
    nothing_is_lost((Front::Network, "ctrl-loss-tmo=0&digests=both"), "poll", Workload::Overwrite);
    nothing_is_lost(way, "sleep", Workload::Delete);
}

#[test]
fn hosts_that_are_killed_in_mid_transfer_leave_whole_values_and_affect_no_other() {
    let mut random = Random::starting_at(SEED, 1);
    let device = Device::new(Workload::Put);
    let server = device.serve(Front::Network, "sleep");
    let bystander = byway::open(&server.said).unwrap();
    let mut pairs = bystander.kv(None).unwrap();
    let mut left = 0;
    for round in 0..KILLED_HOSTS {
        let host = Process::start(&["put", &server.said]);
        std::thread::sleep(Duration::from_micros(random.below(LIFE_US)));
        drop(host);
        pairs.put(b"bystander", &value_of(round, LONG_KEYS, LONG_BYTES)).unwrap();
        assert!(pairs.get(b"bystander").unwrap().unwrap() == value_of(round, LONG_KEYS, LONG_BYTES));
        for key in 0..LONG_KEYS {
            let Some(value) = pairs.get(&key_of(key)).unwrap() else { continue };
            let step = u64::from_le_bytes(value[..8].try_into().unwrap());
            assert!(value == value_of(step, key, LONG_BYTES), "a torn value of key {key}");
            left += 1;
        }
    }
    assert!(left > 0);
    drop((pairs, bystander, server));
    let checked = byway::check(device.image(), &mut |_, _, _| {}).unwrap();
    assert!(checked.findings.is_empty(), "{:?}", checked.findings);
}
