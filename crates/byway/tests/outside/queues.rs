//! Queues of several threads, each with a transfer method of its own, many commands outstanding.

use std::collections::HashMap;
use std::time::Duration;

use byway::embedded::{EmbeddedDevice, EmbeddedQueue};
use byway::{
    AdaptivePolicy, BackendQueue, Class, Command, ErrorKind, Key, KvCommand, Method, Nsid, Payload,
    QueueOptions, StoreOptions,
};
use byway_kit::{Random, pattern};

const METHODS: [Method; 6] =
    [Method::Inline, Method::Cxl, Method::Adaptive, Method::Piggyback, Method::PiggybackPt, Method::Prp];

const COMMANDS: u64 = 1500;

/// One thread: its queue, and what should be there.
struct Worker {
    queue: EmbeddedQueue,
    name: usize,
    steps: Random,
    wanted: HashMap<String, Vec<u8>>,
    finished: u64,
}

impl Worker {
    fn new(device: &EmbeddedDevice, name: usize) -> Self {
        let policy = AdaptivePolicy::Threshold { tau_bytes: 300, alpha: 1.0, below: Method::Cxl };
        let options = QueueOptions::default().transfer(METHODS[name]).policy(policy).depth(16);
        let queue = device.queue_with(options).unwrap();
        Self { queue, name, steps: Random::new(name as u64 + 1), wanted: HashMap::new(), finished: 0 }
    }

    fn key(&mut self) -> String {
        format!("{}-{}", self.name, self.steps.index(300))
    }

    fn work(mut self) {
        for tag in 0..COMMANDS {
            self.store(tag);
            if self.steps.index(7) == 0 {
                self.finished += self.queue.drain(&mut |done| drop(done.result.unwrap())).unwrap() as u64;
                let key = self.key();
                self.check(&key);
            }
        }
        self.finished += self.queue.drain(&mut |done| drop(done.result.unwrap())).unwrap() as u64;
        assert_eq!(self.finished, COMMANDS);
        let keys: Vec<String> = self.wanted.keys().cloned().collect();
        keys.iter().for_each(|key| self.check(key));
    }

    fn store(&mut self, tag: u64) {
        let key = self.key();
        let len = if self.steps.index(10) == 0 { self.steps.index(8000) } else { self.steps.index(400) };
        let value = pattern(tag, len);
        let store = KvCommand::Store {
            nsid: Nsid::FIRST,
            key: Key::new(key.as_bytes()).unwrap(),
            value: Payload::copy_of(&value).unwrap(),
            options: StoreOptions::NONE,
        };
        self.submit(store.into(), tag);
        self.wanted.insert(key, value);
    }

    fn submit(&mut self, mut command: Command, tag: u64) {
        while let Err(refused) = self.queue.submit(command, tag) {
            assert_eq!(refused.error.kind(), ErrorKind::QueueFull, "{}", refused.error);
            command = refused.command;
            let taken = self.queue.wait(1, Duration::from_secs(1), &mut |done| drop(done.result.unwrap()));
            self.finished += taken.unwrap() as u64;
        }
    }

    fn check(&mut self, key: &str) {
        let mut into = vec![0; 10_000];
        let got = self.queue.execute_retrieve(Nsid::FIRST, &Key::new(key.as_bytes()).unwrap(), &mut into);
        match self.wanted.get(key) {
            Some(wanted) => assert!(into[..got.unwrap().dw0 as usize] == wanted[..], "{key}"),
            None => assert_eq!(got.unwrap_err().kind(), ErrorKind::KeyNotFound, "{key}"),
        }
    }
}

fn run(uri: &str) {
    let device = byway::embedded::open(uri).unwrap();
    std::thread::scope(|scope| {
        for name in 0..METHODS.len() {
            let worker = Worker::new(&device, name);
            scope.spawn(move || worker.work());
        }
    });
}

#[test]
fn queues_of_six_methods_run_by_their_callers_lose_nothing() {
    run("ram:512M?profile=cosmos&run=caller");
    run("ram:512M?profile=gen5x4&run=caller&ledger=off");
}

#[test]
fn queues_of_six_methods_run_by_the_devices_thread_lose_nothing() {
    run("ram:512M?profile=cosmos&run=thread");
    run("ram:512M?profile=gen5x4&run=thread&ledger=off");
}

#[test]
fn a_paced_device_completes_no_sooner_than_its_model_says() {
    let device = byway::embedded::open("ram:64M?profile=cosmos&clock=paced&transfer=prp").unwrap();
    let mut kv = device.kv(None).unwrap();
    let modelled = {
        let device =
            byway::embedded::open("ram:64M?profile=cosmos&clock=virtual&transfer=prp&flash=off").unwrap();
        let mut kv = device.kv(None).unwrap();
        let before = device.now_ns();
        kv.put(b"k", &[7; 32]).unwrap();
        device.now_ns() - before
    };
    // The host's own software is charged for under a virtual clock and takes its real time under a paced one.
    let device_share_ns = modelled / 2;
    let before = device.now_ns();
    for n in 0u32..100 {
        kv.put(&n.to_be_bytes(), &[7; 32]).unwrap();
    }
    assert!(device.now_ns() - before >= 100 * device_share_ns);
}

/// A queue whose type is chosen at the opening has the calls of its own kind, not those that any queue has.
#[test]
fn a_batch_rings_one_doorbell_by_a_device_that_a_uri_opened() {
    let device = byway::open("ram:64M?transfer=prp&run=caller").unwrap();
    let mut kv = device.kv(None).unwrap();
    let keys: Vec<Key> = (0..32_u32).map(|n| Key::new(&n.to_le_bytes()).unwrap()).collect();
    keys.iter().for_each(|key| kv.put(key.as_bytes(), b"value").unwrap());
    let embedded = device.as_embedded().unwrap();
    let before = embedded.ledger();
    let mut got = 0;
    kv.get_many(&keys, 64, |_, value| got += usize::from(value == Some(b"value"))).unwrap();
    let rung = embedded.ledger().since(&before).row(Class::Doorbell).count;
    assert_eq!(got, 32);
    // One for the commands, and the completion queue's as it is emptied.
    assert!(rung < 8, "{rung} doorbells for 32 gets");
}
