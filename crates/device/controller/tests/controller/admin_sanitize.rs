//! Sanitize: supported actions, commands refused while one runs, and its completion without a host.

use crate::common::{TestHost, get_log, kv, number, nvm};
use byway_controller::{CmbRegisters, Controller, ControllerId, Identity, Subsystem, SubsystemOptions};
use byway_flash::{Flash, FlashOptions, MediaKind, OpenOptions};
use byway_link::Profile;
use byway_spec::base::admin::{AdminOpcode, SanitizeCdw10};
use byway_spec::base::identify::{Cns, Csi};
use byway_spec::base::log::LogPage;
use byway_spec::base::register::Register;
use byway_spec::nvm::NvmOpcode;
use byway_spec::{Command, Status};

const MIB: u64 = 1 << 20;
const LOG_BYTES: usize = 512;

fn host() -> TestHost {
    TestHost::new(256 * MIB, &[nvm(64 * MIB, 512), kv(64 * MIB)])
}

fn sanitize(action: u8) -> Command {
    let mut command = Command::new(AdminOpcode::SANITIZE.0, 0, 0);
    command.cdw10 = SanitizeCdw10::new().with_sanact(action).into_bits();
    command
}

/// The status field of the sanitize log: 0 never, 1 done, 2 going on.
fn state(host: &mut TestHost) -> u64 {
    number(&host.log(LogPage::SANITIZE, Csi::NVM, LOG_BYTES).unwrap(), 2, 2) & 7
}

/// Has the operation end.
fn finish(host: &mut TestHost) {
    for _ in 0..10_000 {
        if state(host) == 1 {
            return;
        }
    }
    panic!("the operation does not end");
}

#[test]
fn an_operation_goes_on_while_no_host_has_the_controller_enabled() {
    let mut host = host();
    assert!(host.admin(sanitize(SanitizeCdw10::BLOCK_ERASE)).status().is_success());
    host.write_register(Register::CC, 0);
    for _ in 0..10_000 {
        if !host.subsystem.is_sanitizing() {
            break;
        }
        host.run();
    }
    host.enable();
    assert_eq!(state(&mut host), 1);
}

#[test]
fn actions_that_are_not_announced_are_refused() {
    let mut host = host();
    for action in [0, 4, 5, 6, 7] {
        let refused = host.admin(sanitize(action)).status();
        assert!(refused.is(Status::INVALID_FIELD), "action {action}: {refused:?}");
    }
    assert!(host.admin(sanitize(SanitizeCdw10::EXIT_FAILURE)).status().is_success());
    assert_eq!(state(&mut host), 0);
}

#[test]
fn commands_touching_data_are_refused_while_a_sanitize_runs() {
    let mut host = host();
    host.create_pair(1, 16);
    assert!(host.admin(sanitize(SanitizeCdw10::BLOCK_ERASE)).status().is_success());
    let in_progress = |status: Status| assert!(status.is(Status::SANITIZE_IN_PROGRESS), "{status:?}");
    let waits = [
        AdminOpcode::SANITIZE,
        AdminOpcode::FORMAT_NVM,
        AdminOpcode::NAMESPACE_MANAGEMENT,
        AdminOpcode::NAMESPACE_ATTACHMENT,
    ];
    for opcode in waits {
        in_progress(host.admin(Command::new(opcode.0, 0, 1)).status());
    }
    let (refused, _) = host.admin_read(get_log(LogPage::SUPPORTED_PAGES, Csi::NVM, 0, LOG_BYTES), LOG_BYTES);
    in_progress(refused.status());
    assert!(host.identify(Cns::CONTROLLER, 0, Csi::NVM).is_ok());
    assert!(host.log(LogPage::SMART, Csi::NVM, LOG_BYTES).is_ok());
    assert_eq!(state(&mut host), 2, "the operation went by before it was looked at");
    in_progress(host.execute(1, Command::new(NvmOpcode::FLUSH.0, 0, 1)).status());
    finish(&mut host);
    assert!(host.execute(1, Command::new(NvmOpcode::FLUSH.0, 0, 1)).status().is_success());
    assert!(host.admin(sanitize(SanitizeCdw10::OVERWRITE)).status().is_success());
    finish(&mut host);
}

#[test]
fn an_image_that_may_only_be_read_is_not_sanitized() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let profile = || Profile::by_name("gen4x4").unwrap();
    let media = MediaKind::File(path.clone());
    drop(Flash::create(FlashOptions::new(8 * MIB, profile().flash, media), &[nvm(4 * MIB, 512)]).unwrap());
    let mut host = TestHost::disabled("gen4x4", 8 * MIB, MediaKind::Ram, &[]);
    let flash = Flash::open(&path, OpenOptions::default().read_only(true)).unwrap();
    let identity = Identity { nqn: String::new(), serial: String::new(), model: String::new() };
    host.subsystem = Subsystem::new(identity, profile(), flash, SubsystemOptions::default()).unwrap();
    host.controller = Controller::new(ControllerId(0), &mut host.subsystem, CmbRegisters::default());
    host.enable();
    let refused = host.admin(sanitize(SanitizeCdw10::BLOCK_ERASE)).status();
    assert!(refused.is(Status::ACCESS_DENIED), "{refused:?}");
    assert_eq!(state(&mut host), 0);
}
