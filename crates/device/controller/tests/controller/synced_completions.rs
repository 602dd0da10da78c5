//! Completions that wait for a sync of the image.

use crate::common::{TestHost, kv, nvm};
use crate::io::{DATA, Io, QUEUE};
use byway_flash::FlashError;
use byway_queue::SubmissionConsumer;
use byway_spec::base::identify::Csi;
use byway_spec::base::log::LogPage;
use byway_spec::base::register::{Cc, Csts, Register};
use byway_spec::kv::KvOpcode;
use byway_spec::nvm::NvmOpcode;
use byway_spec::{Command, Completion, Status};

const BLOCKS: u32 = 1;
const KV: u32 = 2;

fn synced() -> Io {
    Io::over(TestHost::synced(104 << 20, &[nvm(8 << 20, 512), kv(96 << 20)]))
}

fn store(key: &[u8]) -> Command {
    let mut command = Command::new(KvOpcode::STORE.0, 0, KV);
    command.set_key(key);
    (command.cdw10, command.cdw11) = (8, key.len() as u32);
    command.set_prps(DATA, 0);
    command
}

fn exist(key: &[u8]) -> Command {
    let mut command = Command::new(KvOpcode::EXIST.0, 0, KV);
    command.set_key(key);
    command.cdw11 = key.len() as u32;
    command
}

fn write(slba: u32) -> Command {
    let mut command = Command::new(NvmOpcode::WRITE.0, 0, BLOCKS);
    command.cdw10 = slba;
    command.set_prps(DATA, 0);
    command
}

fn flush() -> Command {
    Command::new(NvmOpcode::FLUSH.0, 0, BLOCKS)
}

/// Submits and runs; the completions that are there then.
fn run(io: &mut Io, commands: &[Command]) -> Vec<Completion> {
    for command in commands {
        io.host.submit(QUEUE, *command);
    }
    io.host.ring(QUEUE);
    io.host.run();
    reap(io)
}

fn reap(io: &mut Io) -> Vec<Completion> {
    std::iter::from_fn(|| io.host.reap(QUEUE)).collect()
}

fn begin(io: &mut Io) -> byway_controller::PendingSync {
    io.host.controller.begin_sync(&mut io.host.subsystem).expect("commands wait for a sync")
}

/// A sync that fails.
fn fail(io: &mut Io) {
    let sync = begin(io).fail(FlashError::Misuse("the disk is gone"));
    io.host.end_sync(sync);
}

#[test]
fn writes_complete_only_after_a_sync_begun_after_them() {
    let mut io = synced();
    assert_eq!(run(&mut io, &[store(b"a"), write(0)]), []);
    assert!(io.host.controller.waits_for_sync(QUEUE) && !io.host.controller.waits_for_sync(0));
    let first = begin(&mut io);
    assert!(!io.host.controller.waits_for_sync(QUEUE));
    assert_eq!(run(&mut io, &[store(b"b")]), [], "executed while the sync is under way");
    io.host.end_sync(first.wait());
    assert_eq!(reap(&mut io).len(), 2, "the first two and not the third");
    let second = begin(&mut io);
    io.host.end_sync(second.wait());
    assert_eq!(reap(&mut io).len(), 1);
    assert!(!io.host.controller.wants_sync());
}

#[test]
fn reads_pass_waiting_stores_and_no_completion_reports_an_older_head() {
    let mut io = synced();
    let mut host = SubmissionConsumer::new(256).unwrap();
    let mut reported = 0;
    for round in 0..100 {
        let done = run(&mut io, &[store(b"a"), exist(b"a"), store(b"b"), exist(b"b")]);
        assert!(done.len() == 2 && done.iter().all(|done| done.status().is_success()), "round {round}");
        let sync = begin(&mut io);
        let between = run(&mut io, &[exist(b"a")]);
        io.host.end_sync(sync.wait());
        let held = reap(&mut io);
        assert_eq!((between.len(), held.len()), (1, 2));
        host.set_tail(io.host.tail(QUEUE)).unwrap();
        for entry in done.iter().chain(&between).chain(&held) {
            let freed = (u32::from(entry.sqhd) + 256 - reported) % 256;
            assert!(freed <= host.available(), "round {round}: head {} after {reported}", entry.sqhd);
            host.skip(freed);
            reported = u32::from(entry.sqhd);
        }
    }
}

#[test]
fn commands_that_fail_do_not_wait() {
    let mut io = synced();
    let mut beyond = write(u32::MAX);
    beyond.cdw11 = u32::MAX;
    let done = run(&mut io, &[beyond]);
    assert!(done[0].status().is(Status::LBA_OUT_OF_RANGE));
    assert!(!io.host.controller.wants_sync());
}

#[test]
fn a_failed_sync_fails_what_it_covers_and_leaves_a_device_that_can_only_be_read() {
    let mut io = synced();
    run(&mut io, &[store(b"old")]);
    let sync = begin(&mut io);
    io.host.end_sync(sync.wait());
    assert!(reap(&mut io)[0].status().is_success());

    run(&mut io, &[store(b"new"), write(3)]);
    fail(&mut io);
    let done = reap(&mut io);
    assert!(done.len() == 2 && done.iter().all(|done| done.status().is(Status::WRITE_FAULT)));

    for refused in run(&mut io, &[store(b"next"), write(4)]) {
        assert!(refused.status().is(Status::NAMESPACE_WRITE_PROTECTED), "{:?}", refused.status());
    }
    assert!(run(&mut io, &[exist(b"old")])[0].status().is_success());
    let smart = io.host.log(LogPage::SMART, Csi::NVM, 512).unwrap();
    assert_eq!(smart[0], 1 << 3, "critical warning: the media can only be read");

    // No later sync can promise what an earlier one could not, although the system would not say so.
    run(&mut io, &[flush()]);
    let sync = begin(&mut io);
    io.host.end_sync(sync.wait());
    assert!(reap(&mut io)[0].status().is(Status::WRITE_FAULT));
}

#[test]
fn flush_waits_for_a_sync_where_stores_do_not() {
    let mut io = Io::over(TestHost::new(104 << 20, &[nvm(8 << 20, 512), kv(96 << 20)]));
    io.host.holds_syncs = true;
    assert_eq!(run(&mut io, &[store(b"a"), flush(), store(b"b")]).len(), 2);
    let sync = begin(&mut io);
    io.host.end_sync(sync.wait());
    assert!(reap(&mut io)[0].status().is_success());
}

#[test]
fn commands_of_a_deleted_queue_are_not_said_to_be_durable() {
    let mut io = synced();
    run(&mut io, &[store(b"a")]);
    let sync = begin(&mut io);
    run(&mut io, &[store(b"b")]);
    assert!(io.host.delete_sq(QUEUE).is_success());
    let done = reap(&mut io);
    assert!(done.len() == 2 && done.iter().all(|done| done.status().is(Status::ABORTED_SQ_DELETION)));
    io.host.end_sync(sync.wait());
    assert_eq!(reap(&mut io), []);
}

#[test]
fn reset_drops_completions_that_await_a_sync() {
    let mut io = synced();
    run(&mut io, &[store(b"a")]);
    let sync = begin(&mut io);
    io.host.write_register(Register::CC, 0);
    io.host.end_sync(sync.wait());
    assert!(!io.host.controller.wants_sync());
}

#[test]
fn a_shutdown_whose_sync_fails_ends_and_says_so() {
    let mut io = synced();
    run(&mut io, &[store(b"a")]);
    fail(&mut io);
    let cc = Cc::from_bits(io.host.controller.read_register(Register::CC.0));
    io.host.write_register(Register::CC, cc.with_shn(Cc::SHN_NORMAL).into_bits());
    let status = Csts::from_bits(io.host.controller.read_register(Register::CSTS.0));
    assert_eq!((status.shst(), status.cfs()), (Csts::SHST_COMPLETE, true));
}

#[test]
fn a_device_that_syncs_before_it_acknowledges_has_no_volatile_cache() {
    let vwc = |io: &mut Io| {
        let page = io.host.identify(byway_spec::base::identify::Cns::CONTROLLER, 0, Csi::NVM).unwrap();
        page[525] & 1
    };
    assert_eq!(vwc(&mut synced()), 0);
    assert_eq!(vwc(&mut Io::new()), 1);
}
