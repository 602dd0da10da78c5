//! Several queues under a running sync: while the thread of one syncs for it, others submit and the device executes, before
//! the medium has what the sync covers or after, and power may be cut at any event of that.
//!
//! One thread plays all of them, so that a seed says it all: who waits for a sync makes it, and in its midst the others go
//! on.

use std::sync::Arc;

use byway::BackendQueue;
use byway_driver::{Bus, Queue};
use byway_flash::{Durability, RunOptions};
use byway_forgetful::{Random, copy_sparse, image_folder};
use byway_local::InProcessBus;
use parking_lot::Mutex;

use crate::device::{Device, Meanwhile, Watch, ring_of};
use crate::life::{Base, Lost, check_values};
use crate::model::{Allowed, History, Promise};
use crate::step::{PAIRS, Step};

const HOSTS: u64 = 3;
const DEPTH: u32 = 8;
const LIVES: u64 = 3;
const ROUNDS: u64 = 60;

/// A queue, and what was asked for by it.
struct Host {
    queue: Queue<InProcessBus>,
    ring: u64,
    history: History,
    number: u64,
    random: Random,
}

impl Host {
    /// Takes a queue into use, and learns to which ring it is answered.
    fn new(device: &Device, number: u64, random: Random) -> Self {
        let mut queue = device.queue(DEPTH);
        device.space().take_record();
        queue.execute_flush(PAIRS).unwrap();
        let touches = device.space().take_record();
        let ring = touches.iter().rev().find(|touch| touch.len_bytes == 16).map(|touch| ring_of(touch.at));
        Self { queue, ring: ring.unwrap(), history: History::default(), number, random }
    }

    /// Submits some commands under one doorbell, at places of this host.
    fn submit(&mut self, host: u64) {
        let room = self.queue.depth() - self.queue.outstanding();
        let some = self.random.below(u64::from(room) + 1);
        let steps: Vec<(Step, u64)> = (0..some)
            .map(|_| {
                self.number += 1;
                (Step::any(&mut self.random).of_host(host, HOSTS), self.number)
            })
            .collect();
        steps.iter().for_each(|(step, number)| self.history.submit(*step, *number));
        let mut commands = steps.iter().map(|(step, number)| (step.command(*number), *number));
        self.queue.submit_all(&mut commands).unwrap();
    }

    fn take_all(&mut self) {
        while self.queue.outstanding() > 0 {
            if let Some(finished) = self.queue.next_finished().unwrap() {
                self.history.take(finished.tag);
            }
        }
    }
}

type Hosts = Arc<Vec<Mutex<Host>>>;

/// Lives one after the other, each on what the power cut of the one before left.
///
/// # Errors
/// When what was completed is lost.
pub fn run(seed: u64, durability: Durability) -> Result<(), Lost> {
    let (base, folder) = (Base::shared(), image_folder());
    let mut path = folder.path().join("image");
    copy_sparse(&base.path, &path);
    let (mut random, mut allowed) = (Random::new(seed), base.model.versions());
    for life in 0..LIVES {
        let left = folder.path().join(format!("left-{life}"));
        let watch = Watch::new(&path, random.next());
        let run = RunOptions::default()
            .durability(durability)
            .events(Some(watch.clone() as Arc<_>))
            .power_was_lost(life > 0);
        let mut device = Device::open(&path, run, 1);
        let found = check_values(&mut device, &allowed, &(seed, life))?;
        let host = |n| {
            Mutex::new(Host::new(&device, (10 * life + n) * 100_000 + 10_000, Random::new(random.next())))
        };
        let hosts: Hosts = Arc::new((0..HOSTS).map(host).collect());
        watch.count_in(device.space());
        let after = random.below(ROUNDS / 2);
        for round in 0..ROUNDS {
            if round == after {
                watch.file.cut_after(1 + random.below(80), &left);
            }
            play_round(&hosts, device.bus(), &watch, &mut random);
            if watch.at_cut().is_some() {
                break;
            }
        }
        hosts.iter().for_each(|host| host.lock().take_all());
        if watch.at_cut().is_none() {
            watch.cut_now(&left);
        }
        allowed = allowed_after(&hosts, found.versions(), &watch);
        path = left;
    }
    let run = RunOptions::default().power_was_lost(true);
    check_values(&mut Device::open(&path, run, 1), &allowed, &seed).map(drop)
}

fn allowed_after(hosts: &Hosts, mut allowed: Allowed, watch: &Watch) -> Allowed {
    for host in hosts.iter() {
        let host = host.lock();
        host.history.add_to(&mut allowed, watch.at_cut_to(host.ring), Promise::Completion);
    }
    allowed
}

/// Some submit; one waits, and syncs for all that were executed, while others go on.
fn play_round(hosts: &Hosts, bus: &Arc<InProcessBus>, watch: &Watch, random: &mut Random) {
    for host in 0..HOSTS {
        if random.one_in(2) {
            hosts[host as usize].lock().submit(host);
        }
    }
    let leader = random.below(HOSTS);
    let (others, is_late) = (Arc::clone(hosts), random.one_in(2));
    let what = move || {
        for host in (0..HOSTS).filter(|host| *host != leader) {
            others[host as usize].lock().submit(host);
        }
    };
    watch.meanwhile(Meanwhile { is_late, what: Box::new(what) });
    let qid = hosts[leader as usize].lock().queue.qid();
    bus.idle(qid);
    watch.no_more();
    hosts[leader as usize].lock().take_all();
}
