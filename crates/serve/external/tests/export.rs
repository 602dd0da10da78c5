//! Exports over a scripted backend that completes commands on request of the test.
#![allow(clippy::unwrap_used)]

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use byway_controller::BlockEngine;
use byway_controller::engine::{BlockRun, Place, Request};
use byway_core::{
    AdminCommand, Backend, BackendQueue, Buffer, Capabilities, Command, Error, ErrorKind, Failed, Finished,
    Identity, Limits, Namespace, NamespaceKind, Nsid, NvmCommand, NvmCommands, Outcome, QueueOptions,
    Refused, Result,
};
use byway_external::{Export, ExportAs};
use byway_spec::Status;
use parking_lot::{Mutex, MutexGuard};

const DEPTH: u32 = 4;
const BLOCKS: u64 = 1000;

/// What a test sees of the queue, and decides.
#[derive(Debug, Default)]
struct Script {
    under_way: VecDeque<(u64, Command)>,
    /// What was begun, in words.
    begun: Vec<&'static str>,
    /// Commands that may still complete.
    permits: usize,
    fails: Option<ErrorKind>,
    queue_fails: bool,
    /// Tags of commands that were to be given up.
    cancelled: Vec<u64>,
    dropped: bool,
}

#[derive(Debug, Clone)]
struct Led {
    script: Arc<Mutex<Script>>,
    capabilities: Capabilities,
    identity: Identity,
    lba_bytes: u32,
}

struct LedQueue(Arc<Mutex<Script>>);

impl Led {
    fn new() -> Self {
        let limits = Limits { transfer_bytes: 300 << 10, ..Limits::default() };
        let capabilities = Capabilities { limits, nvm: NvmCommands::SINGLE, ..Capabilities::default() };
        Self { script: Arc::default(), capabilities, identity: Identity::default(), lba_bytes: 512 }
    }

    fn export(&self) -> Result<Export<Self>> {
        let queue = QueueOptions::default().depth(DEPTH);
        let export_as = ExportAs { nsid: Nsid::FIRST, is_read_only: false, identifier: [3; 16], queue };
        Export::new(self.clone(), &export_as)
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock()
    }

    fn under_way(&self) -> usize {
        self.script().under_way.len()
    }

    fn begun(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.script().begun)
    }
}

impl Backend for Led {
    type Queue = LedQueue;

    fn name(&self) -> &'static str {
        "led"
    }

    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn namespaces(&self) -> Result<Vec<Namespace>> {
        let kind = NamespaceKind::Nvm { lba_bytes: self.lba_bytes, blocks: BLOCKS };
        Ok(vec![Namespace { nsid: Nsid::FIRST, kind, size_bytes: 0, used_bytes: 0, nguid: [0; 16] }])
    }

    fn buffer(&self, len: usize) -> Result<Buffer> {
        Buffer::zeroed(len)
    }

    fn queue(&self, _: QueueOptions) -> Result<LedQueue> {
        Ok(LedQueue(self.script.clone()))
    }

    fn admin(&self, _: AdminCommand) -> Result<Outcome> {
        Err(Error::no_controller("a test's backend"))
    }
}

fn word(command: &Command) -> &'static str {
    match command {
        Command::Nvm(NvmCommand::Read { .. }) => "read",
        Command::Nvm(NvmCommand::Write { .. }) => "write",
        Command::Nvm(NvmCommand::Flush { .. }) => "flush",
        Command::Nvm(NvmCommand::Deallocate { .. }) => "deallocate",
        _ => "other",
    }
}

impl BackendQueue for LedQueue {
    fn submit_within(&mut self, command: Command, tag: u64, _: Option<Duration>) -> Result<(), Refused> {
        let mut script = self.0.lock();
        if script.under_way.len() == DEPTH as usize {
            return Err(Refused { command, error: Error::host(ErrorKind::QueueFull, "full") });
        }
        script.begun.push(word(&command));
        script.under_way.push_back((tag, command));
        Ok(())
    }

    fn start(&mut self) -> Result<()> {
        Ok(())
    }

    fn event(&mut self) -> Result<BorrowedFd<'_>> {
        Err(Error::host(ErrorKind::Unsupported, "none"))
    }

    fn next_finished(&mut self) -> Result<Option<Finished>> {
        let mut script = self.0.lock();
        if script.queue_fails {
            return Err(Error::device(ErrorKind::DeviceLost, "gone"));
        }
        if script.permits == 0 {
            return Ok(None);
        }
        let Some((tag, command)) = script.under_way.pop_front() else { return Ok(None) };
        script.permits -= 1;
        let mut buffer = command.into_buffer();
        let fails = if script.cancelled.contains(&tag) { Some(ErrorKind::Cancelled) } else { script.fails };
        let result = match fails {
            Some(kind) => {
                Err(Failed { error: Error::device(kind, "as the test wants"), ..failed_with(buffer) })
            }
            None => {
                buffer.iter_mut().for_each(|buffer| buffer.as_mut_slice().fill(tag as u8 + 1));
                Ok(Outcome { buffer, ..Outcome::default() })
            }
        };
        Ok(Some(Finished { tag, result }))
    }

    fn next_within(&mut self, _: Duration) -> Result<Option<Finished>> {
        self.next_finished()
    }

    fn cancel(&mut self, tag: u64) -> Result<()> {
        self.0.lock().cancelled.push(tag);
        Ok(())
    }

    fn outstanding(&self) -> u32 {
        self.0.lock().under_way.len() as u32
    }

    fn depth(&self) -> u32 {
        DEPTH
    }

    fn execute(&mut self, _: Command) -> Result<Outcome> {
        Err(Error::host(ErrorKind::Unsupported, "none"))
    }
}

impl Drop for LedQueue {
    fn drop(&mut self) {
        self.0.lock().dropped = true;
    }
}

fn failed_with(buffer: Option<Buffer>) -> Failed {
    Failed { buffer, ..Failed::from(Error::host(ErrorKind::System, "replaced")) }
}

const RUN: BlockRun = BlockRun { slba: 8, blocks: 8 };
const BYTES: usize = 8 * 512;

fn begin_read(export: &mut Export<Led>) -> Place {
    let place = export.reserve(BYTES).unwrap();
    export.begin(place, Request::Read { run: RUN, fua: false });
    place
}

#[test]
fn a_shape_is_what_the_backend_says_in_what_a_controller_can_announce() {
    let led = Led::new();
    let export = led.export().unwrap();
    let shape = export.shape();
    assert_eq!((shape.blocks, shape.lba_shift, shape.nguid), (BLOCKS, 9, [3; 16]));
    assert_eq!(shape.transfer_max_bytes, 256 << 10, "a power of two");
    assert_eq!((shape.uuid[6] >> 4, shape.uuid[8] >> 6), (8, 2));
    for lba_bytes in [0, 100, 256, 520, 1 << 17] {
        let odd = Led { lba_bytes, ..Led::new() };
        assert_eq!(odd.export().err().unwrap().kind(), ErrorKind::Unsupported, "{lba_bytes}");
    }
}

#[test]
fn commands_that_the_queue_has_no_room_for_wait_for_it_in_order() {
    let led = Led::new();
    let mut export = led.export().unwrap();
    let places: Vec<Place> = (0..10).map(|_| begin_read(&mut export)).collect();
    assert_eq!((led.under_way(), export.outstanding()), (DEPTH as usize, 10));
    assert!(export.next_finished().is_none());
    led.script().permits = 10;
    let done: Vec<Place> = std::iter::from_fn(|| export.next_finished()).map(|done| done.place).collect();
    assert_eq!(done, places);
    for place in places {
        assert_eq!(export.memory(place), [place.0 as u8 + 1; BYTES]);
        export.release(place);
    }
    assert_eq!(export.outstanding(), 0);
}

#[test]
fn cancel_takes_back_waiting_commands_only() {
    let led = Led::new();
    let mut export = led.export().unwrap();
    let places: Vec<Place> = (0..10).map(|_| begin_read(&mut export)).collect();
    let (begun, waiting) = places.split_at(DEPTH as usize);
    assert!(begun.iter().all(|place| !export.cancel(*place)));
    assert!(export.cancel(waiting[0]) && !export.cancel(waiting[0]));
    assert_eq!(export.memory(waiting[0]).len(), BYTES);
    export.release(waiting[0]);
    led.script().permits = 10;
    let done: Vec<Place> = std::iter::from_fn(|| export.next_finished()).map(|done| done.place).collect();
    let others = begun.iter().chain(&waiting[1..]).copied().collect::<Vec<_>>();
    assert_eq!((done, export.outstanding()), (others, 0));
}

#[test]
fn cancelled_backend_commands_finish_as_aborted_or_done() {
    let led = Led::new();
    let mut export = led.export().unwrap();
    let places: Vec<Place> = (0..2).map(|_| begin_read(&mut export)).collect();
    assert!(!export.cancel(places[1]), "it may be done all the same");
    led.script().permits = 2;
    let [done, aborted] = [0, 1].map(|_| export.next_finished().unwrap());
    assert_eq!([done.place, aborted.place], places[..]);
    assert!(done.result.is_ok());
    assert_eq!(aborted.result.unwrap_err().status, Status::ABORT_REQUESTED);
    assert_eq!(export.outstanding(), 0);
}

#[test]
fn force_unit_access_is_a_flush_behind_a_write_and_before_a_read_under_one_place() {
    let led = Led::new();
    let mut export = led.export().unwrap();
    led.script().permits = 4;
    let place = export.reserve(BYTES).unwrap();
    export.begin(place, Request::Write { run: RUN, fua: true });
    assert_eq!(export.next_finished().unwrap().place, place);
    assert_eq!(led.begun(), ["write", "flush"]);
    export.release(place);
    let place = export.reserve(BYTES).unwrap();
    export.begin(place, Request::Read { run: RUN, fua: true });
    assert!(export.next_finished().unwrap().result.is_ok());
    assert_eq!(led.begun(), ["flush", "read"]);
    assert!(export.next_finished().is_none());
}

#[test]
fn a_write_that_failed_is_not_flushed() {
    let led = Led::new();
    let mut export = led.export().unwrap();
    led.script().permits = 4;
    led.script().fails = Some(ErrorKind::Media);
    let place = export.reserve(BYTES).unwrap();
    export.begin(place, Request::Write { run: RUN, fua: true });
    let error = export.next_finished().unwrap().result.unwrap_err();
    assert_eq!((error.status, led.begun()), (Status::WRITE_FAULT, vec!["write"]));
}

#[test]
fn failed_queue_fails_its_commands_and_late_completions_are_ignored() {
    let led = Led::new();
    let mut export = led.export().unwrap();
    let lost: Vec<Place> = (0..6).map(|_| begin_read(&mut export)).collect();
    led.script().queue_fails = true;
    let mut failed: Vec<Place> = Vec::new();
    for _ in &lost {
        let done = export.next_finished().unwrap();
        assert_eq!(done.result.unwrap_err().status, Status::NAMESPACE_NOT_READY);
        failed.push(done.place);
    }
    failed.sort_by_key(|place| place.0);
    assert_eq!((failed, export.outstanding()), (lost.clone(), 0));
    lost.into_iter().for_each(|place| export.release(place));
    // The queue works again and first completes commands that were given up.
    led.script().queue_fails = false;
    led.script().permits = 3;
    let place = begin_read(&mut export);
    assert!(export.next_finished().is_none());
    led.script().permits = 100;
    assert_eq!(export.next_finished().unwrap().place, place);
    assert!(export.next_finished().is_none());
}

#[test]
fn export_is_full_at_64_mib_until_commands_end() {
    let led = Led::new();
    let mut export = led.export().unwrap();
    let run = BlockRun { slba: 0, blocks: 512 };
    let mut places = Vec::new();
    while !export.is_full() {
        let place = export.reserve(512 * 512).unwrap();
        export.begin(place, Request::Read { run, fua: false });
        places.push(place);
    }
    assert_eq!(places.len(), 256, "64 MiB");
    led.script().permits = 1;
    let place = export.next_finished().unwrap().place;
    assert!(!export.is_full());
    export.release(place);
}

#[test]
fn flush_without_a_cache_sends_nothing() {
    let mut led = Led::new();
    led.capabilities.nvm.flush = false;
    let mut export = led.export().unwrap();
    assert!(!export.shape().has_volatile_cache);
    let place = export.reserve(0).unwrap();
    export.begin(place, Request::Flush);
    assert!(export.next_finished().unwrap().result.is_ok());
    assert!(led.begun().is_empty());
}

#[test]
fn ranges_reach_the_backend_and_the_queue_ends_with_the_export() {
    let led = Led::new();
    let mut export = led.export().unwrap();
    let place = export.reserve(0).unwrap();
    export.begin(place, Request::Deallocate(&[RUN, RUN]));
    led.script().permits = 1;
    assert!(export.next_finished().unwrap().result.is_ok());
    assert_eq!(led.begun(), ["deallocate"]);
    drop(export);
    assert!(led.script().dropped);
}
