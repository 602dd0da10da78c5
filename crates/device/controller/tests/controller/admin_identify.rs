//! Identify: what controllers and namespaces say of themselves, seen from the host.

use crate::common::{TestHost, kv, number, nvm};
use byway_spec::base::admin::AdminOpcode;
use byway_spec::base::command::{DataPointer, NSID_ALL};
use byway_spec::base::identify::{Cns, Csi, IdentifyCdw10, IdentifyCdw11};
use byway_spec::base::register::Cc;
use byway_spec::{Command, Status};

const MIB: u64 = 1 << 20;

/// Namespace 1 holds blocks of 512 bytes, 2 keys, 3 blocks of 4096 bytes.
fn host() -> TestHost {
    TestHost::new(64 * MIB, &[nvm(8 * MIB, 512), kv(16 * MIB), nvm(8 * MIB, 4096)])
}

fn nsids(list: &[u8]) -> Vec<u64> {
    (0..1024).map(|n| number(list, n * 4, 4)).take_while(|nsid| *nsid != 0).collect()
}

#[test]
fn identify_controller_reports_names_limits_and_optional_commands() {
    let mut host = host();
    let data = host.identify(Cns::CONTROLLER, 0, Csi::NVM).unwrap();
    assert_eq!(&data[4..24], b"TEST0001            ");
    assert_eq!(&data[24..42], b"Byway software SSD");
    assert!(data[768..].starts_with(b"nqn.2026-01.example:byway:test\0"));
    assert_eq!(number(&data, 80, 4), 0x2_0100, "version as the register");
    assert_eq!(data[77], 12, "MDTS is 16 MiB");
    assert_eq!(data[111], 1, "an I/O controller");
    assert_eq!(number(&data, 92, 4), 1 << 8, "namespace events");
    assert_eq!(number(&data, 256, 2), 1 << 1 | 1 << 3 | 1 << 8, "format, namespaces, doorbell buffer");
    assert_eq!((data[512], data[513]), (0x66, 0x44));
    assert_eq!(number(&data, 516, 4), 64);
    assert_eq!(data[525] & 1, 1, "a cache that Flush writes back");
    assert_eq!(number(&data, 536, 4) & 3, 1, "SGLs of any alignment");
    assert_eq!(number(&data, 536, 4) >> 20 & 1, 0, "offsets stay reserved on PCIe");
    assert!(number(&data, 280, 8) >= 64 * MIB);
}

#[test]
fn the_vendor_area_announces_methods_and_their_limits() {
    let mut host = host();
    let data = host.identify(Cns::CONTROLLER, 0, Csi::NVM).unwrap();
    let area = &data[3072..];
    assert_eq!(&area[..8], b"BYWAYSSD");
    assert_eq!(number(area, 8, 4), 1);
    assert_eq!(number(area, 12, 4) & 0x7f, 0x7f, "every method");
    assert!(number(area, 16, 4) >= 8192, "inline");
    assert!(number(area, 20, 4) >= 8192, "piggyback");
    assert_eq!(number(area, 32, 4), 16 * MIB, "values");
}

#[test]
fn active_namespaces_are_listed_in_order_after_the_one_given() {
    let mut host = host();
    assert_eq!(nsids(&host.identify(Cns::ACTIVE_NAMESPACES, 0, Csi::NVM).unwrap()), [1, 2, 3]);
    assert_eq!(nsids(&host.identify(Cns::ACTIVE_NAMESPACES, 1, Csi::NVM).unwrap()), [2, 3]);
    assert_eq!(nsids(&host.identify(Cns::ACTIVE_NAMESPACES, 3, Csi::NVM).unwrap()), [0; 0]);
    for nsid in [0xffff_fffe, NSID_ALL] {
        assert!(
            host.identify(Cns::ACTIVE_NAMESPACES, nsid, Csi::NVM).unwrap_err().is(Status::INVALID_NAMESPACE)
        );
    }
}

#[test]
fn active_namespaces_of_a_command_set_leave_the_others_out() {
    let mut host = host();
    assert_eq!(nsids(&host.identify(Cns::SET_ACTIVE_NAMESPACES, 0, Csi::NVM).unwrap()), [1, 3]);
    assert_eq!(nsids(&host.identify(Cns::SET_ACTIVE_NAMESPACES, 0, Csi::KV).unwrap()), [2]);
    let refused = host.identify(Cns::SET_ACTIVE_NAMESPACES, 0, Csi::ZNS).unwrap_err();
    assert!(refused.is(Status::INVALID_FIELD));
}

#[test]
fn every_namespace_has_a_command_set_descriptor() {
    let mut host = host();
    for (nsid, csi) in [(1, 0), (2, 1), (3, 0)] {
        let list = host.identify(Cns::NAMESPACE_DESCRIPTORS, nsid, Csi::NVM).unwrap();
        assert_eq!((list[0], list[1]), (2, 16), "NGUID");
        assert_ne!(list[4..20], [0; 16]);
        assert_eq!((list[20], list[21]), (3, 16), "UUID");
        assert_eq!((list[40], list[41], list[44]), (4, 1, csi), "command set");
        assert_eq!(list[45], 0, "the list ends");
    }
    let refused = host.identify(Cns::NAMESPACE_DESCRIPTORS, 9, Csi::NVM).unwrap_err();
    assert!(refused.is(Status::INVALID_NAMESPACE));
}

#[test]
fn identify_block_namespace_reports_size_in_blocks_of_its_format() {
    let mut host = host();
    for (nsid, format, lba_bytes) in [(1, 0, 512), (3, 1, 4096)] {
        let data = host.identify(Cns::NAMESPACE, nsid, Csi::NVM).unwrap();
        assert_eq!(number(&data, 0, 8), 8 * MIB / lba_bytes);
        assert_eq!(number(&data, 8, 8), 8 * MIB / lba_bytes);
        assert_eq!(number(&data, 16, 8), 0, "nothing written yet");
        assert_eq!((data[25], data[26]), (1, format), "two formats, this one in use");
        assert_eq!((data[130], data[134]), (9, 12));
        assert_eq!(data[30] & 1, 1, "shared");
        assert_eq!(data[33] & 7, 1, "deallocated blocks read zeroes");
    }
}

#[test]
fn identify_broadcast_reports_what_block_namespaces_share() {
    let mut host = host();
    let data = host.identify(Cns::NAMESPACE, NSID_ALL, Csi::NVM).unwrap();
    assert_eq!((number(&data, 0, 8), data[25], data[130], data[134]), (0, 1, 9, 12));
}

#[test]
fn identify_key_value_namespace_reports_size_in_bytes_and_limits() {
    let mut host = host();
    let data = host.identify(Cns::SET_NAMESPACE, 2, Csi::KV).unwrap();
    assert_eq!(number(&data, 0, 8), 16 * MIB);
    assert_eq!(data[25], 0, "one format");
    assert_eq!(number(&data, 72, 2), 16, "longest key");
    let longest = number(&data, 76, 4);
    assert!((16 * MIB / 32..MIB).contains(&longest), "longest value: a 32nd of the extent, not {longest}");
}

#[test]
fn a_key_value_namespace_has_a_capacity_in_the_block_structure() {
    let mut host = host();
    let keys = host.identify(Cns::SET_NAMESPACE, 2, Csi::KV).unwrap();
    for cns in [Cns::NAMESPACE, Cns::ALLOCATED_NAMESPACE] {
        let data = host.identify(cns, 2, Csi::NVM).unwrap();
        let (nsze, ncap, nuse) = (number(&data, 0, 8), number(&data, 8, 8), number(&data, 16, 8));
        assert_eq!((nsze, ncap), (16 * MIB / 512, 16 * MIB / 512), "{cns}");
        assert!((1..=ncap).contains(&nuse), "{nuse}");
        assert_eq!((data[25], data[26], data[130]), (0, 0, 9), "one format, of 512 bytes");
        assert_eq!(data[104..120], keys[48..64], "NGUID");
        assert_eq!(data[120..128], keys[64..72], "EUI64");
        assert_ne!(data[104..120], [0; 16]);
    }
}

#[test]
fn every_structure_of_every_namespace_can_be_had() {
    let mut host = host();
    for nsid in 1..=3 {
        for cns in [
            Cns::NAMESPACE,
            Cns::NAMESPACE_DESCRIPTORS,
            Cns::INDEPENDENT_NAMESPACE,
            Cns::ALLOCATED_NAMESPACE,
            Cns::ATTACHED_CONTROLLERS,
        ] {
            for csi in [Csi::NVM, Csi::KV, Csi::ZNS] {
                let data = host.identify(cns, nsid, csi).unwrap();
                assert!(data.iter().any(|byte| *byte != 0), "{cns} of {nsid}");
            }
        }
        let csi = if nsid == 2 { Csi::KV } else { Csi::NVM };
        for cns in [Cns::SET_NAMESPACE, Cns::SET_ALLOCATED_NAMESPACE] {
            assert!(host.identify(cns, nsid, csi).is_ok(), "{cns} of {nsid}");
        }
    }
}

#[test]
fn a_host_of_the_nvm_command_set_alone_has_no_key_value_namespace() {
    let mut host = host();
    host.enable_for(Cc::CSS_NVM);
    assert_eq!(nsids(&host.identify(Cns::ACTIVE_NAMESPACES, 0, Csi::NVM).unwrap()), [1, 3]);
    assert_eq!(nsids(&host.identify(Cns::SET_ACTIVE_NAMESPACES, 0, Csi::KV).unwrap()), [0; 0]);
    assert_eq!(nsids(&host.identify(Cns::ALLOCATED_NAMESPACES, 0, Csi::NVM).unwrap()), [1, 2, 3]);
    for cns in [Cns::NAMESPACE, Cns::INDEPENDENT_NAMESPACE] {
        assert!(host.identify(cns, 2, Csi::NVM).unwrap().iter().all(|byte| *byte == 0), "{cns}");
    }
    assert_ne!(number(&host.identify(Cns::NAMESPACE, 1, Csi::NVM).unwrap(), 8, 8), 0);
}

#[test]
fn a_namespace_asked_for_under_another_command_set_is_refused() {
    let mut host = host();
    for (nsid, csi) in [(2, Csi::NVM), (1, Csi::KV)] {
        for cns in [Cns::SET_NAMESPACE, Cns::SET_ALLOCATED_NAMESPACE] {
            let refused = host.identify(cns, nsid, csi).unwrap_err();
            assert!(refused.is(Status::INVALID_COMMAND_SET), "{cns} {nsid}");
        }
    }
    assert!(host.identify(Cns::SET_NAMESPACE, 1, Csi::ZNS).unwrap_err().is(Status::INVALID_FIELD));
}

#[test]
fn every_attached_namespace_is_ready_in_the_independent_structure() {
    let mut host = host();
    for nsid in 1..=3 {
        let data = host.identify(Cns::INDEPENDENT_NAMESPACE, nsid, Csi::NVM).unwrap();
        assert_eq!((data[1], data[14]), (1, 1), "shared and ready");
    }
}

#[test]
fn an_inactive_namespace_is_all_zeroes_and_an_impossible_one_an_error() {
    let mut host = host();
    for cns in [
        Cns::NAMESPACE,
        Cns::SET_NAMESPACE,
        Cns::INDEPENDENT_NAMESPACE,
        Cns::ALLOCATED_NAMESPACE,
        Cns::SET_ALLOCATED_NAMESPACE,
    ] {
        assert!(host.identify(cns, 9, Csi::NVM).unwrap().iter().all(|byte| *byte == 0), "{cns}");
        for nsid in [0, 65, 0xffff_fffe] {
            assert!(
                host.identify(cns, nsid, Csi::NVM).unwrap_err().is(Status::INVALID_NAMESPACE),
                "{cns} {nsid}"
            );
        }
    }
}

#[test]
fn allocated_namespaces_are_listed_and_described_whether_attached_or_not() {
    let mut host = host();
    host.subsystem.detach(1, host.controller.id()).unwrap();
    assert_eq!(nsids(&host.identify(Cns::ACTIVE_NAMESPACES, 0, Csi::NVM).unwrap()), [2, 3]);
    assert_eq!(nsids(&host.identify(Cns::ALLOCATED_NAMESPACES, 0, Csi::NVM).unwrap()), [1, 2, 3]);
    assert_eq!(number(&host.identify(Cns::NAMESPACE, 1, Csi::NVM).unwrap(), 0, 8), 0);
    assert_ne!(number(&host.identify(Cns::ALLOCATED_NAMESPACE, 1, Csi::NVM).unwrap(), 0, 8), 0);
    host.subsystem.detach(2, host.controller.id()).unwrap();
    let of_set = |host: &mut TestHost, csi| {
        let list = host.identify(Cns::SET_ALLOCATED_NAMESPACES, 0, csi);
        list.map(|list| nsids(&list))
    };
    assert_eq!(of_set(&mut host, Csi::NVM).unwrap(), [1, 3]);
    assert_eq!(of_set(&mut host, Csi::KV).unwrap(), [2]);
    assert!(of_set(&mut host, Csi::ZNS).unwrap_err().is(Status::INVALID_FIELD));
    let keys = host.identify(Cns::SET_ALLOCATED_NAMESPACE, 2, Csi::KV).unwrap();
    assert_eq!(number(&keys, 0, 8), 16 * MIB);
}

#[test]
fn controllers_are_listed_from_the_one_given_on() {
    let mut host = host();
    let list = host.identify(Cns::CONTROLLERS, 0, Csi::NVM).unwrap();
    assert_eq!((number(&list, 0, 2), number(&list, 2, 2)), (1, 0));
    let later = IdentifyCdw10::new().with_cns(Cns::CONTROLLERS).with_cntid(1);
    assert_eq!(number(&host.identify_of(later, IdentifyCdw11::new(), 0).unwrap(), 0, 2), 0);
    let attached = host.identify(Cns::ATTACHED_CONTROLLERS, 2, Csi::NVM).unwrap();
    assert_eq!((number(&attached, 0, 2), number(&attached, 2, 2)), (1, 0));
    host.subsystem.detach(2, host.controller.id()).unwrap();
    assert_eq!(number(&host.identify(Cns::ATTACHED_CONTROLLERS, 2, Csi::NVM).unwrap(), 0, 2), 0);
    let refused = host.identify(Cns::ATTACHED_CONTROLLERS, 9, Csi::NVM).unwrap_err();
    assert!(refused.is(Status::INVALID_NAMESPACE));
}

#[test]
fn one_vector_of_command_sets_has_all_that_the_device_serves() {
    let mut host = host();
    for cntid in [0xffff, 0] {
        let cdw10 = IdentifyCdw10::new().with_cns(Cns::COMMAND_SETS).with_cntid(cntid);
        let vectors = host.identify_of(cdw10, IdentifyCdw11::new(), 0).unwrap();
        assert_eq!((number(&vectors, 0, 8), number(&vectors, 8, 8)), (0b11011, 0));
    }
    let other = IdentifyCdw10::new().with_cns(Cns::COMMAND_SETS).with_cntid(7);
    let refused = host.identify_of(other, IdentifyCdw11::new(), 0).unwrap_err();
    assert!(refused.is(Status::INVALID_CONTROLLER_ID));
}

#[test]
fn identify_command_set_reports_version_and_format_limits() {
    let mut host = host();
    assert_eq!(number(&host.identify(Cns::SET_CONTROLLER, 0, Csi::KV).unwrap(), 2, 2), 1);
    assert!(host.identify(Cns::SET_CONTROLLER, 0, Csi::NVM).is_ok());
    assert!(host.identify(Cns::SET_CONTROLLER, 0, Csi::ZNS).unwrap_err().is(Status::INVALID_FIELD));
    let cdw10 = IdentifyCdw10::new().with_cns(Cns::SET_FORMAT_NAMESPACE);
    let kv = IdentifyCdw11::new().with_csi(Csi::KV);
    assert_eq!(number(&host.identify_of(cdw10, kv, 0).unwrap(), 72, 2), 16);
    assert!(host.identify_of(cdw10, kv.with_specific(1), 0).unwrap_err().is(Status::INVALID_FIELD));
    assert!(host.identify_of(cdw10, IdentifyCdw11::new().with_specific(1), 0).is_ok());
}

#[test]
fn an_unknown_structure_an_sgl_and_a_fused_command_are_refused() {
    let mut host = host();
    assert!(host.identify(Cns(0x77), 0, Csi::NVM).unwrap_err().is(Status::INVALID_FIELD));
    let mut command = Command::new(AdminOpcode::IDENTIFY.0, 0, 0);
    command.cdw10 = u32::from(Cns::CONTROLLER.0);
    command.cdw0.set_psdt(DataPointer::Sgl);
    assert!(host.admin(command).status().is(Status::INVALID_FIELD));
    command.cdw0.set_psdt(DataPointer::Prp);
    command.cdw0.set_fuse(1);
    assert!(host.admin(command).status().is(Status::INVALID_FIELD));
}

#[test]
fn a_buffer_that_is_not_mapped_fails_the_transfer_and_nothing_else() {
    let mut host = host();
    let mut command = Command::new(AdminOpcode::IDENTIFY.0, 0, 0);
    command.cdw10 = u32::from(Cns::CONTROLLER.0);
    command.set_prps(0x1000, 0);
    assert!(host.admin(command).status().is(Status::DATA_TRANSFER_ERROR));
    assert!(host.identify(Cns::CONTROLLER, 0, Csi::NVM).is_ok());
}
