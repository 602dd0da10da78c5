//! Reset and shutdown: what is gone, what stays, and that a thousand of them leave nothing behind.

use crate::common::{TestHost, kv, number, nvm};
use byway_controller::Next;
use byway_spec::base::admin::AdminOpcode;
use byway_spec::base::feature::{FeatureCdw10, FeatureId};
use byway_spec::base::identify::{Cns, Csi};
use byway_spec::base::log::LogPage;
use byway_spec::base::register::{Cc, Csts, NSSR_MAGIC, Register};
use byway_spec::nvm::{NvmCdw12, NvmOpcode};
use byway_spec::{Command, Status};

const MIB: u64 = 1 << 20;
const PS_PER_MS: u64 = 1_000_000_000;

fn host() -> TestHost {
    TestHost::new(32 * MIB, &[nvm(8 * MIB, 512), kv(16 * MIB)])
}

fn set_feature(fid: FeatureId, cdw11: u32) -> Command {
    let mut command = Command::new(AdminOpcode::SET_FEATURES.0, 0, 0);
    command.cdw10 = FeatureCdw10::new().with_fid(fid).into_bits();
    command.cdw11 = cdw11;
    command
}

fn block(opcode: NvmOpcode) -> Command {
    let mut command = Command::new(opcode.0, 0, 1);
    command.set_cdw10_11(5);
    command.cdw12 = NvmCdw12::new().with_nlb_z(0).into_bits();
    command
}

#[test]
fn data_stays_over_a_thousand_resets_with_commands_in_flight() {
    let mut host = host();
    host.create_pair(1, 8);
    let data = host.alloc(4096);
    host.write(data, &[0x5a; 512]);
    let mut write = block(NvmOpcode::WRITE);
    write.set_prps(data.0, 0);
    assert!(host.execute(1, write).status().is_success());
    for round in 0..1000 {
        // Event requests are outstanding, and the ring has commands, some of them rung.
        host.submit(0, Command::new(AdminOpcode::ASYNC_EVENT_REQUEST.0, 0, 0));
        host.ring(0);
        host.run();
        host.submit(1, Command::new(NvmOpcode::FLUSH.0, 0, 1));
        if round % 2 == 0 {
            host.ring(1);
        }
        if round % 4 == 0 {
            host.run();
        }
        host.reset();
        assert!(!host.csts().rdy());
        assert_eq!(host.run(), Next::Idle);
        host.enable();
        host.create_pair(1, 8);
        host.run();
        assert!(host.peek(1).is_none(), "round {round}: a completion of the life before");
    }
    let data = host.alloc(4096);
    let mut read = block(NvmOpcode::READ);
    read.set_prps(data.0, 0);
    assert!(host.execute(1, read).status().is_success());
    assert_eq!(host.read(data, 512), [0x5a; 512]);
}

#[test]
fn features_are_back_to_their_defaults_after_a_reset() {
    let mut host = host();
    assert!(host.admin(set_feature(FeatureId::INTERRUPT_COALESCING, 0x0505)).status().is_success());
    host.reset();
    host.enable();
    let mut get = Command::new(AdminOpcode::GET_FEATURES.0, 0, 0);
    get.cdw10 = u32::from(FeatureId::INTERRUPT_COALESCING.0);
    assert_eq!(host.admin(get).dw0, 0);
}

#[test]
fn error_log_after_a_reset_holds_the_keep_alive_expiry() {
    let mut host = host();
    assert!(host.admin(set_feature(FeatureId::KEEP_ALIVE, 1000)).status().is_success());
    host.now_ps += 1000 * PS_PER_MS;
    host.run();
    assert!(host.csts().cfs());
    host.reset();
    host.enable();
    let log = host.log(LogPage::ERROR, Csi::NVM, 64).unwrap();
    assert_eq!(number(&log, 0, 8), 1);
    assert_eq!(number(&log, 12, 2) >> 1, u64::from(Status::KEEP_ALIVE_EXPIRED.0));
}

#[test]
fn a_subsystem_reset_is_seen_in_csts_until_cleared() {
    let mut host = host();
    host.write_register(Register::NSSR, NSSR_MAGIC);
    assert!(host.csts().nssro() && !host.csts().rdy());
    host.reset();
    host.enable();
    assert!(host.csts().nssro());
    host.write_register(Register::CSTS, Csts::new().with_nssro(true).into_bits());
    assert!(!host.csts().nssro());
    assert!(host.identify(Cns::CONTROLLER, 0, Csi::NVM).is_ok());
}

#[test]
fn a_shutdown_is_reported_complete() {
    let mut host = host();
    let cc = Cc::new().with_en(true).with_css(Cc::CSS_IO_SETS).with_shn(Cc::SHN_NORMAL);
    host.write_register(Register::CC, cc.into_bits());
    assert_eq!(host.csts().shst(), Csts::SHST_COMPLETE);
    host.reset();
    host.enable();
    assert_eq!(host.csts().shst(), Csts::SHST_NORMAL);
}

#[test]
fn admin_commands_wait_for_a_deferred_shutdown_before_them() {
    let mut host = host();
    host.controller.defer_long_work();
    let cc = Cc::new().with_en(true).with_css(Cc::CSS_IO_SETS).with_shn(Cc::SHN_NORMAL);
    host.write_register(Register::CC, cc.into_bits());
    host.submit(0, Command::new(AdminOpcode::FORMAT_NVM.0, 0, 1));
    host.submit(0, Command::new(AdminOpcode::KEEP_ALIVE.0, 0, 0));
    host.ring(0);
    host.run();
    assert_eq!(host.csts().shst(), Csts::SHST_OCCURRING);
    host.run_deferred();
    assert!(host.csts().shst() == Csts::SHST_COMPLETE && host.peek(0).is_none());
    host.run();
    assert!(host.peek(0).is_none(), "a format is deferred too");
    host.run_deferred();
    host.run();
    for _ in 0..2 {
        assert!(host.reap(0).unwrap().status().is_success());
    }
}

#[test]
fn a_host_that_keeps_alive_keeps_its_controller() {
    let mut host = host();
    assert!(host.admin(set_feature(FeatureId::KEEP_ALIVE, 1500)).status().is_success());
    for _ in 0..10 {
        assert!(matches!(host.next, Next::At(_)), "the timer is a deadline");
        host.now_ps += 1900 * PS_PER_MS;
        let alive = host.admin(Command::new(AdminOpcode::KEEP_ALIVE.0, 0, 0));
        assert!(alive.status().is_success());
    }
    assert!(!host.csts().cfs());
}

#[test]
fn host_without_keep_alive_loses_its_controller_at_the_timeout() {
    let mut host = host();
    // Rounded up to the granularity of one second.
    assert!(host.admin(set_feature(FeatureId::KEEP_ALIVE, 1500)).status().is_success());
    host.now_ps += 1999 * PS_PER_MS;
    host.run();
    assert!(!host.csts().cfs());
    host.now_ps += PS_PER_MS;
    host.run();
    assert!(host.csts().cfs());
    host.reset();
    host.enable();
    host.now_ps += 60_000 * PS_PER_MS;
    host.run();
    assert!(!host.csts().cfs(), "the timer is off after a reset");
}

#[test]
fn a_timeout_that_cannot_be_counted_is_refused_and_zero_switches_the_timer_off() {
    let mut host = host();
    assert!(host.admin(set_feature(FeatureId::KEEP_ALIVE, u32::MAX)).status().is(Status::KEEP_ALIVE_INVALID));
    assert!(host.admin(set_feature(FeatureId::KEEP_ALIVE, 1)).status().is_success());
    assert!(host.admin(set_feature(FeatureId::KEEP_ALIVE, 0)).status().is_success());
    host.now_ps += 60_000 * PS_PER_MS;
    host.run();
    assert!(!host.csts().cfs());
}

#[test]
fn with_the_admin_command_set_alone_io_commands_and_format_are_invalid_opcodes() {
    let mut host = host();
    host.reset();
    host.enable();
    let cc = Cc::new().with_css(Cc::CSS_ADMIN_ONLY).with_iosqes(Cc::IOSQES_64).with_iocqes(Cc::IOCQES_16);
    host.write_register(Register::CC, cc.with_en(true).into_bits());
    host.create_pair(1, 8);
    for nsid in [1, 2] {
        let flush = host.execute(1, Command::new(NvmOpcode::FLUSH.0, 0, nsid));
        assert!(flush.status().is(Status::INVALID_OPCODE), "{}", flush.status());
        let format = host.admin(Command::new(AdminOpcode::FORMAT_NVM.0, 0, nsid));
        assert!(format.status().is(Status::INVALID_OPCODE), "{}", format.status());
    }
    assert!(host.identify(Cns::CONTROLLER, 0, Csi::NVM).is_ok());
}

#[test]
fn a_subsystem_reset_reaches_every_controller_of_it() {
    use byway_controller::{CmbRegisters, Controller, ControllerId, MAX_IO_QUEUES};
    use byway_queue::Doorbells;

    let mut host = host();
    let other = Controller::new(ControllerId(1), &mut host.subsystem, CmbRegisters::default());
    let mut first = std::mem::replace(&mut host.controller, other);
    host.enable();
    first.write_register(
        &mut host.subsystem,
        &Doorbells::new(MAX_IO_QUEUES + 1),
        Register::NSSR.0,
        NSSR_MAGIC,
    );
    host.run();
    assert!(!host.csts().rdy() && host.csts().nssro());
    host.enable();
    host.run();
    assert!(host.csts().rdy(), "once is enough");
}

#[test]
fn key_value_namespaces_answer_only_where_their_command_set_was_chosen() {
    let mut host = host();
    let cc = Cc::new().with_css(Cc::CSS_NVM).with_iosqes(Cc::IOSQES_64).with_iocqes(Cc::IOCQES_16);
    host.write_register(Register::CC, cc.with_en(true).into_bits());
    host.create_pair(1, 8);
    let flush = |nsid| Command::new(NvmOpcode::FLUSH.0, 0, nsid);
    assert!(host.execute(1, flush(1)).status().is_success());
    assert!(host.execute(1, flush(2)).status().is(Status::INVALID_NAMESPACE));
}
