//! A device over a file that forgets, and who watches both.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use byway::{BackendQueue, Buffer, ErrorKind, FileEvents, NvmCommand, Profile, QueueOptions};
use byway_controller::{Identity, Subsystem, SubsystemOptions};
use byway_dma::{BusAddr, Direction, DmaSpace};
use byway_driver::{AttachOptions, Driver, Queue};
use byway_flash::{Flash, OpenOptions};
use byway_forgetful::Forgetful;
use byway_kv::KvOptions;
use byway_local::{Embedded, InProcessBus, RunOptions};
use parking_lot::Mutex;

use crate::model::{History, Model};
use crate::step::{BLOCK_BYTES, PAIRS, Step, Target, VALUE_MAX, Value, blocks_nsid, key_of};

const COMPLETION_BYTES: usize = 16;

/// Sees file and host memory: at a cut, how many completions the device had posted.
#[derive(Debug)]
pub struct Watch {
    pub file: Arc<Forgetful>,
    space: OnceLock<Arc<DmaSpace>>,
    posted: Mutex<Posted>,
    at_cut: OnceLock<Posted>,
    /// Done once, in the thread that syncs.
    meanwhile: Mutex<Option<Meanwhile>>,
}

/// Completions by the ring that they were posted to.
pub type Posted = BTreeMap<u64, usize>;

/// What others do while a thread syncs.
pub struct Meanwhile {
    /// Not before the medium has what the sync covers.
    pub is_late: bool,
    pub what: Box<dyn FnOnce() + Send>,
}

impl fmt::Debug for Meanwhile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meanwhile").field("is_late", &self.is_late).finish_non_exhaustive()
    }
}

impl Watch {
    pub fn new(path: &Path, seed: u64) -> Arc<Self> {
        let file = Forgetful::new(path, seed);
        Arc::new(Self {
            file,
            space: OnceLock::new(),
            posted: Mutex::default(),
            at_cut: OnceLock::new(),
            meanwhile: Mutex::default(),
        })
    }

    /// Counts completions from now on.
    pub fn count_in(&self, space: &Arc<DmaSpace>) {
        space.take_record();
        self.space.set(Arc::clone(space)).unwrap();
    }

    /// Completions that were posted so far.
    pub fn posted(&self) -> usize {
        self.posted_by_ring().values().sum()
    }

    fn posted_by_ring(&self) -> Posted {
        let touches = self.space.get().map(|space| space.take_record()).unwrap_or_default();
        let completions = touches
            .iter()
            .filter(|touch| touch.direction == Direction::Write && touch.len_bytes == COMPLETION_BYTES);
        let mut posted = self.posted.lock();
        completions.for_each(|touch| *posted.entry(ring_of(touch.at)).or_default() += 1);
        posted.clone()
    }

    /// Completions that were posted when the power was cut, if it was.
    pub fn at_cut(&self) -> Option<usize> {
        self.at_cut.get().map(|posted| posted.values().sum())
    }

    /// Of these, those to one ring.
    pub fn at_cut_to(&self, ring: u64) -> usize {
        self.at_cut.get().and_then(|posted| posted.get(&ring)).copied().unwrap_or(0)
    }

    /// Has something done while the next sync is under way, in the thread that syncs.
    pub fn meanwhile(&self, what: Meanwhile) {
        *self.meanwhile.lock() = Some(what);
    }

    /// Has nothing done.
    pub fn no_more(&self) {
        self.meanwhile.lock().take();
    }

    fn do_meanwhile(&self, is_late: bool) {
        let what = self.meanwhile.lock().take_if(|meanwhile| meanwhile.is_late == is_late);
        what.into_iter().for_each(|meanwhile| (meanwhile.what)());
    }

    /// Cuts the power now.
    pub fn cut_now(&self, left: &Path) {
        self.file.cut_now(left);
        self.at_cut.set(self.posted_by_ring()).unwrap();
    }

    fn event(&self, pass_on: impl FnOnce(&Forgetful) -> io::Result<()>) -> io::Result<()> {
        let waited = self.file.is_waiting();
        let passed = pass_on(&self.file);
        if waited && !self.file.is_waiting() {
            self.at_cut.set(self.posted_by_ring()).unwrap();
        }
        passed
    }
}

impl FileEvents for Watch {
    fn before_write(&self, at: u64, len: u64) -> io::Result<()> {
        self.event(|file| file.before_write(at, len))
    }

    fn before_allocate(&self, at: u64, len: u64) -> io::Result<()> {
        self.event(|file| file.before_allocate(at, len))
    }

    fn before_punch(&self, at: u64, len: u64) -> io::Result<()> {
        self.event(|file| file.before_punch(at, len))
    }

    fn mapped(&self, at: u64, len: u64) {
        self.file.mapped(at, len);
    }

    fn before_sync(&self) -> io::Result<()> {
        self.event(Forgetful::before_sync)?;
        self.do_meanwhile(false);
        Ok(())
    }

    fn after_sync(&self) {
        self.file.after_sync();
        self.do_meanwhile(true);
    }
}

/// The ring that a completion went to: each is mapped at a place of its own.
pub fn ring_of(at: BusAddr) -> u64 {
    at.0 >> 21
}

/// An open device and a queue of it.
pub struct Device {
    queue: Queue<InProcessBus>,
    driver: Driver<InProcessBus>,
    embedded: Embedded,
}

impl Device {
    /// Memtables are small, so that they are written out and merged all the time.
    pub fn open(path: &Path, run: byway_flash::RunOptions, depth: u32) -> Self {
        let flash = Flash::open(path, OpenOptions::default().timing(false).run(run)).unwrap();
        assert_eq!(flash.recovery().lost, 0, "{:?}", flash.recovery());
        let kv = KvOptions::default().memtable_bytes(2 << 10).cache_bytes(64 << 10).replay_bytes(64 << 10);
        let identity = Identity { nqn: "nqn.test".into(), serial: "1".into(), model: "test".into() };
        let profile = Profile::by_name("gen4x4").unwrap();
        let options = SubsystemOptions::default().kv(kv);
        let subsystem = Subsystem::new(identity, profile, flash, options).unwrap();
        let embedded = Embedded::start(subsystem, RunOptions::default()).unwrap();
        assert_eq!(embedded.with_subsystem(|subsystem| subsystem.flash_mut().check()), []);
        let driver =
            Driver::attach(Arc::new(InProcessBus::new(&embedded)), AttachOptions::default()).unwrap();
        let mut queue = driver.queue(QueueOptions::default().depth(depth)).unwrap();
        // The driver asks for a namespace's layout when it first needs it: before completions are counted.
        let into = Buffer::zeroed(BLOCK_BYTES).unwrap();
        queue.execute(NvmCommand::Read { nsid: blocks_nsid(), slba: 0, blocks: 1, into }.into()).unwrap();
        Self { queue, driver, embedded }
    }

    pub fn driver(&self) -> &Driver<InProcessBus> {
        &self.driver
    }

    /// Where a region of the image is; nowhere, if there is none of that name.
    pub fn region(&self, name: &str) -> std::ops::Range<u64> {
        let regions = self.embedded.with_subsystem(|subsystem| subsystem.flash().regions());
        regions.into_iter().find(|(found, _)| *found == name).map_or(0..0, |(_, range)| range)
    }

    /// The host goes, in order; the device stays.
    pub fn shut_down(self) -> Embedded {
        self.embedded
    }

    /// Does whatever is left of a sanitize operation.
    pub fn wait_for_sanitize(&self) {
        let continue_sanitize = |subsystem: &mut Subsystem| subsystem.sanitize_slice().unwrap();
        while self.embedded.with_subsystem(continue_sanitize) {}
    }

    /// Another queue.
    pub fn queue(&self, depth: u32) -> Queue<InProcessBus> {
        self.driver.queue(QueueOptions::default().depth(depth)).unwrap()
    }

    pub fn bus(&self) -> &Arc<InProcessBus> {
        self.driver.bus()
    }

    pub fn space(&self) -> &Arc<DmaSpace> {
        self.driver.bus().space()
    }

    pub fn garbage_collected(&self) -> bool {
        let erases = |subsystem: &mut Subsystem| subsystem.flash().counters()[byway::Cause::Gc].erases;
        self.embedded.with_subsystem(erases) > 0
    }

    /// Most commands that may be under way.
    pub fn depth(&self) -> u32 {
        self.queue.depth()
    }

    /// How many commands more may be under way.
    pub fn room(&self) -> u32 {
        self.queue.depth() - self.queue.outstanding()
    }

    /// Submits steps under one doorbell.
    pub fn submit(&mut self, steps: &[(Step, u64)], history: &mut History) {
        steps.iter().for_each(|(step, number)| history.submit(*step, *number));
        let mut commands = steps.iter().map(|(step, number)| (step.command(*number), *number));
        self.queue.submit_all(&mut commands).unwrap();
    }

    /// Takes completions until at most `left` commands are outstanding.
    pub fn take(&mut self, left: u32, history: &mut History) {
        while self.queue.outstanding() > left {
            let Some(finished) = self.queue.next_finished().unwrap() else { continue };
            let absent = |failed: &byway::Error| failed.kind() == ErrorKind::KeyNotFound;
            if let Err(failed) = finished.result {
                assert!(absent(&failed.error), "step {}: {}", finished.tag, failed.error);
            }
            history.take(finished.tag);
        }
    }

    /// All that can be read.
    pub fn read(&mut self) -> Model {
        let mut found = Model::default();
        let mut value = vec![0; VALUE_MAX];
        for target in Target::all() {
            let read = self.read_one(target, &mut value);
            found.set(target, read);
        }
        found
    }

    fn read_one(&mut self, target: Target, value: &mut [u8]) -> Value {
        match target {
            Target::Pair(key) => match self.queue.execute_retrieve(PAIRS, &key_of(key), value) {
                Ok(answer) => value[..answer.dw0 as usize].to_vec(),
                Err(error) if error.kind() == ErrorKind::KeyNotFound => Value::new(),
                Err(error) => panic!("{target:?}: {error}"),
            },
            Target::Block(at) => {
                let block = &mut value[..BLOCK_BYTES];
                let read = self.queue.execute_read(blocks_nsid(), at, BLOCK_BYTES as u32, block);
                read.unwrap_or_else(|error| panic!("{target:?}: {error}"));
                if block.iter().all(|byte| *byte == 0) { Value::new() } else { block.to_vec() }
            }
        }
    }
}
