//! Programs that do not end at once: what goes on beside them, and what ends them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use byway_controller::{ProgramRunner, ProgramsProgress, SubsystemOptions};
use byway_spec::base::admin::AbortCdw10;
use byway_spec::base::register::Register;

use super::*;

/// The queue of programs, and another one.
const QUEUE: u16 = 1;
const OTHER: u16 = 2;

/// `goto -1`.
const FOREVER: [u8; 8] = [0x05, 0, 0xff, 0xff, 0, 0, 0, 0];

/// `do r3 -= 1; while r3 != 0; r0 = 7; exit`: two instructions for each unit of the first parameter.
const COUNT_DOWN: [u8; 32] = [
    0x07, 3, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x55, 3, 0xfe, 0xff, 0, 0, 0, 0, 0xb7, 0, 0, 0, 7, 0, 0, 0, 0x95,
    0, 0, 0, 0, 0, 0, 0,
];
const COUNTER: u16 = FREE + 1;

/// The index of the device's program that decompresses.
const DECOMPRESS: u16 = 4;

/// Stands for the thread that [`step`] is, with a clock that goes on with each reading.
#[derive(Clone, Default)]
struct Steps {
    now_ns: Arc<AtomicU64>,
    read_ns: u64,
}

impl ProgramRunner for Steps {
    fn wake(&self) -> bool {
        true
    }

    fn now_ns(&self) -> u64 {
        self.now_ns.fetch_add(self.read_ns, Relaxed)
    }
}

/// A host with both programs activated, and a second queue.
fn host() -> TestHost {
    running(super::host(), &Steps::default())
}

fn running(mut host: TestHost, steps: &Steps) -> TestHost {
    host.subsystem.set_program_runner(Box::new(steps.clone()));
    host.create_pair(OTHER, 64);
    for (index, program) in [(FREE, &FOREVER[..]), (COUNTER, &COUNT_DOWN)] {
        assert!(load(&mut host, index, program.len() as u32, 0, program).is_success());
        assert!(activate(&mut host, index).is_success());
    }
    host
}

/// Begins a program over the first four bytes of memory. Its identifier.
fn begin(host: &mut TestHost, index: u16, first: u64) -> u16 {
    let mut command = execute_command(index, 0, 1, [first, 0]);
    let at = host.alloc(32);
    host.write(at, range(MEMORY, 0, 4).as_bytes());
    host.point_prps(&mut command, at, 32);
    submit(host, command)
}

fn submit(host: &mut TestHost, command: Command) -> u16 {
    let cid = host.submit(QUEUE, command);
    host.ring(QUEUE);
    host.run();
    cid
}

/// Advances programs for one hold of the run lock, and completes those that end.
fn step(host: &mut TestHost) -> ProgramsProgress {
    let progress = host.subsystem.advance_programs();
    host.advance();
    progress
}

/// The completion of a program that ends with the next hold or has ended.
fn ended(host: &mut TestHost) -> Completion {
    assert_eq!(step(host), ProgramsProgress::Ended);
    host.reap(QUEUE).expect("the command of the program")
}

#[test]
fn a_long_program_gives_its_result_after_many_time_slices() {
    let mut host = host();
    let cid = begin(&mut host, COUNTER, 100_000);
    let mut holds = 0;
    while step(&mut host) == ProgramsProgress::Running {
        assert!(host.reap(QUEUE).is_none());
        holds += 1;
    }
    let completion = host.reap(QUEUE).unwrap();
    assert_eq!((completion.cid, value_of(&completion)), (cid, Ok(7)));
    assert!((10..14).contains(&holds), "{holds}");
    assert_eq!(step(&mut host), ProgramsProgress::Idle);
}

#[test]
fn programs_take_turns_and_other_commands_go_on_between() {
    let mut host = host();
    begin(&mut host, FREE, 0);
    let cid = begin(&mut host, COUNTER, 5_000);
    assert_eq!(read(&mut host, 0, 4), Ok(vec![0; 4]), "on the same queue");
    assert!(host.execute(OTHER, memory_command(MemoryOpcode::FILL, 0, 4)).status().is_success());
    let mut holds = 0;
    while step(&mut host) != ProgramsProgress::Ended {
        holds += 1;
    }
    assert_eq!((host.reap(QUEUE).unwrap().cid, holds), (cid, 1));
    assert_eq!(step(&mut host), ProgramsProgress::Running);
}

#[test]
fn what_a_program_runs_on_is_in_use() {
    let mut host = host();
    let set = create_set(&mut host, &[range(MEMORY, 0, 4)]);
    submit(&mut host, execute_command(FREE, set.dw0 as u16, 0, [0; 2]));
    assert!(activation(&mut host, FREE, ProgramActivationCdw10::DEACTIVATE).is(Status::PROGRAM_IN_USE));
    assert!(load(&mut host, FREE, 24, 0, &SUM).is(Status::PROGRAM_IN_USE));
    assert!(unload(&mut host, FREE).is(Status::PROGRAM_IN_USE));
    assert!(delete_set(&mut host, set.dw0 as u16).is(Status::MEMORY_RANGE_SET_IN_USE));
    assert!(activation(&mut host, COUNTER, ProgramActivationCdw10::DEACTIVATE).is_success());
}

/// Nothing runs, and nothing is in use.
fn assert_free(host: &mut TestHost) {
    assert_eq!(step(host), ProgramsProgress::Idle);
    assert!(activation(host, FREE, ProgramActivationCdw10::DEACTIVATE).is_success());
}

#[test]
fn abort_ends_a_program() {
    let mut host = host();
    let cid = begin(&mut host, FREE, 0);
    abort(&mut host, cid);
    assert_free(&mut host);
}

#[test]
fn deletion_of_its_queue_ends_a_program() {
    let mut host = host();
    begin(&mut host, FREE, 0);
    assert!(host.delete_sq(QUEUE).is_success());
    assert!(host.reap(QUEUE).unwrap().status().is(Status::ABORTED_SQ_DELETION));
    assert_free(&mut host);
}

#[test]
fn controller_reset_ends_a_program() {
    let mut host = host();
    host.subsystem.count_commands();
    begin(&mut host, FREE, 0);
    assert_eq!(host.subsystem.command_snapshot().in_engines, 1);
    host.write_register(Register::CC, 0);
    host.run();
    assert_eq!(host.subsystem.command_snapshot().in_engines, 0);
    assert_eq!(host.subsystem.advance_programs(), ProgramsProgress::Idle);
    assert!(host.subsystem.next_done().is_none());
}

#[test]
fn deleted_formatted_or_detached_namespaces_end_their_programs() {
    let mut format = Command::new(AdminOpcode::FORMAT_NVM.0, 0, MEMORY);
    format.cdw10 = FormatCdw10::new().into_bits();
    let detach = |host: &mut TestHost| {
        let mut command = Command::new(AdminOpcode::NAMESPACE_ATTACHMENT.0, 0, MEMORY);
        command.cdw10 = SelectCdw10::new().with_sel(SelectCdw10::DETACH).into_bits();
        let mut list = vec![0; 4096];
        list[0] = 1;
        host.admin_write(command, &list).status()
    };
    type Ends<'a> = &'a dyn Fn(&mut TestHost) -> Status;
    let cases: [(Ends<'_>, Status); 4] = [
        (&|host| delete(host, MEMORY), Status::INVALID_MEMORY_NAMESPACE),
        (&|host| delete(host, PROGRAMS), Status::INVALID_NAMESPACE),
        (&|host| host.admin(format).status(), Status::INVALID_MEMORY_NAMESPACE),
        (&detach, Status::INVALID_MEMORY_NAMESPACE),
    ];
    for (end, status) in cases {
        let mut host = host();
        begin(&mut host, FREE, 0);
        assert!(end(&mut host).is_success(), "{status}");
        assert_eq!(ended(&mut host).status().code(), status);
        assert_eq!(step(&mut host), ProgramsProgress::Idle);
    }
}

#[test]
fn memory_made_anew_under_the_same_number_is_not_the_program_s() {
    let mut host = host();
    begin(&mut host, FREE, 0);
    assert!(delete(&mut host, MEMORY).is_success());
    assert_eq!(create(&mut host, Csi::SLM, MIB).dw0, MEMORY);
    attach(&mut host, MEMORY);
    assert_eq!(ended(&mut host).status().code(), Status::INVALID_MEMORY_NAMESPACE);
}

#[test]
fn sanitize_ends_a_program() {
    let mut host = host();
    begin(&mut host, FREE, 0);
    let mut sanitize = Command::new(AdminOpcode::SANITIZE.0, 0, 0);
    sanitize.cdw10 = SanitizeCdw10::new().with_sanact(SanitizeCdw10::BLOCK_ERASE).into_bits();
    assert!(host.admin(sanitize).status().is_success());
    assert_eq!(ended(&mut host).status().code(), Status::SANITIZE_IN_PROGRESS);
}

#[test]
fn a_program_is_stopped_at_the_device_s_limit_of_steps() {
    let options = SubsystemOptions::default().program_steps_max(100_000);
    let mut host = TestHost::with_options(64 * MIB, &[nvm(8 * MIB, 512)], options);
    add_namespaces(&mut host);
    let mut host = running(host, &Steps::default());
    begin(&mut host, FREE, 0);
    let mut holds = 0;
    while step(&mut host) == ProgramsProgress::Running {
        holds += 1;
    }
    let completion = host.reap(QUEUE).unwrap();
    assert_eq!(value_of(&completion), Err(Status::INSUFFICIENT_PROGRAM_RESOURCES));
    assert!((4..7).contains(&holds), "{holds}");
}

fn abort(host: &mut TestHost, cid: u16) {
    let mut abort = Command::new(AdminOpcode::ABORT.0, 0, 0);
    abort.cdw10 = AbortCdw10::new().with_sqid(QUEUE).with_cid(cid).into_bits();
    assert_eq!(host.admin(abort).dw0, 0, "aborted");
    let completion = host.reap(QUEUE).unwrap();
    assert_eq!((completion.cid, completion.status().code()), (cid, Status::ABORT_REQUESTED));
}

#[test]
fn programs_beyond_those_that_run_at_a_time_wait_until_one_ends() {
    let mut host = host();
    let first = begin(&mut host, FREE, 0);
    (1..32).for_each(|_| _ = begin(&mut host, FREE, 0));
    let waiting = [100_000, 1, 5_000].map(|count| begin(&mut host, COUNTER, count));
    for _ in 0..100 {
        assert_eq!(step(&mut host), ProgramsProgress::Running);
    }
    assert!(host.reap(QUEUE).is_none());
    abort(&mut host, first);
    for cid in waiting {
        while step(&mut host) != ProgramsProgress::Ended {}
        let completion = host.reap(QUEUE).unwrap();
        assert_eq!((completion.cid, value_of(&completion)), (cid, Ok(7)));
    }
}

#[test]
fn abort_of_a_program_that_waits_for_a_run_slot_leaves_the_others() {
    let mut host = host();
    (0..32).for_each(|_| _ = begin(&mut host, FREE, 0));
    let [first, second, third] = [100_000, 1, 1].map(|count| begin(&mut host, COUNTER, count));
    abort(&mut host, second);
    let mut again = Command::new(AdminOpcode::ABORT.0, 0, 0);
    again.cdw10 = AbortCdw10::new().with_sqid(QUEUE).with_cid(second).into_bits();
    assert_eq!(host.admin(again).dw0, 1, "it is over");
    assert_eq!(step(&mut host), ProgramsProgress::Running);
    [first, third].into_iter().for_each(|cid| abort(&mut host, cid));
    assert!(host.delete_sq(QUEUE).is_success());
    assert_eq!(std::iter::from_fn(|| host.reap(QUEUE)).count(), 32);
    assert_eq!(step(&mut host), ProgramsProgress::Idle);
}

#[test]
fn programs_of_more_than_a_full_queue_wait_and_end() {
    const EXECUTES: usize = 1_500;
    let mut host = host();
    host.create_pair(3, 2048);
    for _ in 0..EXECUTES {
        host.submit(3, execute_command(COUNTER, 0, 0, [400, 0]));
    }
    host.ring(3);
    host.run();
    while step(&mut host) != ProgramsProgress::Idle {}
    let results = std::iter::from_fn(|| host.reap(3)).map(|done| assert_eq!(value_of(&done), Ok(7)));
    assert_eq!(results.count(), EXECUTES);
}

/// Completions that are there.
fn reap_all(host: &mut TestHost) -> usize {
    std::iter::from_fn(|| host.reap(QUEUE)).map(|completion| assert_eq!(value_of(&completion), Ok(7))).count()
}

#[test]
fn a_full_queue_of_execute_runs_for_one_budget_of_steps_under_the_doorbell() {
    let mut host = host();
    for _ in 0..60 {
        // 802 steps each.
        host.submit(QUEUE, execute_command(COUNTER, 0, 0, [400, 0]));
    }
    host.ring(QUEUE);
    host.run();
    let at_once = reap_all(&mut host);
    assert!((10..=20).contains(&at_once), "{at_once}");
    let mut completed = at_once;
    for _ in 0..4 {
        step(&mut host);
        completed += reap_all(&mut host);
    }
    assert_eq!((completed, step(&mut host)), (60, ProgramsProgress::Idle));
}

#[test]
fn programs_run_for_a_bounded_time_in_each_hold_of_the_run_lock() {
    let steps = Steps { read_ns: 30_000, ..Steps::default() };
    let mut host = running(super::host(), &steps);
    begin(&mut host, COUNTER, 10_000);
    let mut holds = 0;
    while step(&mut host) == ProgramsProgress::Running {
        holds += 1;
    }
    // 256 steps between two readings of the clock, at most four of them in a hold.
    assert!((15..80).contains(&holds), "{holds}");
}

#[test]
fn decompression_is_left_to_the_thread() {
    let mut host = host();
    assert!(activate(&mut host, DECOMPRESS).is_success());
    assert!(write(&mut host, 0, b"\x03\x08abc\0\0\0").is_success());
    let set = create_set(&mut host, &[range(MEMORY, 0, 8), range(MEMORY, 8, 8)]);
    // A raw Snappy block of 5 bytes.
    submit(&mut host, execute_command(DECOMPRESS, set.dw0 as u16, 0, [1, 5]));
    assert!(host.reap(QUEUE).is_none());
    assert_eq!(value_of(&ended(&mut host)), Ok(3));
    assert_eq!(read(&mut host, 8, 4), Ok(b"abc\0".to_vec()));
}

#[test]
fn a_program_is_stopped_at_the_device_s_limit_of_time() {
    let options = SubsystemOptions::default().program_time_max(Duration::from_secs(5));
    let mut host = TestHost::with_options(64 * MIB, &[nvm(8 * MIB, 512)], options);
    add_namespaces(&mut host);
    let steps = Steps::default();
    let mut host = running(host, &steps);
    begin(&mut host, FREE, 0);
    steps.now_ns.fetch_add(4_999_999_999, Relaxed);
    assert_eq!(step(&mut host), ProgramsProgress::Running);
    steps.now_ns.fetch_add(1, Relaxed);
    assert_eq!(value_of(&ended(&mut host)), Err(Status::INSUFFICIENT_PROGRAM_RESOURCES));
    assert_free(&mut host);
}

#[test]
fn a_program_that_leaves_its_ranges_in_a_later_time_slice_is_stopped_there() {
    let mut host = host();
    // r4 = the first range; count r3 down; *(u8 *)(r4 + 4) = 1, one byte behind it; exit.
    let walk = [
        0x18, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0x07, 3, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x55, 3,
        0xfe, 0xff, 0, 0, 0, 0, 0x72, 4, 4, 0, 1, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0,
    ];
    assert!(load(&mut host, FREE + 2, walk.len() as u32, 0, &walk).is_success());
    assert!(activate(&mut host, FREE + 2).is_success());
    begin(&mut host, FREE + 2, 50_000);
    while step(&mut host) == ProgramsProgress::Running {}
    assert!(host.reap(QUEUE).unwrap().status().is(Status::INVALID_PROGRAM_DATA));
}
