//! Features: what can be read and set, and what each refuses.

use crate::common::{TestHost, kv, nvm};
use byway_spec::base::admin::AdminOpcode;
use byway_spec::base::command::NSID_ALL;
use byway_spec::base::feature::{
    ErrorRecovery, FeatureCapabilities, FeatureCdw10, FeatureId, FeatureSelect, InterruptVector,
    NumberOfQueues, TemperatureThreshold,
};
use byway_spec::vendor::{Methods, VendorOpcode};
use byway_spec::{Command, Completion, Status};

const MIB: u64 = 1 << 20;
const KV: u32 = 2;

fn host() -> TestHost {
    TestHost::new(32 * MIB, &[nvm(8 * MIB, 512), kv(16 * MIB)])
}

fn get_of(fid: FeatureId, select: FeatureSelect, nsid: u32, cdw11: u32) -> Command {
    let mut command = Command::new(AdminOpcode::GET_FEATURES.0, 0, nsid);
    command.cdw10 = FeatureCdw10::new().with_fid(fid).with_sel(select).into_bits();
    command.cdw11 = cdw11;
    command
}

fn set_of(fid: FeatureId, nsid: u32, cdw11: u32) -> Command {
    let mut command = Command::new(AdminOpcode::SET_FEATURES.0, 0, nsid);
    command.cdw10 = FeatureCdw10::new().with_fid(fid).into_bits();
    command.cdw11 = cdw11;
    command
}

fn get(host: &mut TestHost, fid: FeatureId, cdw11: u32) -> Completion {
    host.admin(get_of(fid, FeatureSelect::CURRENT, 0, cdw11))
}

fn set(host: &mut TestHost, fid: FeatureId, cdw11: u32) -> Completion {
    host.admin(set_of(fid, 0, cdw11))
}

#[test]
fn set_feature_is_read_back_and_keeps_the_default() {
    let mut host = host();
    for (fid, value) in [
        (FeatureId::ARBITRATION, 0x0403_0207),
        (FeatureId::POWER_MANAGEMENT, 0x20),
        (FeatureId::INTERRUPT_COALESCING, 0x1234),
        (FeatureId::WRITE_ATOMICITY, 1),
        (FeatureId::ASYNC_EVENTS, 0x51f),
        (FeatureId::KEEP_ALIVE, 5000),
    ] {
        assert!(set(&mut host, fid, value).status().is_success(), "{fid}");
        assert_eq!(get(&mut host, fid, 0).dw0, value, "{fid}");
        for select in [FeatureSelect::DEFAULT, FeatureSelect::SAVED] {
            let default = host.admin(get_of(fid, select, 0, 0));
            assert_eq!((default.status(), default.dw0), (Status::SUCCESS, 0), "{fid}");
        }
    }
}

#[test]
fn all_queues_are_granted_whatever_is_asked_for() {
    let mut host = host();
    for asked in [NumberOfQueues::new(), NumberOfQueues::new().with_nsq_z(999).with_ncq_z(7)] {
        let given = set(&mut host, FeatureId::NUMBER_OF_QUEUES, asked.into_bits());
        assert!(given.status().is_success());
        let given = NumberOfQueues::from_bits(given.dw0);
        assert_eq!((given.nsq_z(), given.ncq_z()), (127, 127));
    }
    for asked in [0xffff, 0xffff_0000] {
        assert!(set(&mut host, FeatureId::NUMBER_OF_QUEUES, asked).status().is(Status::INVALID_FIELD));
    }
    assert_eq!(get(&mut host, FeatureId::NUMBER_OF_QUEUES, 0).dw0, 0x007f_007f);
}

#[test]
fn the_number_of_queues_is_settled_before_the_first_is_made() {
    let mut host = host();
    host.create_pair(1, 16);
    assert!(set(&mut host, FeatureId::NUMBER_OF_QUEUES, 0).status().is(Status::COMMAND_SEQUENCE_ERROR));
    assert!(host.delete_sq(1).is_success() && host.delete_cq(1).is_success());
    assert!(set(&mut host, FeatureId::NUMBER_OF_QUEUES, 0).status().is_success());
}

#[test]
fn temperatures_have_an_upper_and_a_lower_threshold() {
    let mut host = host();
    let over = TemperatureThreshold::new().with_tmpth_k(350);
    let under = over.with_thsel(1).with_tmpth_k(250);
    for threshold in [over, under] {
        assert!(
            set(&mut host, FeatureId::TEMPERATURE_THRESHOLD, threshold.into_bits()).status().is_success()
        );
        let which = threshold.with_tmpth_k(0).into_bits();
        assert_eq!(get(&mut host, FeatureId::TEMPERATURE_THRESHOLD, which).dw0, threshold.into_bits());
    }
    for wrong in [over.with_tmpsel(3), over.with_thsel(2)] {
        let refused = set(&mut host, FeatureId::TEMPERATURE_THRESHOLD, wrong.into_bits());
        assert!(refused.status().is(Status::INVALID_FIELD));
    }
}

#[test]
fn error_recovery_belongs_to_a_namespace() {
    let mut host = host();
    let limit = ErrorRecovery::new().with_tler(7).into_bits();
    assert!(host.admin(set_of(FeatureId::ERROR_RECOVERY, 1, limit)).status().is_success());
    let of = |nsid| get_of(FeatureId::ERROR_RECOVERY, FeatureSelect::CURRENT, nsid, 0);
    assert_eq!((host.admin(of(1)).dw0, host.admin(of(2)).dw0), (7, 0));
    assert!(host.admin(set_of(FeatureId::ERROR_RECOVERY, NSID_ALL, 9)).status().is_success());
    assert_eq!((host.admin(of(1)).dw0, host.admin(of(2)).dw0), (9, 9));
    for nsid in [0, 3, 65] {
        assert!(host.admin(of(nsid)).status().is(Status::INVALID_NAMESPACE), "{nsid}");
        let refused = host.admin(set_of(FeatureId::ERROR_RECOVERY, nsid, 1));
        assert!(refused.status().is(Status::INVALID_NAMESPACE), "{nsid}");
    }
    let dulbe = ErrorRecovery::new().with_dulbe(true).into_bits();
    assert!(host.admin(set_of(FeatureId::ERROR_RECOVERY, 1, dulbe)).status().is(Status::INVALID_FIELD));
}

#[test]
fn the_write_cache_is_on_and_stays_on() {
    let mut host = host();
    assert_eq!(get(&mut host, FeatureId::VOLATILE_WRITE_CACHE, 0).dw0, 1);
    assert!(set(&mut host, FeatureId::VOLATILE_WRITE_CACHE, 1).status().is_success());
    assert!(set(&mut host, FeatureId::VOLATILE_WRITE_CACHE, 0).status().is(Status::FEATURE_NOT_CHANGEABLE));
}

#[test]
fn each_interrupt_vector_has_its_own_configuration() {
    let mut host = host();
    let vector = InterruptVector::new().with_iv(5).with_cd(true).into_bits();
    assert!(set(&mut host, FeatureId::INTERRUPT_VECTOR, vector).status().is_success());
    assert_eq!(get(&mut host, FeatureId::INTERRUPT_VECTOR, 5).dw0, vector);
    assert_eq!(get(&mut host, FeatureId::INTERRUPT_VECTOR, 6).dw0, 6);
    assert!(set(&mut host, FeatureId::INTERRUPT_VECTOR, 129).status().is(Status::INVALID_FIELD));
    assert!(get(&mut host, FeatureId::INTERRUPT_VECTOR, 129).status().is(Status::INVALID_FIELD));
}

#[test]
fn there_is_one_power_state() {
    let mut host = host();
    assert!(set(&mut host, FeatureId::POWER_MANAGEMENT, 1).status().is(Status::INVALID_FIELD));
}

#[test]
fn timestamp_continues_from_the_hosts_value() {
    let mut host = host();
    let command = set_of(FeatureId::TIMESTAMP, 0, 0);
    assert!(host.admin_write(command, &1_700_000_000_000u64.to_le_bytes()).status().is_success());
    host.now_ps += 2_500_000_000_000;
    let (done, data) = host.admin_read(get_of(FeatureId::TIMESTAMP, FeatureSelect::CURRENT, 0, 0), 8);
    assert!(done.status().is_success());
    assert_eq!(crate::common::number(&data, 0, 6), 1_700_000_002_500);
    assert_eq!(data[6], 0b11, "set by the host, may have stopped");
}

#[test]
fn host_behavior_is_kept_and_checked() {
    let mut host = host();
    let mut behavior = [0; 512];
    behavior[0] = 1;
    assert!(host.admin_write(set_of(FeatureId::HOST_BEHAVIOR, 0, 0), &behavior).status().is_success());
    let (_, data) = host.admin_read(get_of(FeatureId::HOST_BEHAVIOR, FeatureSelect::CURRENT, 0, 0), 512);
    assert_eq!(data, behavior);
    let (_, default) = host.admin_read(get_of(FeatureId::HOST_BEHAVIOR, FeatureSelect::DEFAULT, 0, 0), 512);
    assert_eq!(default, [0; 512]);
    behavior[0] = 2;
    let refused = host.admin_write(set_of(FeatureId::HOST_BEHAVIOR, 0, 0), &behavior);
    assert!(refused.status().is(Status::INVALID_FIELD));
}

#[test]
fn the_only_command_set_profile_is_the_one_in_use() {
    let mut host = host();
    let chosen = set(&mut host, FeatureId::IO_COMMAND_SET_PROFILE, 0);
    assert_eq!((chosen.status(), chosen.dw0), (Status::SUCCESS, 0b11011));
    let refused = set(&mut host, FeatureId::IO_COMMAND_SET_PROFILE, 1);
    assert!(refused.status().is(Status::COMMAND_SET_COMBINATION_REJECTED));
}

#[test]
fn key_value_configuration_belongs_to_a_key_value_namespace() {
    let mut host = host();
    assert!(host.admin(set_of(FeatureId::KEY_VALUE, KV, 1)).status().is_success());
    let current = host.admin(get_of(FeatureId::KEY_VALUE, FeatureSelect::CURRENT, KV, 0));
    let default = host.admin(get_of(FeatureId::KEY_VALUE, FeatureSelect::DEFAULT, KV, 0));
    assert_eq!((current.dw0, default.dw0), (1, 0));
    assert!(host.admin(set_of(FeatureId::KEY_VALUE, 9, 1)).status().is(Status::INVALID_NAMESPACE));
    assert!(!host.admin(set_of(FeatureId::KEY_VALUE, 1, 1)).status().is_success());
}

#[test]
fn a_method_is_refused_until_the_host_enables_it() {
    let mut host = host();
    host.create_pair(1, 16);
    let mut write = Command::new(VendorOpcode::KV_WRITE_PIGGYBACK.0, 0, KV);
    write.set_key(b"k");
    write.cdw10 = 4;
    write.cdw11 = 1;
    assert!(host.execute(1, write).status().is(Status::INVALID_OPCODE));
    let methods = Methods::new().with_piggyback(true).into_bits();
    assert!(set(&mut host, FeatureId::METHODS, methods).status().is_success());
    assert_eq!(get(&mut host, FeatureId::METHODS, 0).dw0, methods);
    assert!(host.execute(1, write).status().is_success());
    assert!(set(&mut host, FeatureId::METHODS, 0).status().is_success());
    assert!(host.execute(1, write).status().is(Status::INVALID_OPCODE));
    assert!(set(&mut host, FeatureId::METHODS, 1 << 31).status().is(Status::INVALID_FIELD));
}

#[test]
fn a_window_is_bound_to_a_queue_of_a_key_value_namespace() {
    let mut host = host();
    assert!(host.admin(set_of(FeatureId::WINDOW, KV, 1)).status().is(Status::INVALID_FIELD), "no queue");
    host.create_pair(1, 16);
    host.create_pair(2, 16);
    let none = host.admin(get_of(FeatureId::WINDOW, FeatureSelect::CURRENT, KV, 1));
    assert!(none.status().is(Status::COMMAND_SEQUENCE_ERROR));
    let first = host.admin(set_of(FeatureId::WINDOW, KV, 1));
    let second = host.admin(set_of(FeatureId::WINDOW, KV, 2));
    assert!(first.status().is_success() && second.status().is_success());
    assert_ne!(first.dw0, second.dw0);
    assert_eq!(host.admin(get_of(FeatureId::WINDOW, FeatureSelect::CURRENT, KV, 1)).dw0, first.dw0);
    assert!(!host.admin(set_of(FeatureId::WINDOW, 1, 1)).status().is_success(), "a block namespace");
    assert!(
        host.admin(set_of(FeatureId::WINDOW, KV, 0)).status().is(Status::INVALID_FIELD),
        "the admin queue"
    );
}

#[test]
fn windows_come_back_with_their_queues() {
    let mut host = host();
    for _ in 0..40 {
        host.create_pair(1, 16);
        assert!(host.admin(set_of(FeatureId::WINDOW, KV, 1)).status().is_success());
        assert!(host.delete_sq(1).is_success() && host.delete_cq(1).is_success());
    }
    for _ in 0..40 {
        host.create_pair(1, 16);
        assert!(host.admin(set_of(FeatureId::WINDOW, KV, 1)).status().is_success());
        host.reset();
        host.enable();
    }
}

#[test]
fn feature_capabilities_report_changeable_and_per_namespace() {
    let mut host = host();
    let mut of = |fid| {
        let answer = host.admin(get_of(fid, FeatureSelect::CAPABILITIES, 0, 0));
        FeatureCapabilities::from_bits(answer.dw0)
    };
    let arbitration = of(FeatureId::ARBITRATION);
    assert!(arbitration.changeable() && !arbitration.saveable() && !arbitration.per_namespace());
    assert!(!of(FeatureId::VOLATILE_WRITE_CACHE).changeable());
    assert!(of(FeatureId::KEY_VALUE).per_namespace());
}

#[test]
fn saving_an_unknown_feature_and_a_namespace_for_a_controller_feature_are_refused() {
    let mut host = host();
    let mut save = set_of(FeatureId::ARBITRATION, 0, 0);
    save.cdw10 |= 1 << 31;
    assert!(host.admin(save).status().is(Status::FEATURE_NOT_SAVEABLE));
    for fid in [FeatureId(0), FeatureId::HOST_MEMORY_BUFFER, FeatureId(0xee)] {
        assert!(set(&mut host, fid, 0).status().is(Status::INVALID_FIELD), "{fid}");
        assert!(get(&mut host, fid, 0).status().is(Status::INVALID_FIELD), "{fid}");
    }
    let named = host.admin(set_of(FeatureId::ARBITRATION, 1, 0));
    assert!(named.status().is(Status::FEATURE_NOT_PER_NAMESPACE));
    let select = get_of(FeatureId::ARBITRATION, FeatureSelect(5), 0, 0);
    assert!(host.admin(select).status().is(Status::INVALID_FIELD));
}
