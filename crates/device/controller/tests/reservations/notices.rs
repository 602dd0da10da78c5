//! Notices of changed reservations: which hosts get them, and how.

use byway_spec::base::admin::AdminOpcode;
use byway_spec::base::command::NSID_ALL;
use byway_spec::base::feature::{FeatureCdw10, FeatureId};
use byway_spec::base::identify::Csi;
use byway_spec::base::log::LogPage;
use byway_spec::base::reservation::{AcquireAction, Notice, ReleaseAction, ReservationType};
use byway_spec::{Command, Status};

use crate::cluster::{BLOCKS, Cluster, PAIRS};
use crate::common::number;

/// The next notice for the host of controller `n`: kind and namespace.
fn next_notice(cluster: &mut Cluster, n: usize) -> Option<(Notice, u32)> {
    let page = cluster.on(n, |host| host.log(LogPage::RESERVATION, Csi::NVM, 64).unwrap());
    (number(&page, 0, 8) > 0).then(|| (Notice(page[8]), number(&page, 12, 4) as u32))
}

fn mask(cluster: &mut Cluster, n: usize, nsid: u32, mask: u32) -> Status {
    let mut command = Command::new(AdminOpcode::SET_FEATURES.0, 0, nsid);
    command.cdw10 = FeatureCdw10::new().with_fid(FeatureId::RESERVATION_NOTIFICATION).into_bits();
    command.cdw11 = mask;
    cluster.on(n, |host| host.admin(command).status())
}

/// Hosts 1 and 2 are registrants, host 1 with a reservation of this type.
fn reserved(rtype: ReservationType) -> Cluster {
    let mut cluster = Cluster::new(&[1, 2, 2]);
    assert!(cluster.join(0, BLOCKS, 1).is_success() && cluster.join(1, BLOCKS, 2).is_success());
    assert!(cluster.acquire(0, BLOCKS, rtype, 1).is_success());
    cluster
}

#[test]
fn preempted_host_is_notified_over_each_of_its_controllers() {
    let mut cluster = reserved(ReservationType::WRITE_EXCLUSIVE);
    assert!(
        cluster
            .acquire_by(0, BLOCKS, AcquireAction::PREEMPT, ReservationType::WRITE_EXCLUSIVE, (1, 2))
            .is_success()
    );
    for n in [1, 2] {
        assert_eq!(
            next_notice(&mut cluster, n),
            Some((Notice::REGISTRATION_PREEMPTED, BLOCKS)),
            "controller {n}"
        );
        assert_eq!(next_notice(&mut cluster, n), None);
    }
    assert_eq!(next_notice(&mut cluster, 0), None, "the host that asked gets none");
}

#[test]
fn release_notifies_registrants_only_for_types_that_they_share() {
    for rtype in ReservationType::ALL {
        let is_notified = rtype.0 >= 3;
        let wanted = is_notified.then_some((Notice::RESERVATION_RELEASED, BLOCKS));
        let mut cluster = reserved(*rtype);
        assert!(cluster.release(0, BLOCKS, ReleaseAction::RELEASE, *rtype, 1).is_success());
        assert_eq!(next_notice(&mut cluster, 1), wanted, "{rtype} released");
        let mut cluster = reserved(*rtype);
        assert!(cluster.leave(0, BLOCKS, 1).is_success());
        let wanted = wanted.filter(|_| rtype.0 < 5);
        assert_eq!(next_notice(&mut cluster, 1), wanted, "{rtype}, its holder left");
    }
}

#[test]
fn clear_and_change_of_type_notify_the_hosts_concerned() {
    let mut cluster = reserved(ReservationType::WRITE_EXCLUSIVE);
    assert!(cluster.release(0, BLOCKS, ReleaseAction::CLEAR, ReservationType(0), 1).is_success());
    assert_eq!(next_notice(&mut cluster, 1), Some((Notice::RESERVATION_PREEMPTED, BLOCKS)));
    let mut cluster = reserved(ReservationType::WRITE_EXCLUSIVE);
    assert!(
        cluster
            .acquire_by(0, BLOCKS, AcquireAction::PREEMPT, ReservationType::EXCLUSIVE_ACCESS, (1, 1))
            .is_success()
    );
    assert_eq!(next_notice(&mut cluster, 1), Some((Notice::RESERVATION_RELEASED, BLOCKS)));
}

#[test]
fn a_mask_keeps_notices_of_its_namespace_back() {
    let mut cluster = reserved(ReservationType::WRITE_EXCLUSIVE);
    assert!(mask(&mut cluster, 1, BLOCKS, 1 << 1).is_success());
    assert!(mask(&mut cluster, 2, NSID_ALL, 1 << 1).is_success());
    let mut get = Command::new(AdminOpcode::GET_FEATURES.0, 0, BLOCKS);
    get.cdw10 = u32::from(FeatureId::RESERVATION_NOTIFICATION.0);
    assert_eq!(cluster.on(2, |host| host.admin(get).dw0), 1 << 1);
    assert!(mask(&mut cluster, 1, 9, 0).is(Status::INVALID_NAMESPACE));
    assert!(
        cluster
            .acquire_by(0, BLOCKS, AcquireAction::PREEMPT, ReservationType::WRITE_EXCLUSIVE, (1, 2))
            .is_success()
    );
    assert_eq!((next_notice(&mut cluster, 1), next_notice(&mut cluster, 2)), (None, None));
}

#[test]
fn notice_raises_an_event_and_the_next_once_it_was_read() {
    let mut cluster = Cluster::new(&[1, 2]);
    for nsid in [BLOCKS, PAIRS] {
        assert!(cluster.join(0, nsid, 1).is_success() && cluster.join(1, nsid, 2).is_success());
    }
    let request = Command::new(AdminOpcode::ASYNC_EVENT_REQUEST.0, 0, 0);
    cluster.on(1, |host| {
        host.submit(0, request);
        host.submit(0, request);
        host.ring(0);
        host.run();
        assert!(host.reap(0).is_none());
    });
    for nsid in [BLOCKS, PAIRS] {
        let rtype = ReservationType::EXCLUSIVE_ACCESS;
        assert!(cluster.acquire_by(0, nsid, AcquireAction::PREEMPT_AND_ABORT, rtype, (1, 2)).is_success());
    }
    for nsid in [BLOCKS, PAIRS] {
        let event = cluster.on(1, |host| {
            host.run();
            host.reap(0).expect("an event")
        });
        assert_eq!(event.dw0, 0x0080_0006);
        let next = cluster.on(1, |host| {
            host.run();
            host.reap(0)
        });
        assert!(next.is_none(), "one event at a time");
        assert_eq!(next_notice(&mut cluster, 1), Some((Notice::REGISTRATION_PREEMPTED, nsid)));
    }
}
