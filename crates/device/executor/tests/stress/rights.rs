//! Rights of fabrics queues to execute commands without the run lock, beside admin commands of a host on PCIe.

use byway_controller::PortId;
use byway_executor::{CapsuleDevice, CapsuleQueue, RunBy};
use byway_flash::Durability;
use byway_spec::Command;
use byway_spec::base::admin::AdminOpcode;
use byway_spec::base::feature::FeatureId;
use byway_spec::base::identify::{Cns, IdentifyCdw10};
use byway_spec::base::log::{LogCdw10, LogPage};
use byway_spec::base::register::Register;

use crate::admin::Admin;
use crate::stage::Stage;
use crate::{Runs, device};

/// A fabrics queue with rights.
fn granted(stage: &Stage) -> CapsuleQueue {
    let capsules = stage.embedded.capsules().unwrap();
    let mut queue = CapsuleQueue::new(capsules.serving_thread().unwrap());
    let connect = |device: &mut CapsuleDevice<'_>| {
        let id = device.attach(None, PortId(1)).unwrap();
        device.connect(id, 0, 32).unwrap();
        device.write_register(id, Register::CC.0, crate::admin::enabled().into_bits());
        device.connect(id, 1, 32).unwrap();
        device.grant((id, 1), &mut queue);
    };
    capsules.run_alone(connect).unwrap();
    queue
}

fn command(opcode: AdminOpcode, cdw10: u32) -> Command {
    Command { cdw10, ..Command::new(opcode.0, 0, 0) }
}

fn check(runs: Runs) {
    let stage = Stage::new(device(runs, Durability::Process));
    let mut admin = Admin::enable(&stage);
    let queue = granted(&stage);
    let arbitration = u32::from(FeatureId::ARBITRATION.0);
    for reports in [
        command(AdminOpcode::KEEP_ALIVE, 0),
        command(AdminOpcode::IDENTIFY, IdentifyCdw10::new().with_cns(Cns::CONTROLLER).into_bits()),
        command(AdminOpcode::GET_FEATURES, arbitration),
        command(
            AdminOpcode::GET_LOG_PAGE,
            LogCdw10::new().with_lid(LogPage::SMART).with_numdl_z(127).into_bits(),
        ),
    ] {
        admin.read(&stage, reports);
        assert!(queue.is_granted(), "{reports:?} changes nothing");
    }
    admin.read(&stage, command(AdminOpcode::SET_FEATURES, arbitration));
    assert!(!queue.is_granted(), "{runs:?}");
}

#[test]
fn rights_outlive_admin_commands_of_a_host_in_this_process_that_only_report() {
    check(Runs::By(RunBy::Caller));
}

#[test]
fn rights_outlive_admin_commands_of_a_served_host_that_only_report() {
    check(Runs::Served);
}
