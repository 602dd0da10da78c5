//! Commands that need no run lock, while other hosts change what they rest on.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use byway_fabrics::Property;
use byway_spec::base::admin::{AdminOpcode, SelectCdw10};
use byway_spec::base::feature::FeatureId;
use byway_spec::base::log::LogPage;
use byway_spec::kv::KvOpcode;
use byway_spec::nvm::NvmOpcode;
use byway_spec::{Command, Status};
use byway_tcp_target::AnaState;

use crate::host::{By, End, Host, Proposal, blocks, keyed, pattern};
use crate::served::{BLOCKS, KEYS, SUBSYSTEM, Served, name};

const ROUNDS: u64 = 60;
const UNIT: usize = 4096;

/// Dword 10 of a reservation command: the type of the reservation.
const EXCLUSIVE_ACCESS: u32 = 2 << 8;

fn on_two_threads() -> Served {
    Served::with(|asked| asked.target.threads = 2.try_into().unwrap())
}

fn store(io: &mut Host, key: &[u8], value: &[u8]) -> Status {
    io.write(keyed(KvOpcode::STORE, key, value.len()), By::Capsule, value).status()
}

fn retrieve(io: &mut Host, key: &[u8], bytes: usize) -> (Status, Vec<u8>) {
    let (done, value) = io.read(keyed(KvOpcode::RETRIEVE, key, bytes), bytes);
    (done.status(), value)
}

fn attachment(nsid: u32, select: u8) -> Command {
    let mut command = Command::new(AdminOpcode::NAMESPACE_ATTACHMENT.0, 0, nsid);
    command.cdw10 = SelectCdw10::new().with_sel(select).into_bits();
    command
}

/// Detaches a namespace from a controller, or attaches it.
fn attach(admin: &mut Host, nsid: u32, select: u8) {
    let mut list = vec![0; 4096];
    list[0] = 1;
    list[2..4].copy_from_slice(&admin.controller().0.to_le_bytes());
    let done = admin.write(attachment(nsid, select), By::Capsule, &list);
    assert!(done.status().is_success(), "{:?}", done.status());
}

/// Looks at one read: it gets the number of the change that was the last one all the while, if there is one.
type Check<'a> = Box<dyn FnMut(&dyn Fn() -> Option<u64>) + Send + 'a>;

/// Has each of `checks` look at what a reader sees between two changes. The phase is odd while a change is made.
fn beside_changes(phase: &AtomicU64, mut change: impl FnMut(u64), checks: Vec<Check<'_>>) {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for mut check in checks {
            let is_over = &is_over;
            scope.spawn(move || {
                while !is_over.load(SeqCst) {
                    let before = phase.load(SeqCst);
                    check(&|| {
                        (before.is_multiple_of(2) && phase.load(SeqCst) == before).then_some(before / 2)
                    });
                }
            });
        }
        for round in 1..=ROUNDS {
            phase.fetch_add(1, SeqCst);
            change(round);
            phase.fetch_add(1, SeqCst);
            thread::sleep(Duration::from_millis(2));
        }
        is_over.store(true, SeqCst);
    });
}

/// Runs `work` while another thread holds the run lock.
fn while_run_lock_is_held(served: &Served, work: impl FnOnce()) {
    let capsules = served.device().capsules().unwrap();
    let ((held, is_held), (end, ended)) = (channel(), channel::<()>());
    thread::scope(move |scope| {
        scope.spawn(move || {
            let hold = |_: &mut byway_executor::CapsuleDevice<'_>| {
                held.send(()).unwrap();
                // Until `work` has ended, also by a panic.
                let _ = ended.recv();
            };
            capsules.run(hold).unwrap();
        });
        is_held.recv().unwrap();
        work();
        drop(end);
    });
}

#[test]
fn reads_of_blocks_complete_while_another_thread_holds_the_run_lock() {
    let served = Served::new();
    let (_admin, mut io) = served.host(Proposal::default());
    let data = pattern(1, UNIT);
    assert!(io.write(blocks(NvmOpcode::WRITE, 0, UNIT), By::Capsule, &data).status().is_success());
    while_run_lock_is_held(&served, || {
        for _ in 0..100 {
            assert!(io.read(blocks(NvmOpcode::READ, 0, UNIT), UNIT).1 == data);
        }
    });
}

#[test]
fn connection_that_was_refused_a_serving_thread_gets_one_some_batches_later() {
    let served = Served::new();
    let capsules = served.device().capsules().unwrap();
    let others: Vec<_> = std::iter::from_fn(|| capsules.serving_thread()).collect();
    let (_admin, mut io) = served.host(Proposal::default());
    let read = |io: &mut Host| io.read(blocks(NvmOpcode::READ, 0, UNIT), UNIT).0.status();
    assert!(read(&mut io).is_success());
    drop(others);
    let has_thread = || {
        let left: Vec<_> = std::iter::from_fn(|| capsules.serving_thread()).collect();
        left.len() < 64
    };
    assert!(!has_thread(), "it asks again later");
    let is_later = (0..1000).any(|round| {
        assert!(read(&mut io).is_success());
        round % 100 == 99 && has_thread()
    });
    assert!(is_later);
    while_run_lock_is_held(&served, || assert!(read(&mut io).is_success()));
}

/// Hosts send some of them every few seconds.
#[test]
fn admin_commands_that_change_nothing_leave_queues_what_they_need_no_run_lock_for() {
    let served = on_two_threads();
    let (mut admin, mut io) = served.host(Proposal::default());
    let read = |io: &mut Host| io.read(blocks(NvmOpcode::READ, 0, UNIT), UNIT).0.status();
    assert!(read(&mut io).is_success());
    let mut identify = Command::new(AdminOpcode::IDENTIFY.0, 0, 0);
    identify.cdw10 = 1;
    let mut features = Command::new(AdminOpcode::GET_FEATURES.0, 0, 0);
    features.cdw10 = FeatureId::ASYNC_EVENTS.0.into();
    let mut health = Command::new(AdminOpcode::GET_LOG_PAGE.0, 0, u32::MAX);
    health.cdw10 = u32::from(LogPage::SMART.0) | (512 / 4 - 1) << 16;
    for (command, bytes) in
        [(Command::new(AdminOpcode::KEEP_ALIVE.0, 0, 0), 0), (identify, 4096), (features, 0), (health, 512)]
    {
        assert!(admin.read(command, bytes).0.status().is_success());
        while_run_lock_is_held(&served, || assert!(read(&mut io).is_success()));
    }
    admin.start_read(Command::new(AdminOpcode::ASYNC_EVENT_REQUEST.0, 0, 0), 0);
    assert!(admin.read(Command::new(AdminOpcode::KEEP_ALIVE.0, 0, 0), 0).0.status().is_success());
    while_run_lock_is_held(&served, || assert!(read(&mut io).is_success()));
}

#[test]
fn commands_without_the_run_lock_are_counted_when_an_admin_command_asks() {
    let served = on_two_threads();
    let (_admin, mut io) = served.host(Proposal::default());
    let count = || {
        served.device().with_subsystem(|subsystem| {
            let host = subsystem.flash().counters().host;
            (host.reads, host.read_bytes, host.writes, host.written_bytes)
        })
    };
    let mut wanted = count();
    for round in 0..50 {
        assert_eq!(store(&mut io, b"counted", &[7; 100]), Status::SUCCESS);
        assert_eq!(retrieve(&mut io, b"counted", 200), (Status::SUCCESS, [[7; 100], [0; 100]].concat()));
        assert!(retrieve(&mut io, b"missing", 200).0.is(Status::KEY_DOES_NOT_EXIST));
        assert!(io.read(blocks(NvmOpcode::READ, 0, 1024), 1024).0.status().is_success());
        wanted = (wanted.0 + 3, wanted.1 + 100 + 1024, wanted.2 + 1, wanted.3 + 100);
        if round % 7 == 0 {
            assert_eq!(count(), wanted, "round {round}");
        }
    }
    assert_eq!(count(), wanted);
}

#[test]
fn retrieve_into_a_shorter_buffer_brings_the_beginning_and_the_whole_length() {
    let served = Served::new();
    let (_admin, mut io) = served.host(Proposal::DIGESTS);
    assert_eq!(store(&mut io, b"key", &pattern(3, 1000)), Status::SUCCESS);
    for bytes in [4, 1000, 4096] {
        let (done, got) = io.read(keyed(KvOpcode::RETRIEVE, b"key", bytes), bytes);
        assert!(done.status().is_success() && done.dw0 == 1000);
        let kept = bytes.min(1000);
        assert!(got[..kept] == pattern(3, 1000)[..kept] && got[kept..].iter().all(|byte| *byte == 0));
    }
}

/// A namespace that is detached, formatted and attached again beside readers.
#[test]
fn readers_never_see_a_namespace_that_is_detached_or_what_it_held_before_a_format() {
    let served = on_two_threads();
    let (mut admin, _io) = served.host(Proposal::default());
    let (mut writer, mut ios) = (served.queue(&admin, 2, Proposal::default()), Vec::new());
    (3..7).for_each(|qid| ios.push(served.queue(&admin, qid, Proposal::default())));
    let phase = AtomicU64::new(0);
    let data = |round| pattern(round, UNIT);
    let mut fill = |round: u64| {
        assert!(
            writer.write(blocks(NvmOpcode::WRITE, 8, UNIT), By::Capsule, &data(round)).status().is_success()
        );
        assert_eq!(store(&mut writer, b"key", &data(round)[..500]), Status::SUCCESS);
    };
    fill(0);
    let mut checks: Vec<Check<'_>> = Vec::new();
    for (at, mut io) in (0..).zip(ios) {
        checks.push(Box::new(move |between| {
            let (status, got, bytes) = match at % 2 {
                0 => {
                    let (done, got) = io.read(blocks(NvmOpcode::READ, 8, UNIT), UNIT);
                    (done.status(), got, UNIT)
                }
                _ => {
                    let (status, got) = retrieve(&mut io, b"key", 500);
                    (status, got, 500)
                }
            };
            match between() {
                // It is detached after odd rounds.
                Some(round) if round % 2 == 1 => assert!(status.is(Status::INVALID_NAMESPACE), "{status:?}"),
                Some(round) => {
                    assert!(status.is_success(), "{status:?}");
                    assert!(got == data(round)[..bytes], "round {round}, queue {at}");
                }
                None => {}
            }
        }));
    }
    let change = |round: u64| {
        if round % 2 == 1 {
            for nsid in [BLOCKS, KEYS] {
                attach(&mut admin, nsid, SelectCdw10::DETACH);
            }
            return;
        }
        for nsid in [BLOCKS, KEYS] {
            attach(&mut admin, nsid, SelectCdw10::ATTACH);
            let format = Command::new(AdminOpcode::FORMAT_NVM.0, 0, nsid);
            assert!(admin.read(format, 0).0.status().is_success());
        }
        fill(round);
    };
    beside_changes(&phase, change, checks);
}

#[test]
fn reservations_and_closed_paths_shut_out_readers_at_once() {
    let served = Served::with_ports(2, |asked| asked.target.threads = 2.try_into().unwrap());
    let (_holder_admin, mut holder) = served.host(Proposal::default());
    let mut other_admin = served.greet(Proposal::default());
    other_admin.identity.0[0] ^= 1;
    other_admin.connect_admin(0).unwrap();
    other_admin.enable();
    let mut io = served.greet(Proposal::default());
    io.identity = other_admin.identity;
    io.connect_io(1, other_admin.controller()).unwrap();
    let register = |io: &mut Host| {
        let keys = [0u64, 1].map(u64::to_le_bytes).concat();
        let command = Command::new(NvmOpcode::RESERVATION_REGISTER.0, 0, BLOCKS);
        assert!(io.write(command, By::Capsule, &keys).status().is_success());
    };
    register(&mut holder);
    let phase = AtomicU64::new(0);
    let check = Box::new(move |between: &dyn Fn() -> Option<u64>| {
        let status = io.read(blocks(NvmOpcode::READ, 0, 512), 512).0.status();
        match between() {
            Some(round) if round % 2 == 1 => assert!(status.is(Status::RESERVATION_CONFLICT), "{status:?}"),
            Some(_) => assert!(status.is_success(), "{status:?}"),
            None => {}
        }
    });
    let change = |round: u64| {
        let (opcode, kind) = match round % 2 {
            1 => (NvmOpcode::RESERVATION_ACQUIRE.0, EXCLUSIVE_ACCESS),
            _ => (NvmOpcode::RESERVATION_RELEASE.0, EXCLUSIVE_ACCESS),
        };
        let mut command = Command::new(opcode, 0, BLOCKS);
        command.cdw10 = kind;
        let keys = match round % 2 {
            1 => [1u64, 0].map(u64::to_le_bytes).concat(),
            _ => 1u64.to_le_bytes().to_vec(),
        };
        let done = holder.write(command, By::Capsule, &keys);
        assert!(done.status().is_success(), "{:?}", done.status());
    };
    beside_changes(&phase, change, vec![check]);
    let mut io = served.queue(&other_admin, 2, Proposal::default());
    let read = |io: &mut Host| io.read(blocks(NvmOpcode::READ, 0, 512), 512).0.status();
    assert!(read(&mut io).is_success());
    served.set(1, BLOCKS, AnaState::INACCESSIBLE);
    assert!(!read(&mut io).is_success());
    served.set(1, BLOCKS, AnaState::OPTIMIZED);
    assert!(read(&mut io).is_success());
}

/// A reservation that another host has is one reason, which ends without any admin command.
#[test]
fn reads_that_took_the_run_lock_leave_it_some_reads_after_the_reason_is_gone() {
    let served = on_two_threads();
    let (_holder_admin, mut holder) = served.host(Proposal::default());
    let reserve = |holder: &mut Host, opcode: NvmOpcode, keys: &[u64]| {
        let mut command = Command::new(opcode.0, 0, BLOCKS);
        command.cdw10 = if opcode == NvmOpcode::RESERVATION_REGISTER { 0 } else { EXCLUSIVE_ACCESS };
        let keys: Vec<u8> = keys.iter().flat_map(|key| key.to_le_bytes()).collect();
        assert!(holder.write(command, By::Capsule, &keys).status().is_success());
    };
    reserve(&mut holder, NvmOpcode::RESERVATION_REGISTER, &[0, 1]);
    reserve(&mut holder, NvmOpcode::RESERVATION_ACQUIRE, &[1, 0]);
    let (mut admin, mut io) = (served.greet(Proposal::default()), served.greet(Proposal::default()));
    admin.identity.0[0] ^= 1;
    admin.connect_admin(0).unwrap();
    admin.enable();
    io.identity = admin.identity;
    io.connect_io(1, admin.controller()).unwrap();
    let read = |io: &mut Host| io.read(blocks(NvmOpcode::READ, 0, UNIT), UNIT).0.status();
    assert!(read(&mut io).is(Status::RESERVATION_CONFLICT));
    reserve(&mut holder, NvmOpcode::RESERVATION_RELEASE, &[1]);
    (0..300).for_each(|_| assert!(read(&mut io).is_success()));
    while_run_lock_is_held(&served, || assert!(read(&mut io).is_success()));
}

#[test]
fn controller_reset_ends_queues_in_the_midst_of_commands_without_the_run_lock() {
    let served = on_two_threads();
    let mut admin = served.admin(Proposal::default());
    for round in 0..20u64 {
        let mut ios: Vec<Host> = (1..4).map(|qid| served.queue(&admin, qid, Proposal::default())).collect();
        thread::scope(|scope| {
            for (at, io) in (0..).zip(&mut ios) {
                scope.spawn(move || {
                    let key = [at; 4];
                    loop {
                        let cid = match at {
                            0 => io.start_read(blocks(NvmOpcode::READ, 0, UNIT), UNIT),
                            1 => io.start(keyed(KvOpcode::STORE, &key, 64), By::Capsule, &[at; 64]),
                            _ => io.start_read(keyed(KvOpcode::RETRIEVE, &key, 64), 64),
                        };
                        while !io.is_done(cid) {
                            if let Some(end) = io.receive() {
                                assert_eq!(end, End::Closed);
                                return;
                            }
                        }
                    }
                });
            }
            thread::sleep(Duration::from_millis(round % 5));
            assert!(admin.set_property(Property::Cc, 0).is_success());
        });
        admin.enable();
    }
    let (_admin, mut io) = served.host(Proposal::default());
    assert!(io.read(blocks(NvmOpcode::READ, 0, UNIT), UNIT).0.status().is_success());
}

#[test]
fn a_host_that_is_not_allowed_any_more_reads_nothing_without_the_run_lock() {
    let served = on_two_threads();
    let (_admin, mut io) = served.host(Proposal::default());
    for _ in 0..10 {
        assert!(io.read(blocks(NvmOpcode::READ, 0, UNIT), UNIT).0.status().is_success());
    }
    served.control().set_allowed(&name(SUBSYSTEM), Some(vec![name("nqn.2026-01.example:other")])).unwrap();
    let cid = io.start_read(blocks(NvmOpcode::READ, 0, UNIT), UNIT);
    assert_eq!(io.wait_for_end(), End::Closed);
    assert!(!io.is_done(cid));
}

/// Stores by leases are seen by every other queue once they are acknowledged, whatever happens between them.
#[test]
fn stores_without_the_run_lock_are_seen_by_other_queues_beside_formats_deletions_and_lists() {
    let served = on_two_threads();
    let admin = served.admin(Proposal::default());
    let mut control = served.queue(&admin, 9, Proposal::default());
    let acknowledged: Vec<AtomicU64> = (0..2).map(|_| AtomicU64::new(0)).collect();
    let is_over = AtomicBool::new(false);
    let queue = |qid| served.queue(&admin, qid, Proposal::default());
    thread::scope(|scope| {
        for (at, acknowledged) in acknowledged.iter().enumerate() {
            let (is_over, mut io, mut reader) = (&is_over, queue(at as u16 + 1), queue(at as u16 + 3));
            let key = [b'k', at as u8];
            scope.spawn(move || {
                for number in 1u64.. {
                    if is_over.load(SeqCst) {
                        return;
                    }
                    assert_eq!(store(&mut io, &key, &number.to_le_bytes().repeat(20)), Status::SUCCESS);
                    acknowledged.store(number, SeqCst);
                }
            });
            scope.spawn(move || {
                while !is_over.load(SeqCst) {
                    let least = acknowledged.load(SeqCst);
                    let (status, value) = retrieve(&mut reader, &key, 160);
                    if least > 0 {
                        assert!(status.is_success(), "{status:?}");
                        let number = u64::from_le_bytes(value[..8].try_into().unwrap());
                        assert!(number >= least && value == number.to_le_bytes().repeat(20));
                    }
                }
            });
        }
        for round in 0..200u64 {
            let key = [&b"other"[..], &round.to_le_bytes()[..2]].concat();
            assert_eq!(store(&mut control, &key, &[1; 3000]), Status::SUCCESS);
            let (listed, _) = control.read(keyed(KvOpcode::LIST, b"k", 4096), 4096);
            assert!(listed.status().is_success());
            assert!(control.read(keyed(KvOpcode::DELETE, &key, 0), 0).0.status().is_success());
            assert!(retrieve(&mut control, &key, 10).0.is(Status::KEY_DOES_NOT_EXIST));
        }
        is_over.store(true, SeqCst);
    });
}
