//! Queries that do not end by themselves: Abort, a device that closes, more queries than a device keeps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

use byway::spec::Command as Entry;
use byway::spec::vendor::{QueryCdw11, VendorOpcode};
use byway::{
    BackendQueue, Command, ErrorKind, Finished, Key, KvCommand, Nsid, Payload, Profile, QueueOptions,
    RawCommand, RawData, StoreOptions,
};
use byway_controller::{Identity, Subsystem, SubsystemOptions};
use byway_driver::{AttachOptions, Driver, Queue};
use byway_flash::{Flash, OpenOptions};
use byway_local::{Embedded, InProcessBus, QueryFailure, QueryOptions, QueryRunner, QueryTask, RunOptions};
use byway_spec::Status;

/// Far longer than anything here takes: a hang fails the test.
const LONG: Duration = Duration::from_secs(60);

/// Executes queries until they are cancelled, or released.
#[derive(Debug, Default)]
struct Endless {
    is_released: Arc<AtomicBool>,
    begun: Arc<AtomicU32>,
    ended: Arc<AtomicU32>,
}

impl QueryRunner for Endless {
    fn text_max_bytes(&self) -> u32 {
        1000
    }

    fn run(&self, task: &QueryTask<'_>) -> Result<(), QueryFailure> {
        self.begun.fetch_add(1, SeqCst);
        while !task.cancelled.load(SeqCst) && !self.is_released.load(SeqCst) {
            std::thread::yield_now();
        }
        self.ended.fetch_add(1, SeqCst);
        if !task.cancelled.load(SeqCst) {
            return Ok(());
        }
        Err(QueryFailure { status: Status::ABORT_REQUESTED, text: "cancelled".into() })
    }
}

/// A device whose queries do not end.
struct Device {
    queue: Queue<InProcessBus>,
    _driver: Driver<InProcessBus>,
    embedded: Embedded,
    is_released: Arc<AtomicBool>,
    begun: Arc<AtomicU32>,
    ended: Arc<AtomicU32>,
    _folder: tempfile::TempDir,
}

impl Device {
    fn new(options: QueryOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        byway::create(&path, &byway::CreateOptions::new(16 << 20)).unwrap();
        let flash = Flash::open(&path, OpenOptions::default().timing(false)).unwrap();
        let identity = Identity { nqn: "nqn.test".into(), serial: "1".into(), model: "test".into() };
        let profile = Profile::by_name("gen4x4").unwrap();
        let subsystem = Subsystem::new(identity, profile, flash, SubsystemOptions::default()).unwrap();
        let embedded = Embedded::start(subsystem, RunOptions::default()).unwrap();
        let runner = Endless::default();
        let (begun, ended) = (Arc::clone(&runner.begun), Arc::clone(&runner.ended));
        let is_released = Arc::clone(&runner.is_released);
        embedded.execute_queries(Box::new(runner), options).unwrap();
        let driver =
            Driver::attach(Arc::new(InProcessBus::new(&embedded)), AttachOptions::default()).unwrap();
        let mut queue = driver.queue(QueueOptions::default().timeout(LONG * 2)).unwrap();
        queue.execute(store()).unwrap();
        Self { queue, _driver: driver, embedded, is_released, begun, ended, _folder: folder }
    }

    fn next(&mut self) -> Finished {
        self.queue.next_within(LONG).unwrap().expect("a command is lost")
    }
}

fn store() -> Command {
    let (key, value) = (Key::new(b"key").unwrap(), Payload::copy_of(b"value").unwrap());
    KvCommand::Store { nsid: Nsid::FIRST, key, value, options: StoreOptions::NONE }.into()
}

fn query() -> Command {
    let key = Key::new(b"key").unwrap();
    let mut entry = Entry::new(VendorOpcode::QUERY.0, 0, 1);
    entry.set_key(key.padded());
    (entry.cdw10, entry.cdw11) = (8, QueryCdw11::new().with_key_len(3).into_bits());
    RawCommand { entry, data: RawData::ToDevice(Payload::copy_of(b"SELECT 1").unwrap()) }.into()
}

fn until(count: &AtomicU32, is: u32) {
    let begun = Instant::now();
    while count.load(SeqCst) != is {
        assert!(begun.elapsed() < LONG, "{} and not {is}", count.load(SeqCst));
        std::thread::yield_now();
    }
}

#[test]
fn abort_ends_a_query_and_the_queue_serves_on() {
    let mut device = Device::new(QueryOptions::default());
    device.queue.submit(query(), 7).unwrap();
    until(&device.begun, 1);
    // The query keeps no other command of its queue waiting.
    device.queue.submit(store(), 8).unwrap();
    assert_eq!(device.next().tag, 8);
    device.queue.cancel(7).unwrap();
    let finished = device.next();
    assert_eq!(finished.tag, 7);
    assert_eq!(finished.result.unwrap_err().error.kind(), ErrorKind::Cancelled);
    until(&device.ended, 1);
    device.queue.execute(store()).unwrap();
}

#[test]
fn query_that_ends_while_its_queue_is_busy_is_completed() {
    let mut device = Device::new(QueryOptions::default());
    device.queue.submit(query(), 7).unwrap();
    until(&device.begun, 1);
    for _ in 0..200 {
        device.queue.execute(store()).unwrap();
    }
    device.is_released.store(true, SeqCst);
    let finished = device.next();
    assert_eq!((finished.tag, finished.result.is_ok()), (7, true));
}

#[test]
fn device_closes_while_its_queries_run() {
    let mut device = Device::new(QueryOptions::default());
    device.queue.submit(query(), 7).unwrap();
    device.queue.submit(query(), 8).unwrap();
    until(&device.begun, 2);
    let ended = Arc::clone(&device.ended);
    drop(device);
    assert_eq!(ended.load(SeqCst), 2);
}

#[test]
fn more_queries_than_run_at_a_time_wait_and_more_than_are_kept_are_refused() {
    let mut options = QueryOptions::default();
    (options.running, options.kept) = (1, 2);
    let mut device = Device::new(options);
    device.queue.submit(query(), 0).unwrap();
    device.queue.submit(query(), 1).unwrap();
    device.queue.submit(query(), 2).unwrap();
    let refused = device.next();
    assert_eq!(refused.tag, 2);
    assert!(refused.result.unwrap_err().error.nvme_status().unwrap().is(Status::QUERY_RESOURCES_EXCEEDED));
    until(&device.begun, 1);
    device.queue.cancel(0).unwrap();
    assert_eq!(device.next().tag, 0);
    until(&device.begun, 2);
}

#[test]
fn query_that_waits_too_long_for_a_thread_fails_while_the_others_run() {
    let mut options = QueryOptions::default();
    (options.running, options.wait_max) = (1, Duration::from_millis(1));
    let mut device = Device::new(options);
    device.queue.submit(query(), 0).unwrap();
    until(&device.begun, 1);
    device.queue.submit(query(), 1).unwrap();
    let failed = device.next();
    assert_eq!(failed.tag, 1);
    assert!(failed.result.unwrap_err().error.nvme_status().unwrap().is(Status::QUERY_NOT_BEGUN));
    device.is_released.store(true, SeqCst);
    assert_eq!(device.next().tag, 0);
    assert_eq!(device.begun.load(SeqCst), 1);
}

#[test]
fn second_engine_takes_the_place_of_the_first_whose_threads_end_with_the_device() {
    let mut device = Device::new(QueryOptions::default());
    device.queue.submit(query(), 0).unwrap();
    until(&device.begun, 1);
    let second = Endless::default();
    let ended = [Arc::clone(&device.ended), Arc::clone(&second.ended)];
    let begun = Arc::clone(&second.begun);
    device.embedded.execute_queries(Box::new(second), QueryOptions::default()).unwrap();
    let failed = device.next();
    assert!(failed.result.unwrap_err().error.nvme_status().unwrap().is(Status::QUERY_FAILED));
    device.queue.submit(query(), 1).unwrap();
    until(&begun, 1);
    drop(device);
    assert_eq!(ended.map(|ended| ended.load(SeqCst)), [1, 1]);
}
