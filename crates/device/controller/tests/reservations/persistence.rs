//! Registrations and the end of power.

use std::fs::File;
use std::io::Read;

use byway_flash::{Flash, OpenOptions};
use byway_spec::base::admin::AdminOpcode;
use byway_spec::base::feature::{FeatureCdw10, FeatureId};
use byway_spec::base::reservation::{PersistChange, RegisterCdw10, ReservationType};
use byway_spec::{Command, Status};

use crate::cluster::{BLOCKS, Cluster, PAIRS};
use crate::common::number;

fn set_persistence(cluster: &mut Cluster, nsid: u32, ptpl: u32) -> Status {
    let mut command = Command::new(AdminOpcode::SET_FEATURES.0, 0, nsid);
    command.cdw10 = FeatureCdw10::new().with_fid(FeatureId::RESERVATION_PERSISTENCE).into_bits();
    command.cdw11 = ptpl;
    cluster.on(0, |host| host.admin(command).status())
}

fn persistence(cluster: &mut Cluster, nsid: u32) -> u32 {
    let mut command = Command::new(AdminOpcode::GET_FEATURES.0, 0, nsid);
    command.cdw10 = u32::from(FeatureId::RESERVATION_PERSISTENCE.0);
    cluster.on(0, |host| host.admin(command).dw0)
}

/// What is reported of a namespace, but for controllers.
fn seen(cluster: &mut Cluster, nsid: u32) -> (u64, u64, u64, u64) {
    let report = cluster.report(0, nsid, true).unwrap();
    (number(&report, 0, 4), number(&report, 4, 1), number(&report, 5, 2), number(&report, 9, 1))
}

#[test]
fn persistent_registrations_alone_survive_power_loss() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    let mut cluster = Cluster::on_image(&path, &[1, 2]);
    for (nsid, change) in [(BLOCKS, PersistChange::KEEP), (PAIRS, PersistChange::NONE)] {
        for n in [0, 1] {
            let keys = (0, 10 + n as u64);
            assert!(cluster.register(n, nsid, RegisterCdw10::new().with_cptpl(change), keys).is_success());
        }
        assert!(cluster.acquire(1, nsid, ReservationType::EXCLUSIVE_ACCESS, 11).is_success());
    }
    let before = seen(&mut cluster, BLOCKS);
    assert_eq!(before, (2, 2, 2, 1));
    // Without a word: the device has capacitors.
    drop(cluster);
    let mut cluster = Cluster::opened(&path, &[1, 2]);
    assert_eq!(seen(&mut cluster, BLOCKS), before);
    assert_eq!(seen(&mut cluster, PAIRS), (0, 0, 0, 0));
    assert!(cluster.touch(0, BLOCKS, false).is(Status::RESERVATION_CONFLICT));
    assert!(cluster.touch(1, BLOCKS, true).is_success());
    assert!(cluster.touch(0, PAIRS, true).is_success());
    assert_eq!((persistence(&mut cluster, BLOCKS), persistence(&mut cluster, PAIRS)), (1, 0));
}

#[test]
fn persistence_is_switched_by_its_feature_too() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    let mut cluster = Cluster::on_image(&path, &[1]);
    assert!(set_persistence(&mut cluster, u32::MAX, 1).is_success());
    assert!(set_persistence(&mut cluster, PAIRS, 0).is_success());
    for nsid in [BLOCKS, PAIRS] {
        assert!(cluster.join(0, nsid, 1).is_success());
    }
    drop(cluster);
    let mut cluster = Cluster::opened(&path, &[1]);
    assert_eq!(seen(&mut cluster, BLOCKS), (1, 0, 1, 1));
    assert_eq!(seen(&mut cluster, PAIRS), (0, 0, 0, 0));
    assert!(set_persistence(&mut cluster, BLOCKS, 0).is_success());
    drop(cluster);
    assert_eq!(seen(&mut Cluster::opened(&path, &[1]), BLOCKS), (0, 0, 0, 0));
    assert!(set_persistence(&mut Cluster::opened(&path, &[1]), 9, 1).is(Status::INVALID_NAMESPACE));
}

#[test]
fn no_more_registrants_persist_than_the_image_keeps() {
    let mut cluster = Cluster::new(&[0]);
    let most = byway_controller::PERSISTENT_REGISTRANTS as u8;
    for host in 1..=most {
        assert!(cluster.name(0, &[host; 16]).is_success());
        assert!(cluster.join_for_good(0, BLOCKS, 1).is_success(), "host {host}");
    }
    assert!(cluster.name(0, &[most + 1; 16]).is_success());
    assert!(cluster.join_for_good(0, BLOCKS, 1).is(Status::CAPACITY_EXCEEDED));
    assert_eq!(seen(&mut cluster, BLOCKS).2, u64::from(most), "nothing came of it");
    assert!(cluster.join(0, PAIRS, 1).is_success());
}

#[test]
fn an_image_that_keeps_reservations_says_so_to_programs_that_do_not_know_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    let read_only_compatible = || {
        let mut head = [0; 32];
        File::open(&path).unwrap().read_exact(&mut head).unwrap();
        head[24]
    };
    let mut cluster = Cluster::on_image(&path, &[1]);
    assert!(cluster.join(0, BLOCKS, 1).is_success());
    assert_eq!(read_only_compatible(), 0, "nothing of it is in the image");
    assert!(cluster.join_for_good(0, BLOCKS, 1).is_success());
    assert_eq!(read_only_compatible(), 1);
    drop(cluster);
    let mut flash = Flash::open(&path, OpenOptions::default()).unwrap();
    assert_eq!(flash.check(), []);
}
