//! A queue pair of which one thread rings the tail and another the head.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use byway_executor::RunBy;
use byway_flash::Durability;
use byway_kit::cases;
use byway_spec::Command;
use byway_spec::kv::{KvCdw11, KvOpcode};

use crate::admin::Admin;
use crate::commands::KV;
use crate::pair::Life;
use crate::ring::{Completions, Submission};
use crate::stage::{Stage, Watchdog};
use crate::{Runs, device};

/// Commands rung at once: more than there is room to answer.
const BATCH: u64 = 7;
const COMPLETION_ENTRIES: u32 = 3;
const ENTRIES: u32 = 64;

/// Whether a key exists that does not: no data moves.
fn command(cid: u64) -> Command {
    let mut command = Command::new(KvOpcode::EXIST.0, cid as u16, KV);
    command.set_key(b"nothing");
    command.cdw11 = KvCdw11::new().with_key_len(7).into_bits();
    command
}

/// Rings tails. Nothing else wakes the device for commands that it has left.
fn submit(stage: &Stage, life: &Life, submission: &mut Submission, batches: u64, taken: &AtomicU64) {
    for batch in 1..=batches {
        (0..BATCH).for_each(|at| submission.push(&life.region.memory, &command(batch * BATCH + at)));
        submission.ring(&stage.host);
        let mut watchdog = Watchdog::new(stage);
        while taken.load(SeqCst) < batch * BATCH {
            watchdog.wait(|| format!("batch {batch} of commands is not answered"));
        }
        submission.take_head((batch * BATCH % u64::from(ENTRIES)) as u16);
    }
}

/// Takes completions, and rings the head after each.
fn reap(stage: &Stage, life: &Life, completions: &mut Completions, commands: u64, taken: &AtomicU64) {
    for _ in 0..commands {
        let mut watchdog = Watchdog::new(stage);
        while completions.take(&life.region.memory).is_none() {
            watchdog.wait(|| "a command is not answered".to_owned());
        }
        completions.ring(&stage.host);
        taken.fetch_add(1, SeqCst);
    }
}

#[test]
fn commands_that_wait_for_room_are_answered_once_another_thread_makes_it() {
    let stage = Stage::new(device(Runs::By(RunBy::Caller), Durability::Process));
    let mut admin = Admin::enable(&stage);
    let life = Life::with(&stage.host, 1, (1, COMPLETION_ENTRIES), vec![(1, ENTRIES)]);
    admin.create(&stage, &life);
    let (mut submissions, mut completions) = life.rings();
    let (taken, batches) = (AtomicU64::new(0), u64::from(cases(20_000)));
    std::thread::scope(|scope| {
        let (stage, life, taken) = (&stage, &life, &taken);
        let completions = &mut completions;
        scope.spawn(move || stage.guarded(|| reap(stage, life, completions, batches * BATCH, taken)));
        stage.guarded(|| submit(stage, life, &mut submissions[0], batches, taken));
    });
}
