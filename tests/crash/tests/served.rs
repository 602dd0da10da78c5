//! SIGKILL of a process that serves a device, while this library's driver puts and deletes pairs from another: what was
//! acknowledged is there, whole, once the next server has the image, and what was under way is old or new.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use byway::{ErrorKind, Kv};
use byway_crash_tests::content::{key_of, value_of};
use byway_crash_tests::journal::Told;
use byway_crash_tests::life::is_refusal;
use byway_crash_tests::model::Model;
use byway_crash_tests::random::Random;
use byway_crash_tests::workload::{Op, Workload};

const SEED: u64 = 20_261_122;

/// Kills of one image, one after the other.
const KILLS: u64 = 6;

/// Longest time from a client's first command to the kill, in microseconds.
const LIFE_US: u64 = 24_000;

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
    fn serve(&self, idle: &str) -> (Child, BufReader<ChildStdout>) {
        let uri = format!("embedded:{}?memtable=2K&cache=256K", self.image().display());
        let mut server = Command::new(env!("CARGO_BIN_EXE_byway-crash-tests"))
            .args([Path::new("serve"), Path::new(&uri), self.socket().as_path(), Path::new(idle)])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(server.stdout.take().unwrap());
        out.read_line(&mut String::new()).unwrap();
        (server, out)
    }

    /// Has a client at work until its server is killed.
    fn live(&mut self, method: &str, idle: &str, instant: Duration) {
        let (mut server, _out) = self.serve(idle);
        let uri = format!("vfio-user:{}?transfer={method}", self.socket().display());
        let device = byway::open(&uri).unwrap();
        let mut pairs = device.kv(None).unwrap();
        let killer = std::thread::spawn(move || {
            std::thread::sleep(instant);
            server.kill().unwrap();
            server.wait().unwrap();
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
        let told = match &done {
            Ok(()) => Told::Done,
            Err(error) if is_refusal(error) => Told::Refused,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::DeviceLost, "{error}");
                Told::Begun
            }
        };
        self.acknowledged += u64::from(told == Told::Done);
        self.model.apply(step, told);
        told != Told::Begun
    }

    /// Compares what is left.
    fn judge(&mut self) {
        let checked = byway::check(self.image(), &mut |_, _, _| {}).unwrap();
        assert!(checked.findings.is_empty(), "{:?}", checked.findings);
        let device = byway::embedded::open(&format!("embedded:{}", self.image().display())).unwrap();
        self.model.check(&device).unwrap();
    }
}

fn nothing_is_lost(method: &str, idle: &str, workload: Workload) {
    let mut random = Random::new(SEED);
    let mut device = Device::new(workload);
    for _ in 0..KILLS {
        device.live(method, idle, Duration::from_micros(random.below(LIFE_US)));
        device.judge();
    }
    assert!(device.acknowledged > 0);
}

#[test]
fn a_killed_server_loses_nothing_that_was_put_through_its_device_memory() {
    for method in ["cxl", "cxl+piggyback"] {
        nothing_is_lost(method, "sleep", Workload::Put);
        nothing_is_lost(method, "poll", Workload::Overwrite);
    }
}

#[test]
fn a_killed_server_loses_nothing_that_was_put_by_any_other_method() {
    for method in ["prp", "sgl", "inline", "hybrid", "adaptive"] {
        nothing_is_lost(method, "sleep", Workload::Delete);
    }
}
