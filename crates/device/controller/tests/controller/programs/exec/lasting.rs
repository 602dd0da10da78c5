//! Exec of long values and long programs: what goes on beside them, and what ends them.

use byway_controller::{ProgramRunner, ProgramsProgress};
use byway_dma::BusAddr;
use byway_spec::base::admin::AbortCdw10;
use byway_spec::base::register::Register;

use super::*;

/// Stands for the thread that [`step`] is.
struct Steps;

impl ProgramRunner for Steps {
    fn wake(&self) -> bool {
        true
    }

    fn now_ns(&self) -> u64 {
        0
    }
}

/// What is copied at once. Four chunks take the time of one hold.
pub(super) const CHUNK_BYTES: usize = 64 << 10;

/// A device with a thread for programs, and a second queue.
pub(super) fn running(program: &[[u8; 8]]) -> TestHost {
    let mut host = super::running(program);
    host.subsystem.set_program_runner(Box::new(Steps));
    host.create_pair(2, 64);
    host
}

/// Begins an Exec. Its identifier, and where its buffer is.
pub(super) fn begin(host: &mut TestHost, key: &[u8], output_max_bytes: u32) -> (u16, BusAddr) {
    let request = request(key, b"");
    let mut command = exec_command(OPERATION, &request, output_max_bytes);
    let at = host.alloc(output_max_bytes.max(64) as usize);
    host.write(at, &request);
    host.point_prps(&mut command, at, output_max_bytes.max(64) as usize);
    let cid = host.submit(1, command);
    host.ring(1);
    host.run();
    (cid, at)
}

/// Advances programs for one hold of the run lock, and completes those that end.
pub(super) fn step(host: &mut TestHost) -> ProgramsProgress {
    let progress = host.subsystem.advance_programs();
    host.advance();
    progress
}

/// Advances until no program runs.
pub(super) fn advance(host: &mut TestHost) {
    while step(host) != ProgramsProgress::Idle {}
}

/// Advances until the one program has ended; its completion and the holds of the run lock that it took.
fn finish(host: &mut TestHost) -> (Completion, usize) {
    let mut holds = 0;
    while step(host) == ProgramsProgress::Running {
        assert!(host.reap(1).is_none());
        holds += 1;
    }
    (host.reap(1).expect("the command of the program"), holds)
}

pub(super) fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|n| (n * 7 + seed + n / 251) as u8).collect()
}

#[test]
fn long_value_is_copied_and_run_over_in_time_slices() {
    let mut host = running(&COPY);
    let value = pattern(2 * CHUNK_BYTES + 1000, 3);
    store(&mut host, b"long", &value);
    let (cid, at) = begin(&mut host, b"long", 200_000);
    let (done, holds) = finish(&mut host);
    assert_eq!((done.cid, done.status(), done.dw0, done.dw1), (cid, Status::SUCCESS, value.len() as u32, 0));
    assert_eq!(host.read(at, value.len()), value);
    assert_eq!(host.read(BusAddr(at.0 + value.len() as u64), 8), [0; 8]);
    // Three chunks, six instructions a byte.
    assert!((48..52).contains(&holds), "{holds}");
    assert_eq!(step(&mut host), ProgramsProgress::Idle);
}

#[test]
fn long_output_is_cut_and_its_true_length_reported() {
    let mut host = running(&COPY);
    let value = pattern(CHUNK_BYTES + 10, 3);
    store(&mut host, b"long", &value);
    for taken in [0, 5000] {
        let (_, at) = begin(&mut host, b"long", taken);
        let done = finish(&mut host).0;
        assert_eq!((done.status(), done.dw0), (Status::SUCCESS, value.len() as u32));
        let behind = if taken == 0 { request(b"long", b"") } else { vec![0; 8] };
        assert_eq!(host.read(at, taken as usize), value[..taken as usize]);
        assert_eq!(host.read(BusAddr(at.0 + u64::from(taken)), behind.len()), behind);
    }
}

#[test]
fn value_overwritten_while_it_is_copied_is_the_new_one_from_first_to_last_byte() {
    let mut host = running(&COPY);
    let (old, new) = (pattern(12 * CHUNK_BYTES, 1), pattern(11 * CHUNK_BYTES + 5, 9));
    store(&mut host, b"long", &old);
    let (_, at) = begin(&mut host, b"long", 1 << 20);
    assert_eq!(step(&mut host), ProgramsProgress::Running);
    store(&mut host, b"long", &new);
    let done = finish(&mut host).0;
    assert_eq!((done.status(), done.dw0), (Status::SUCCESS, new.len() as u32));
    assert!(host.read(at, new.len()) == new);
}

#[test]
fn value_that_does_not_stay_the_same_or_grows_ends_its_program() {
    let mut host = running(&COPY);
    store(&mut host, b"long", &pattern(2 * CHUNK_BYTES, 1));
    begin(&mut host, b"long", 8);
    store(&mut host, b"long", &pattern(2 * CHUNK_BYTES + 1, 1));
    assert!(finish(&mut host).0.status().is(Status::QUERY_OBJECT_CHANGED));
    store(&mut host, b"long", &pattern(12 * CHUNK_BYTES, 1));
    begin(&mut host, b"long", 8);
    let mut overwritten = 0;
    let done = loop {
        store(&mut host, b"long", &pattern(12 * CHUNK_BYTES, overwritten));
        overwritten += 1;
        if step(&mut host) != ProgramsProgress::Running {
            break host.reap(1).unwrap();
        }
    };
    assert!(done.status().is(Status::QUERY_OBJECT_CHANGED));
    assert_eq!(overwritten, 16);
}

#[test]
fn value_deleted_while_it_is_copied_is_a_missing_key_and_later_it_is_not_missed() {
    let mut host = running(&COPY);
    let value = pattern(CHUNK_BYTES + 1, 1);
    store(&mut host, b"long", &value);
    begin(&mut host, b"long", 8);
    remove(&mut host, b"long");
    assert!(finish(&mut host).0.status().is(Status::KEY_DOES_NOT_EXIST));
    store(&mut host, b"long", &value);
    let (_, at) = begin(&mut host, b"long", 100_000);
    assert_eq!(step(&mut host), ProgramsProgress::Running, "the last chunk");
    remove(&mut host, b"long");
    assert_eq!(finish(&mut host).0.dw0, value.len() as u32);
    assert!(host.read(at, value.len()) == value);
}

#[test]
fn other_commands_go_on_between_two_time_slices() {
    let mut host = running(&FOREVER);
    begin(&mut host, b"key", 8);
    assert_eq!(step(&mut host), ProgramsProgress::Running);
    store(&mut host, b"other", b"value");
    assert!(activation(&mut host, FREE, ProgramActivationCdw10::DEACTIVATE).is(Status::PROGRAM_IN_USE));
}

#[test]
fn loop_is_stopped_at_the_device_s_limit_of_steps() {
    let lists = BTreeMap::from([(KV, AllowList::from_iter([allowed(&FOREVER)]))]);
    let mut host = with_options(SubsystemOptions::default().exec_allowed(lists).program_steps_max(100_000));
    install(&mut host, FREE, &FOREVER);
    assert_eq!(exec(&mut host, (OPERATION, b"key", b""), 8), Err(Status::INSUFFICIENT_PROGRAM_RESOURCES));
    host.subsystem.set_program_runner(Box::new(Steps));
    begin(&mut host, b"key", 8);
    let (done, holds) = finish(&mut host);
    assert!(done.status().is(Status::INSUFFICIENT_PROGRAM_RESOURCES));
    assert!((4..7).contains(&holds), "{holds}");
}

/// Nothing runs, and nothing is in use.
fn assert_free(host: &mut TestHost) {
    assert_eq!(step(host), ProgramsProgress::Idle);
    assert!(activation(host, FREE, ProgramActivationCdw10::DEACTIVATE).is_success());
}

#[test]
fn abort_and_deletion_of_its_queue_end_an_exec() {
    let mut host = running(&FOREVER);
    let (cid, _) = begin(&mut host, b"key", 8);
    let mut abort = Command::new(AdminOpcode::ABORT.0, 0, 0);
    abort.cdw10 = AbortCdw10::new().with_sqid(1).with_cid(cid).into_bits();
    assert_eq!(host.admin(abort).dw0, 0, "aborted");
    assert!(host.reap(1).unwrap().status().is(Status::ABORT_REQUESTED));
    assert_free(&mut host);
    assert!(activate(&mut host, FREE).is_success());
    begin(&mut host, b"key", 8);
    assert!(host.delete_sq(1).is_success());
    assert!(host.reap(1).unwrap().status().is(Status::ABORTED_SQ_DELETION));
    assert_free(&mut host);
}

#[test]
fn controller_reset_ends_an_exec_and_forgets_an_output_that_was_not_taken() {
    let mut host = running(&COPY);
    store(&mut host, b"long", &pattern(CHUNK_BYTES + 1, 1));
    begin(&mut host, b"long", 8);
    while host.subsystem.advance_programs() == ProgramsProgress::Running {}
    begin(&mut host, b"long", 8);
    host.write_register(Register::CC, 0);
    host.run();
    assert_eq!(host.subsystem.advance_programs(), ProgramsProgress::Idle);
    assert!(host.subsystem.next_done().is_none());
}

#[test]
fn deleted_formatted_or_detached_namespaces_and_sanitize_end_an_exec() {
    let format = Command::new(AdminOpcode::FORMAT_NVM.0, 0, KV);
    let detach = |host: &mut TestHost| {
        let mut command = Command::new(AdminOpcode::NAMESPACE_ATTACHMENT.0, 0, KV);
        command.cdw10 = SelectCdw10::new().with_sel(SelectCdw10::DETACH).into_bits();
        let mut list = vec![0; 4096];
        list[0] = 1;
        host.admin_write(command, &list).status()
    };
    let sanitize = |host: &mut TestHost| {
        let mut command = Command::new(AdminOpcode::SANITIZE.0, 0, 0);
        command.cdw10 = SanitizeCdw10::new().with_sanact(SanitizeCdw10::BLOCK_ERASE).into_bits();
        host.admin(command).status()
    };
    type Ends<'a> = &'a dyn Fn(&mut TestHost) -> Status;
    let cases: [(Ends<'_>, Status); 5] = [
        (&|host| delete(host, KV), Status::INVALID_NAMESPACE),
        (&|host| delete(host, PROGRAMS), Status::INVALID_NAMESPACE),
        (&|host| host.admin(format).status(), Status::INVALID_NAMESPACE),
        (&detach, Status::INVALID_NAMESPACE),
        (&sanitize, Status::SANITIZE_IN_PROGRESS),
    ];
    for (at, (end, status)) in cases.into_iter().enumerate() {
        let mut host = running(&FOREVER);
        begin(&mut host, b"key", 8);
        assert!(end(&mut host).is_success(), "{at}");
        assert_eq!(step(&mut host), ProgramsProgress::Ended);
        assert_eq!(host.reap(1).unwrap().status().code(), status, "{at}");
        assert_eq!(step(&mut host), ProgramsProgress::Idle);
    }
}

#[test]
fn more_bytes_of_values_than_the_device_keeps_are_refused_until_some_are_free() {
    let mut host = running(&FOREVER);
    store(&mut host, b"long", &pattern(2 << 20, 1));
    // Each takes the value and room for the output: 21 times 3 MiB are less than 64 MiB.
    let (first, _) = begin(&mut host, b"long", 8);
    for _ in 1..21 {
        begin(&mut host, b"long", 8);
    }
    assert!(host.reap(1).is_none());
    begin(&mut host, b"long", 8);
    assert!(host.reap(1).unwrap().status().is(Status::INSUFFICIENT_PROGRAM_RESOURCES));
    let mut abort = Command::new(AdminOpcode::ABORT.0, 0, 0);
    abort.cdw10 = AbortCdw10::new().with_sqid(1).with_cid(first).into_bits();
    assert_eq!(host.admin(abort).dw0, 0, "aborted");
    assert_eq!(host.reap(1).unwrap().cid, first);
    begin(&mut host, b"long", 8);
    assert!(host.reap(1).is_none());
}
