//! What each command does, and what is kept from whom.

use byway_spec::base::admin::{AdminOpcode, SanitizeCdw10, SelectCdw10};
use byway_spec::base::identify::{Cns, Csi};
use byway_spec::base::reservation::{
    AcquireAction, RegisterAction, RegisterCdw10, ReleaseAction, ReservationOpcode, ReservationType,
};
use byway_spec::kv::KvOpcode;
use byway_spec::nvm::NvmOpcode;
use byway_spec::{Command, Status};

use crate::cluster::{BLOCKS, Cluster, MIB, PAIRS, identifier};
use crate::common::{TestHost, kv, number, nvm};

const CONFLICT: Status = Status::RESERVATION_CONFLICT;

/// What a host that does not hold a namespace may do: (reads, writes) as no registrant, and as one.
const TABLE: [(ReservationType, [(bool, bool); 2]); 6] = [
    (ReservationType::WRITE_EXCLUSIVE, [(true, false), (true, false)]),
    (ReservationType::EXCLUSIVE_ACCESS, [(false, false), (false, false)]),
    (ReservationType::WRITE_EXCLUSIVE_REGISTRANTS, [(true, false), (true, true)]),
    (ReservationType::EXCLUSIVE_ACCESS_REGISTRANTS, [(false, false), (true, true)]),
    (ReservationType::WRITE_EXCLUSIVE_ALL, [(true, false), (true, true)]),
    (ReservationType::EXCLUSIVE_ACCESS_ALL, [(false, false), (true, true)]),
];

#[track_caller]
fn is(status: Status, wanted: Status) {
    assert!(status.is(wanted), "{status:?} is not {wanted:?}");
}

#[test]
fn every_reservation_type_blocks_the_commands_of_its_table() {
    let blocks = [
        (NvmOpcode::READ, false),
        (NvmOpcode::COMPARE, false),
        (NvmOpcode::VERIFY, false),
        (NvmOpcode::WRITE, true),
        (NvmOpcode::WRITE_ZEROES, true),
        (NvmOpcode::DATASET_MANAGEMENT, true),
        (NvmOpcode::COPY, true),
        (NvmOpcode::FLUSH, true),
    ]
    .map(|(opcode, writes)| (BLOCKS, opcode.0, writes));
    let pairs = [
        (KvOpcode::STORE, true),
        (KvOpcode::RETRIEVE, false),
        (KvOpcode::LIST, false),
        (KvOpcode::EXIST, false),
        (KvOpcode::DELETE, true),
        (KvOpcode::FLUSH, true),
    ]
    .map(|(opcode, writes)| (PAIRS, opcode.0, writes));
    for (rtype, rows) in TABLE {
        // Host 1 holds it, 2 is a registrant, 3 none, and a fourth controller is host 1's too.
        let mut cluster = Cluster::new(&[1, 2, 3, 1]);
        for nsid in [BLOCKS, PAIRS] {
            is(
                cluster.touch_by(0, nsid, if nsid == PAIRS { KvOpcode::STORE.0 } else { NvmOpcode::WRITE.0 }),
                Status::SUCCESS,
            );
            is(cluster.join(0, nsid, 11), Status::SUCCESS);
            is(cluster.join(1, nsid, 12), Status::SUCCESS);
            is(cluster.acquire(0, nsid, rtype, 11), Status::SUCCESS);
        }
        for (nsid, opcode, writes) in blocks.into_iter().chain(pairs) {
            for (n, may) in [(0, (true, true)), (3, (true, true)), (1, rows[1]), (2, rows[0])] {
                let allowed = if writes { may.1 } else { may.0 };
                if nsid == PAIRS && opcode == KvOpcode::RETRIEVE.0 {
                    // An earlier Delete of the row may have gone through.
                    let _ = cluster.touch_by(0, nsid, KvOpcode::STORE.0);
                }
                let status = cluster.touch_by(n, nsid, opcode);
                assert_eq!(
                    status.is(CONFLICT),
                    !allowed,
                    "{rtype}: {opcode:#x} of controller {n}: {status:?}"
                );
            }
        }
    }
}

#[test]
fn a_host_that_may_not_write_does_not_learn_what_a_fused_compare_would_say() {
    for (rtype, answers) in [
        (ReservationType::WRITE_EXCLUSIVE, [Status::ABORTED_FAILED_FUSED, CONFLICT]),
        (ReservationType::EXCLUSIVE_ACCESS, [Status::ABORTED_FAILED_FUSED, CONFLICT]),
        (ReservationType::WRITE_EXCLUSIVE_REGISTRANTS, [Status::SUCCESS; 2]),
    ] {
        let mut cluster = Cluster::new(&[1, 2]);
        is(cluster.join(0, BLOCKS, 11), Status::SUCCESS);
        is(cluster.join(1, BLOCKS, 12), Status::SUCCESS);
        is(cluster.acquire(0, BLOCKS, rtype, 11), Status::SUCCESS);
        assert_eq!(cluster.compare_and_write(1), answers, "{rtype}");
        assert_eq!(cluster.compare_and_write(0), [Status::SUCCESS; 2], "{rtype}");
    }
}

#[test]
fn admin_commands_on_a_reserved_namespace_are_denied_to_other_hosts() {
    let mut cluster = Cluster::new(&[1, 2]);
    is(cluster.join(0, BLOCKS, 1), Status::SUCCESS);
    is(cluster.acquire(0, BLOCKS, ReservationType::WRITE_EXCLUSIVE, 1), Status::SUCCESS);
    let format = Command::new(AdminOpcode::FORMAT_NVM.0, 0, BLOCKS);
    let mut delete = Command::new(AdminOpcode::NAMESPACE_MANAGEMENT.0, 0, BLOCKS);
    delete.cdw10 = SelectCdw10::new().with_sel(SelectCdw10::DELETE).into_bits();
    let delete_all = Command { nsid: u32::MAX, ..delete };
    let mut sanitize = Command::new(AdminOpcode::SANITIZE.0, 0, 0);
    sanitize.cdw10 = SanitizeCdw10::new().with_sanact(SanitizeCdw10::BLOCK_ERASE).into_bits();
    let mut detach = Command::new(AdminOpcode::NAMESPACE_ATTACHMENT.0, 0, BLOCKS);
    detach.cdw10 = SelectCdw10::new().with_sel(SelectCdw10::DETACH).into_bits();
    for refused in [format, delete, delete_all, sanitize, detach] {
        is(cluster.on(1, |host| host.admin_write(refused, &[0; 4096])).status(), CONFLICT);
    }
    let other = Command::new(AdminOpcode::FORMAT_NVM.0, 0, PAIRS);
    is(cluster.on(1, |host| host.admin(other)).status(), Status::SUCCESS);
    is(cluster.on(0, |host| host.admin(format)).status(), Status::SUCCESS);
    is(cluster.touch(1, BLOCKS, true), CONFLICT);
    is(cluster.on(0, |host| host.admin(delete)).status(), Status::SUCCESS);
}

#[test]
fn recreated_namespace_has_no_reservation() {
    let mut cluster = Cluster::new(&[1, 2]);
    is(cluster.join_for_good(0, BLOCKS, 1), Status::SUCCESS);
    is(cluster.acquire(0, BLOCKS, ReservationType::EXCLUSIVE_ACCESS, 1), Status::SUCCESS);
    let made = cluster.on(0, |host| {
        host.subsystem.delete_namespace(BLOCKS).unwrap();
        let kind = byway_flash::NamespaceKind::Nvm { lba_bytes: 512 };
        let made = host.subsystem.create_namespace(kind, MIB).unwrap();
        (0..2).for_each(|id| host.subsystem.attach(made, byway_controller::ControllerId(id)).unwrap());
        made
    });
    assert_eq!(made, BLOCKS);
    is(cluster.touch(1, BLOCKS, true), Status::SUCCESS);
}

#[test]
fn reservations_outlive_a_format_and_a_sanitize() {
    let mut cluster = Cluster::new(&[1, 2]);
    for nsid in [BLOCKS, PAIRS] {
        is(cluster.join_for_good(0, nsid, 1), Status::SUCCESS);
        is(cluster.acquire(0, nsid, ReservationType::WRITE_EXCLUSIVE, 1), Status::SUCCESS);
    }
    let mut sanitize = Command::new(AdminOpcode::SANITIZE.0, 0, 0);
    sanitize.cdw10 = SanitizeCdw10::new().with_sanact(SanitizeCdw10::BLOCK_ERASE).into_bits();
    let is_done = cluster.on(0, |host| {
        let status = host.admin(sanitize).status();
        while host.subsystem.is_sanitizing() {
            host.subsystem.sanitize_slice().unwrap();
        }
        status
    });
    is(is_done, Status::SUCCESS);
    for nsid in [BLOCKS, PAIRS] {
        is(
            cluster.on(0, |host| host.admin(Command::new(AdminOpcode::FORMAT_NVM.0, 0, nsid))).status(),
            Status::SUCCESS,
        );
        is(cluster.touch(1, nsid, true), CONFLICT);
        is(cluster.touch(0, nsid, true), Status::SUCCESS);
    }
}

#[test]
fn a_registrant_has_one_key_whichever_controller_it_comes_by() {
    let mut cluster = Cluster::new(&[1, 1, 2]);
    is(cluster.join(0, BLOCKS, 7), Status::SUCCESS);
    is(cluster.join(1, BLOCKS, 7), Status::SUCCESS);
    is(cluster.join(1, BLOCKS, 8), CONFLICT);
    is(cluster.join(2, BLOCKS, 7), Status::SUCCESS);
    let replace = RegisterCdw10::new().with_rrega(RegisterAction::REPLACE);
    is(cluster.register(1, BLOCKS, replace, (8, 9)), CONFLICT);
    is(cluster.register(1, BLOCKS, replace.with_iekey(true), (8, 9)), Status::SUCCESS);
    is(cluster.acquire(0, BLOCKS, ReservationType::WRITE_EXCLUSIVE, 7), CONFLICT);
    is(cluster.acquire(0, BLOCKS, ReservationType::WRITE_EXCLUSIVE, 9), Status::SUCCESS);
    is(cluster.touch(1, BLOCKS, true), Status::SUCCESS);
    is(cluster.leave(2, BLOCKS, 9), CONFLICT);
    is(cluster.leave(1, BLOCKS, 9), Status::SUCCESS);
    is(cluster.touch(2, BLOCKS, true), Status::SUCCESS);
}

#[test]
fn report_lists_each_controller_and_counts_every_change() {
    let mut cluster = Cluster::new(&[1, 2, 1]);
    let report = cluster.report(0, BLOCKS, true).unwrap();
    assert_eq!((number(&report, 0, 4), number(&report, 4, 1), number(&report, 5, 2)), (0, 0, 0));
    is(cluster.join(0, BLOCKS, 0x11), Status::SUCCESS);
    is(cluster.join(1, BLOCKS, 0x22), Status::SUCCESS);
    is(cluster.acquire(1, BLOCKS, ReservationType::EXCLUSIVE_ACCESS, 0x22), Status::SUCCESS);
    let report = cluster.report(0, BLOCKS, true).unwrap();
    assert_eq!((number(&report, 0, 4), number(&report, 4, 1), number(&report, 5, 2)), (2, 2, 3));
    assert_eq!(number(&report, 9, 1), 0, "does not persist");
    let listed: Vec<_> = report[64..].chunks_exact(64).take(3).collect();
    let of = |entry: &[u8]| (number(entry, 0, 2), entry[2], number(entry, 8, 8), entry[16]);
    assert_eq!(
        listed.iter().map(|entry| of(entry)).collect::<Vec<_>>(),
        [(0, 0, 0x11, 1), (2, 0, 0x11, 1), (1, 1, 0x22, 2)]
    );
    is(cluster.report(0, BLOCKS, false).unwrap_err(), Status::HOST_ID_INCONSISTENT);
    is(cluster.report(0, 9, true).unwrap_err(), Status::INVALID_NAMESPACE);
    is(
        cluster.release(1, BLOCKS, ReleaseAction::RELEASE, ReservationType::EXCLUSIVE_ACCESS, 0x22),
        Status::SUCCESS,
    );
    assert_eq!(
        number(&cluster.report(0, BLOCKS, true).unwrap(), 0, 4),
        2,
        "a release is no change of registrations"
    );
    is(cluster.release(1, BLOCKS, ReleaseAction::CLEAR, ReservationType(0), 0x22), Status::SUCCESS);
    let report = cluster.report(0, BLOCKS, true).unwrap();
    assert_eq!((number(&report, 0, 4), number(&report, 5, 2)), (3, 0));
}

#[test]
fn a_report_is_cut_to_the_dwords_that_were_asked_for() {
    let mut cluster = Cluster::new(&[1]);
    is(cluster.join(0, BLOCKS, 5), Status::SUCCESS);
    let mut command = Command::new(ReservationOpcode::REPORT.0, 0, BLOCKS);
    (command.cdw10, command.cdw11) = (1, 1);
    is(cluster.io(0, command, &[0xee; 4096]), Status::SUCCESS);
    let data = cluster.data(0, 64);
    assert_eq!((number(&data, 0, 4), number(&data, 5, 2)), (1, 1));
    assert_eq!(data[8..], [0xee; 56]);
    command.cdw10 = u32::MAX;
    is(cluster.io(0, command, &[0; 4096]), Status::SUCCESS);
}

#[test]
fn a_report_goes_to_a_buffer_by_sgl_that_is_longer() {
    let mut cluster = Cluster::new(&[1]);
    is(cluster.join(0, BLOCKS, 5), Status::SUCCESS);
    let mut command = Command::new(ReservationOpcode::REPORT.0, 0, BLOCKS);
    (command.cdw10, command.cdw11) = (1023, 1);
    is(cluster.io_by_sgl(0, command, 4096), Status::SUCCESS);
    let data = cluster.data(0, 64);
    assert_eq!((number(&data, 0, 4), number(&data, 5, 2)), (1, 1));
    is(cluster.io_by_sgl(0, command, 2048), Status::DATA_SGL_LENGTH_INVALID);
}

#[test]
fn a_host_of_64_bits_is_reported_in_the_short_form_and_does_not_mix_with_the_long() {
    let mut cluster = Cluster::new(&[0, 0]);
    is(cluster.name(0, &[3; 8]), Status::SUCCESS);
    is(cluster.name(1, &[4; 16]), Status::HOST_ID_INCONSISTENT);
    is(cluster.name(1, &[4; 8]), Status::SUCCESS);
    is(cluster.join(0, PAIRS, 5), Status::SUCCESS);
    let report = cluster.report(1, PAIRS, false).unwrap();
    assert_eq!((number(&report, 5, 2), number(&report, 24, 2), number(&report, 40, 8)), (1, 0, 5));
    assert_eq!(report[32..40], [3; 8]);
    is(cluster.report(1, PAIRS, true).unwrap_err(), Status::HOST_ID_INCONSISTENT);
}

#[test]
fn registration_of_an_unnamed_host_ends_with_its_controller_reset() {
    let mut cluster = Cluster::new(&[0, 0]);
    is(cluster.join(0, BLOCKS, 1), Status::SUCCESS);
    is(cluster.acquire(0, BLOCKS, ReservationType::WRITE_EXCLUSIVE, 1), Status::SUCCESS);
    is(cluster.touch(1, BLOCKS, true), CONFLICT);
    cluster.reset(0);
    is(cluster.touch(1, BLOCKS, true), Status::SUCCESS);
    assert_eq!(number(&cluster.report(1, BLOCKS, true).unwrap(), 5, 2), 0);
}

#[test]
fn registration_of_a_named_host_survives_its_controller_reset() {
    let mut cluster = Cluster::new(&[1, 2]);
    is(cluster.join(0, BLOCKS, 1), Status::SUCCESS);
    is(cluster.acquire(0, BLOCKS, ReservationType::WRITE_EXCLUSIVE, 1), Status::SUCCESS);
    cluster.reset(0);
    is(cluster.touch(0, BLOCKS, true), CONFLICT);
    is(cluster.touch(1, BLOCKS, true), CONFLICT);
    let report = cluster.report(1, BLOCKS, true).unwrap();
    assert_eq!(number(&report, 64, 2), 0xffff, "its host has no controller now");
    is(cluster.name(0, &identifier(1)), Status::SUCCESS);
    is(cluster.touch(0, BLOCKS, true), Status::SUCCESS);
}

#[test]
fn preempt_and_abort_with_no_holder_ends_registrations_and_nothing_else() {
    let mut cluster = Cluster::new(&[1, 2, 3]);
    let rtype = ReservationType::WRITE_EXCLUSIVE;
    for action in [AcquireAction::PREEMPT, AcquireAction::PREEMPT_AND_ABORT] {
        is(cluster.acquire_by(0, BLOCKS, action, rtype, (0, 0)), CONFLICT);
        is(cluster.join(0, BLOCKS, 1), Status::SUCCESS);
        is(cluster.join(1, BLOCKS, 2), Status::SUCCESS);
        is(cluster.join(2, BLOCKS, 2), Status::SUCCESS);
        is(cluster.acquire_by(0, BLOCKS, action, rtype, (1, 0)), CONFLICT);
        is(cluster.acquire_by(0, BLOCKS, action, rtype, (1, 9)), CONFLICT);
        is(cluster.acquire_by(0, BLOCKS, action, rtype, (1, 2)), Status::SUCCESS);
        let report = cluster.report(0, BLOCKS, true).unwrap();
        assert_eq!((number(&report, 4, 1), number(&report, 5, 2)), (0, 1));
        // Even of itself.
        is(cluster.acquire_by(0, BLOCKS, action, rtype, (1, 1)), Status::SUCCESS);
        assert_eq!(number(&cluster.report(0, BLOCKS, true).unwrap(), 5, 2), 0);
    }
}

#[test]
fn a_preemption_by_the_holders_key_takes_the_reservation() {
    let mut cluster = Cluster::new(&[1, 2, 3]);
    (0..3).for_each(|n| is(cluster.join(n, BLOCKS, 1 + n as u64 % 2), Status::SUCCESS));
    is(cluster.acquire(0, BLOCKS, ReservationType::WRITE_EXCLUSIVE, 1), Status::SUCCESS);
    let rtype = ReservationType::EXCLUSIVE_ACCESS;
    is(cluster.acquire_by(1, BLOCKS, AcquireAction::PREEMPT, rtype, (2, 0)), Status::INVALID_FIELD);
    is(cluster.acquire_by(1, BLOCKS, AcquireAction::PREEMPT_AND_ABORT, rtype, (2, 1)), Status::SUCCESS);
    is(cluster.touch(0, BLOCKS, false), CONFLICT);
    is(cluster.touch(1, BLOCKS, true), Status::SUCCESS);
    assert_eq!(number(&cluster.report(1, BLOCKS, true).unwrap(), 5, 2), 1, "all who had the key are gone");
    // By its own key, the holder takes it in another type.
    is(
        cluster.acquire_by(1, BLOCKS, AcquireAction::PREEMPT, ReservationType::WRITE_EXCLUSIVE, (2, 2)),
        Status::SUCCESS,
    );
    is(cluster.touch(0, BLOCKS, false), Status::SUCCESS);
}

#[test]
fn all_registrants_reservation_is_preempted_by_key_0_or_ends_with_the_last() {
    let mut cluster = Cluster::new(&[1, 2]);
    let rtype = ReservationType::WRITE_EXCLUSIVE_ALL;
    is(cluster.join(0, BLOCKS, 1), Status::SUCCESS);
    is(cluster.join(1, BLOCKS, 2), Status::SUCCESS);
    is(cluster.acquire(0, BLOCKS, rtype, 1), Status::SUCCESS);
    is(cluster.acquire(1, BLOCKS, rtype, 2), Status::SUCCESS);
    is(cluster.acquire(1, BLOCKS, ReservationType::WRITE_EXCLUSIVE, 2), CONFLICT);
    is(cluster.leave(0, BLOCKS, 1), Status::SUCCESS);
    is(cluster.touch(0, BLOCKS, true), CONFLICT);
    is(cluster.leave(1, BLOCKS, 2), Status::SUCCESS);
    is(cluster.touch(0, BLOCKS, true), Status::SUCCESS);
    is(cluster.join(0, BLOCKS, 1), Status::SUCCESS);
    is(cluster.join(1, BLOCKS, 2), Status::SUCCESS);
    is(cluster.acquire(0, BLOCKS, rtype, 1), Status::SUCCESS);
    is(
        cluster.acquire_by(1, BLOCKS, AcquireAction::PREEMPT, ReservationType::EXCLUSIVE_ACCESS, (2, 0)),
        Status::SUCCESS,
    );
    is(cluster.touch(0, BLOCKS, false), CONFLICT);
}

#[test]
fn fields_that_mean_nothing_are_refused() {
    let mut cluster = Cluster::new(&[1]);
    is(cluster.join(0, BLOCKS, 0), Status::INVALID_FIELD);
    is(cluster.join(0, BLOCKS, 1), Status::SUCCESS);
    for (opcode, cdw10) in [
        (ReservationOpcode::REGISTER, 3),
        (ReservationOpcode::REGISTER, 1 << 30),
        (ReservationOpcode::ACQUIRE, 3 | 1 << 8),
        (ReservationOpcode::ACQUIRE, 1 << 3 | 1 << 8),
        (ReservationOpcode::ACQUIRE, 0),
        (ReservationOpcode::ACQUIRE, 7 << 8),
        (ReservationOpcode::RELEASE, 2),
        (ReservationOpcode::RELEASE, 1 << 3 | 1 << 8),
        (ReservationOpcode::RELEASE, 0),
    ] {
        let mut command = Command::new(opcode.0, 0, BLOCKS);
        command.cdw10 = cdw10;
        let status = cluster.io(0, command, &1_u128.to_le_bytes());
        assert!(status.is(Status::INVALID_FIELD), "{opcode} with {cdw10:#x}: {status:?}");
    }
    is(cluster.acquire(0, BLOCKS, ReservationType::WRITE_EXCLUSIVE, 1), Status::SUCCESS);
    is(
        cluster.release(0, BLOCKS, ReleaseAction::RELEASE, ReservationType::EXCLUSIVE_ACCESS, 1),
        Status::INVALID_FIELD,
    );
    is(cluster.touch_by(0, u32::MAX, ReservationOpcode::REPORT.0), Status::INVALID_NAMESPACE);
}

#[test]
fn delegated_queue_of_another_host_gets_reservation_conflict() {
    let mut cluster = Cluster::new(&[1, 2]);
    is(cluster.join(0, BLOCKS, 1), Status::SUCCESS);
    is(cluster.acquire(0, BLOCKS, ReservationType::EXCLUSIVE_ACCESS, 1), Status::SUCCESS);
    for (n, wanted) in [(1, CONFLICT), (0, Status::SUCCESS)] {
        let status = cluster.on(n, |host| {
            let data = host.alloc(4096);
            let mut read = Command::new(NvmOpcode::READ.0, 0, BLOCKS);
            read.set_prps(data.0, 0);
            host.submit(1, read);
            host.ring(1);
            host.run_delegated(1);
            host.reap(1).unwrap().status()
        });
        is(status, wanted);
    }
}

#[test]
fn identify_and_logs_report_reservations() {
    let mut host = TestHost::new(32 * MIB, &[nvm(8 * MIB, 512), kv(16 * MIB)]);
    let controller = host.identify(Cns::CONTROLLER, 0, Csi::NVM).unwrap();
    assert_eq!(controller[96] & 1, 1, "host identifiers of 128 bits");
    assert_ne!(number(&controller, 520, 2) & 1 << 5, 0);
    assert_eq!(host.identify(Cns::NAMESPACE, 1, Csi::NVM).unwrap()[31], 0xff);
    assert_eq!(host.identify(Cns::SET_NAMESPACE, 2, Csi::KV).unwrap()[27], 0xff);
    assert_eq!(host.identify(Cns::INDEPENDENT_NAMESPACE, 1, Csi::NVM).unwrap()[2], 0xff);
    for csi in [Csi::NVM, Csi::KV] {
        let log = host.log(byway_spec::base::log::LogPage::EFFECTS, csi, 4096).unwrap();
        for opcode in ReservationOpcode::ALL {
            assert_eq!(log[1024 + usize::from(opcode.0) * 4] & 1, 1, "{opcode}");
        }
    }
}
