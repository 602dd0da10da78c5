//! The device's code panics: every thread gets an error, no thread hangs, and the image is as after a kill.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use byway::{
    BackendQueue, CreateOptions, Error, ErrorKind, FileEvents, Key, KvCommand, Nsid, Payload, Profile,
    QueueOptions, StoreOptions,
};
use byway_controller::{Identity, Subsystem, SubsystemOptions};
use byway_driver::{AttachOptions, Driver, Queue};
use byway_flash::{Durability, Flash, OpenOptions};
use byway_local::{Embedded, Failed, InProcessBus, RunBy, RunOptions};

/// Far longer than anything here takes: a hang fails the test.
const LONG: Duration = Duration::from_secs(60);

/// Panics at the next sync, or the next write of a page, once it is set.
#[derive(Debug, Default)]
struct Trap {
    is_set: AtomicBool,
    at_write: bool,
}

impl Trap {
    fn spring(&self) -> io::Result<()> {
        assert!(!self.is_set.load(Relaxed), "a trap");
        Ok(())
    }
}

impl FileEvents for Trap {
    fn before_write(&self, _: u64, _: u64) -> io::Result<()> {
        if self.at_write { self.spring() } else { Ok(()) }
    }

    fn before_allocate(&self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn before_punch(&self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn before_sync(&self) -> io::Result<()> {
        if self.at_write { Ok(()) } else { self.spring() }
    }

    fn after_sync(&self) {}
}

/// A device with a trap, and queues of two threads.
struct Device {
    queues: Vec<Queue<InProcessBus>>,
    _driver: Driver<InProcessBus>,
    embedded: Embedded,
}

impl Device {
    fn open(path: &Path, trap: &Arc<Trap>, run_by: RunBy) -> Self {
        let run = byway_flash::RunOptions::default().durability(Durability::Media).events(Some(trap.clone()));
        let flash = Flash::open(path, OpenOptions::default().timing(false).run(run)).unwrap();
        let identity = Identity { nqn: "nqn.test".into(), serial: "1".into(), model: "test".into() };
        let profile = Profile::by_name("gen4x4").unwrap();
        let subsystem = Subsystem::new(identity, profile, flash, SubsystemOptions::default()).unwrap();
        let embedded = Embedded::start(subsystem, RunOptions::default().run_by(run_by)).unwrap();
        let driver =
            Driver::attach(Arc::new(InProcessBus::new(&embedded)), AttachOptions::default()).unwrap();
        let options = QueueOptions::default().timeout(LONG * 2);
        let queues = (0..2).map(|_| driver.queue(options).unwrap()).collect();
        Self { queues, _driver: driver, embedded }
    }
}

fn put(queue: &mut Queue<InProcessBus>, key: u8, len: usize) -> Result<(), Error> {
    let store = KvCommand::Store {
        nsid: Nsid::FIRST,
        key: Key::new(&[key]).unwrap(),
        value: Payload::copy_of(&vec![key; len]).unwrap(),
        options: StoreOptions::NONE,
    };
    queue.execute(store.into()).map(drop)
}

fn image(folder: &Path) -> std::path::PathBuf {
    let path = folder.join("image");
    byway::create(&path, &CreateOptions::new(16 << 20)).unwrap();
    path
}

/// One thread panics, or waits for the one that does; the other gets an error; both drop the device.
fn fall(device: Device) {
    let Device { mut queues, _driver, embedded } = device;
    let mut first = queues.remove(0);
    let fell = catch_unwind(AssertUnwindSafe(|| put(&mut first, 2, 512 << 10)));
    assert!(matches!(fell, Err(_) | Ok(Err(_))), "{fell:?}");
    let other = std::thread::spawn(move || {
        let error = put(&mut queues[0], 3, 100).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DeviceLost, "{error}");
        assert_eq!(embedded.try_with_subsystem(|_| ()), Err(Failed::Panicked));
        assert_eq!(embedded.handle().with_subsystem(|_| ()), None);
    });
    other.join().unwrap();
}

/// Two threads use a device; in the first, or in the device's own, it panics.
fn check_both_threads(run_by: RunBy, at_write: bool) {
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path());
    let trap = Arc::new(Trap { at_write, ..Trap::default() });
    let mut device = Device::open(&path, &trap, run_by);
    put(&mut device.queues[0], 1, 100).unwrap();
    trap.is_set.store(true, Relaxed);
    let (ended, end) = mpsc::channel();
    std::thread::spawn(move || {
        fall(device);
        ended.send(()).unwrap();
    });
    end.recv_timeout(LONG).expect("a thread hangs, or something else fails");
    let mut device = Device::open(&path, &Arc::default(), RunBy::Caller);
    let history = device.embedded.with_subsystem(|subsystem| subsystem.flash().power_history());
    assert_eq!(history.unsafe_shutdowns, 1, "it was not closed in order");
    let mut value = [0; 200];
    let answer = device.queues[0].execute_retrieve(Nsid::FIRST, &Key::new(&[1]).unwrap(), &mut value);
    assert_eq!(answer.unwrap().dw0, 100);
}

#[test]
fn a_panic_in_a_thread_that_runs_the_device_fails_the_device_for_every_thread() {
    check_both_threads(RunBy::Caller, true);
}

#[test]
fn a_panic_in_a_thread_that_syncs_for_others_fails_the_device_for_every_thread() {
    check_both_threads(RunBy::Caller, false);
}

#[test]
fn a_panic_in_a_thread_of_the_device_s_own_that_runs_it_fails_the_device_for_every_thread() {
    check_both_threads(RunBy::Thread, true);
}

#[test]
fn a_panic_in_a_thread_of_the_device_s_own_that_syncs_fails_the_device_for_every_thread() {
    check_both_threads(RunBy::Thread, false);
}
