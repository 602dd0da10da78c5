//! A subsystem whose code panics: its hosts lose it, others notice nothing.

use byway_executor::Embedded;
use byway_fabrics::{FabricsCommand, Property, PropertyAccess, RefusalKind};
use byway_flash::RunOptions;
use byway_spec::base::admin::AdminOpcode;
use byway_spec::base::register::Csts;
use byway_spec::nvm::NvmOpcode;
use byway_spec::{Command, Status};
use byway_tcp_target::{SubsystemTerms, TargetEvent};

use crate::engine::{FATAL_LBA, IdleEngine};
use crate::host::{By, End, Host, Proposal, blocks, pattern};
use crate::served::{EXPORTED, Served, device, device_with, name};

const FRAGILE: &str = "nqn.2026-01.example:byway:fragile";

/// A device that a write of one block breaks, beside the usual one.
fn add_fragile(served: &Served) -> Embedded {
    let fragile = device_with(FRAGILE, Box::new(IdleEngine::new()));
    served.control().add_subsystem(SubsystemTerms::of(name(FRAGILE)), fragile.capsules().unwrap()).unwrap();
    fragile
}

/// An admin queue of the fragile subsystem, and an I/O queue.
fn host(served: &Served) -> (Host, Host) {
    let admin = served.admin_of(FRAGILE);
    let mut io = served.greet(Proposal::default());
    let controller = byway_fabrics::ControllerChoice::Id(admin.controller());
    io.connect(1, controller, FRAGILE, 0).unwrap();
    (admin, io)
}

#[test]
fn a_subsystem_that_panics_loses_its_hosts_and_others_keep_theirs() {
    for threads in [1, 2] {
        let served = Served::with(|asked| asked.target.threads = threads.try_into().unwrap());
        let _fragile = add_fragile(&served);
        let (_other, mut other_io) = served.host(Proposal::default());
        let (mut admin, mut io) = host(&served);
        let (mut bystander, mut bystander_io) = host(&served);
        let mut fatal = blocks(NvmOpcode::WRITE, FATAL_LBA, 512);
        fatal.nsid = EXPORTED;
        io.start(fatal, By::Capsule, &[1; 512]);
        // Hosts that send no request, on any of their queues.
        for host in [&mut io, &mut bystander_io, &mut bystander, &mut admin] {
            assert_eq!(host.wait_for_end(), End::Closed);
        }
        let event = served.await_event(|event| matches!(event, TargetEvent::SubsystemFailed { .. }));
        assert_eq!(event, TargetEvent::SubsystemFailed { subsystem: name(FRAGILE) });
        let data = pattern(1, 4096);
        assert!(other_io.write(blocks(NvmOpcode::WRITE, 0, 4096), By::R2t, &data).status().is_success());
        let (_new, mut new_io) = served.host(Proposal::default());
        assert!(new_io.read(blocks(NvmOpcode::READ, 0, 4096), 4096).1 == data);
        let refused = served.greet(Proposal::default()).connect_to(FRAGILE).unwrap_err();
        assert_eq!(refused.kind, RefusalKind::Other(Status::INTERNAL_ERROR));
    }
}

#[test]
fn a_host_that_asks_how_its_failed_controller_is_hears_of_a_fatal_status_and_may_do_nothing_else() {
    let served = Served::new();
    let _fragile = add_fragile(&served);
    let (mut admin, mut io) = host(&served);
    let mut resetting = served.admin_of(FRAGILE);
    let mut unready = served.greet(Proposal::default());
    unready.connect_to(FRAGILE).unwrap();
    let mut fatal = blocks(NvmOpcode::WRITE, FATAL_LBA, 512);
    fatal.nsid = EXPORTED;
    io.start(fatal, By::Capsule, &[1; 512]);
    assert_eq!(io.wait_for_end(), End::Closed);
    let status = |host: &mut Host| Csts::from_bits(host.property(Property::Csts) as u32);
    for host in [&mut admin, &mut resetting] {
        assert_eq!(status(host), Csts::new().with_rdy(true).with_cfs(true));
    }
    assert_eq!(status(&mut unready), Csts::new().with_cfs(true));
    let (cap, _) = admin.fabrics(&FabricsCommand::PropertyGet(PropertyAccess(Property::Cap)), &[]);
    assert!(cap.status().is(Status::INTERNAL_ERROR));
    admin.start_read(Command::new(AdminOpcode::KEEP_ALIVE.0, 0, 0), 0);
    let (property, cid) = (PropertyAccess(Property::Cc), resetting.next());
    resetting.send(&FabricsCommand::PropertySet { property, value: 0 }.encode(cid), &[]);
    for host in [&mut admin, &mut resetting, &mut unready] {
        assert_eq!(host.wait_for_end(), End::Closed);
    }
}

#[test]
fn a_subsystem_that_failed_is_taken_away_and_served_anew() {
    let served = Served::new();
    let fragile = add_fragile(&served);
    let (_admin, mut io) = host(&served);
    let mut fatal = blocks(NvmOpcode::WRITE, FATAL_LBA, 512);
    fatal.nsid = EXPORTED;
    io.start(fatal, By::Capsule, &[1; 512]);
    assert_eq!(io.wait_for_end(), End::Closed);
    served.control().remove_subsystem(&name(FRAGILE)).unwrap();
    drop(fragile);
    let anew = device(FRAGILE, RunOptions::default());
    served.control().add_subsystem(SubsystemTerms::of(name(FRAGILE)), anew.capsules().unwrap()).unwrap();
    served.admin_of(FRAGILE);
}
