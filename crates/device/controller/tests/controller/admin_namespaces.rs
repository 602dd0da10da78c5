//! Namespace management, attachment and format.

use crate::common::{TestHost, kv, number, nvm};
use byway_controller::{CmbRegisters, Controller, ControllerId};
use byway_spec::base::admin::{AdminOpcode, FormatCdw10, NamespaceCdw11, SelectCdw10};
use byway_spec::base::command::NSID_ALL;
use byway_spec::base::feature::{FeatureCdw10, FeatureId};
use byway_spec::base::identify::{Cns, Csi};
use byway_spec::base::log::LogPage;
use byway_spec::nvm::{NvmCdw12, NvmOpcode};
use byway_spec::{Command, Completion, Status};

const MIB: u64 = 1 << 20;

fn host() -> TestHost {
    TestHost::new(64 * MIB, &[nvm(8 * MIB, 512), kv(16 * MIB)])
}

fn create(host: &mut TestHost, csi: Csi, fill: impl FnOnce(&mut [u8])) -> Completion {
    let mut command = Command::new(AdminOpcode::NAMESPACE_MANAGEMENT.0, 0, 0);
    command.cdw10 = u32::from(SelectCdw10::CREATE);
    command.cdw11 = NamespaceCdw11::new().with_csi(csi.0).into_bits();
    let mut data = vec![0; 4096];
    fill(&mut data);
    host.admin_write(command, &data)
}

fn create_blocks(host: &mut TestHost, blocks: u64, capacity: u64, flbas: u8) -> Completion {
    create(host, Csi::NVM, |data| {
        data[..8].copy_from_slice(&blocks.to_le_bytes());
        data[8..16].copy_from_slice(&capacity.to_le_bytes());
        data[26] = flbas;
    })
}

fn delete(host: &mut TestHost, nsid: u32) -> Status {
    let mut command = Command::new(AdminOpcode::NAMESPACE_MANAGEMENT.0, 0, nsid);
    command.cdw10 = u32::from(SelectCdw10::DELETE);
    host.admin(command).status()
}

fn attachment(host: &mut TestHost, nsid: u32, select: u8, list: &[u16]) -> Status {
    let mut command = Command::new(AdminOpcode::NAMESPACE_ATTACHMENT.0, 0, nsid);
    command.cdw10 = u32::from(select);
    let mut data = vec![0; 4096];
    data[..2].copy_from_slice(&(list.len() as u16).to_le_bytes());
    for (n, id) in list.iter().enumerate() {
        data[2 + n * 2..][..2].copy_from_slice(&id.to_le_bytes());
    }
    host.admin_write(command, &data).status()
}

fn attach(host: &mut TestHost, nsid: u32, list: &[u16]) -> Status {
    attachment(host, nsid, SelectCdw10::ATTACH, list)
}

fn detach(host: &mut TestHost, nsid: u32, list: &[u16]) -> Status {
    attachment(host, nsid, SelectCdw10::DETACH, list)
}

fn format(host: &mut TestHost, nsid: u32, cdw10: FormatCdw10) -> Status {
    let mut command = Command::new(AdminOpcode::FORMAT_NVM.0, 0, nsid);
    command.cdw10 = cdw10.into_bits();
    host.admin(command).status()
}

fn blocks_of(host: &mut TestHost, nsid: u32) -> u64 {
    number(&host.identify(Cns::NAMESPACE, nsid, Csi::NVM).unwrap(), 0, 8)
}

fn block(host: &mut TestHost, opcode: NvmOpcode, nsid: u32, bytes: &[u8]) -> Vec<u8> {
    let at = host.alloc(bytes.len());
    host.write(at, bytes);
    let mut command = Command::new(opcode.0, 0, nsid);
    command.cdw12 = NvmCdw12::new().with_nlb_z(0).into_bits();
    command.set_prps(at.0, 0);
    let status = host.execute(1, command).status();
    assert!(status.is_success(), "{status}");
    host.read(at, bytes.len())
}

#[test]
fn a_block_namespace_is_made_attached_used_detached_and_deleted() {
    let mut host = host();
    host.create_pair(1, 16);
    let made = create_blocks(&mut host, 1024, 1024, 1);
    assert_eq!((made.status(), made.dw0), (Status::SUCCESS, 3));
    assert_eq!(blocks_of(&mut host, 3), 0, "attached to no controller yet");
    assert!(attach(&mut host, 3, &[0]).is_success());
    assert_eq!(blocks_of(&mut host, 3), 1024);
    block(&mut host, NvmOpcode::WRITE, 3, &[7; 4096]);
    assert_eq!(block(&mut host, NvmOpcode::READ, 3, &[0; 4096]), [7; 4096]);
    assert!(detach(&mut host, 3, &[0]).is_success());
    assert_eq!(blocks_of(&mut host, 3), 0);
    assert!(delete(&mut host, 3).is_success());
    assert!(delete(&mut host, 3).is(Status::INVALID_NAMESPACE));
    let again = create_blocks(&mut host, 1024, 1024, 0);
    assert_eq!(again.dw0, 3, "its identifier is free again");
    assert!(attach(&mut host, 3, &[0]).is_success());
    assert_eq!(block(&mut host, NvmOpcode::READ, 3, &[1; 512]), [0; 512], "and its data gone");
}

#[test]
fn a_key_value_namespace_is_made_by_its_size_in_bytes() {
    let mut host = host();
    let made = create(&mut host, Csi::KV, |data| data[..8].copy_from_slice(&(8 * MIB).to_le_bytes()));
    assert_eq!((made.status(), made.dw0), (Status::SUCCESS, 3));
    assert!(attach(&mut host, 3, &[0]).is_success());
    let data = host.identify(Cns::SET_NAMESPACE, 3, Csi::KV).unwrap();
    assert_eq!(number(&data, 0, 8), 8 * MIB);
}

#[test]
fn impossible_namespace_is_refused_with_the_reason() {
    let mut host = host();
    assert!(create_blocks(&mut host, 1024, 512, 0).status().is(Status::THIN_PROVISIONING_NOT_SUPPORTED));
    assert!(create_blocks(&mut host, 1024, 1024, 2).status().is(Status::INVALID_FORMAT));
    assert!(create_blocks(&mut host, 1024, 1024, 0x10).status().is(Status::INVALID_FORMAT));
    for blocks in [1 << 40, u64::MAX] {
        let status = create_blocks(&mut host, blocks, blocks, 0).status();
        assert!(status.is(Status::NAMESPACE_INSUFFICIENT_CAPACITY), "{status}");
    }
    assert!(!create_blocks(&mut host, 0, 0, 0).status().is_success());
    assert!(!create(&mut host, Csi::KV, |_| {}).status().is_success());
    assert!(create(&mut host, Csi::ZNS, |_| {}).status().is(Status::COMMAND_SET_NOT_SUPPORTED));
    let format = create(&mut host, Csi::KV, |data| (data[1], data[29]) = (1, 1));
    assert!(format.status().is(Status::INVALID_FORMAT));
    let mut neither = Command::new(AdminOpcode::NAMESPACE_MANAGEMENT.0, 0, 1);
    neither.cdw10 = 2;
    assert!(host.admin(neither).status().is(Status::INVALID_FIELD));
}

#[test]
fn identifiers_run_out_at_64() {
    let mut host = host();
    for nsid in 3..=64 {
        assert_eq!(create_blocks(&mut host, 8, 8, 0).dw0, nsid);
    }
    assert!(create_blocks(&mut host, 8, 8, 0).status().is(Status::NAMESPACE_ID_UNAVAILABLE));
    assert!(delete(&mut host, 30).is_success());
    assert_eq!(create_blocks(&mut host, 8, 8, 0).dw0, 30);
}

#[test]
fn all_namespaces_are_deleted_by_the_broadcast_identifier() {
    let mut host = host();
    assert!(delete(&mut host, NSID_ALL).is_success());
    assert_eq!(number(&host.identify(Cns::ALLOCATED_NAMESPACES, 0, Csi::NVM).unwrap(), 0, 4), 0);
    assert_eq!(create_blocks(&mut host, 8, 8, 0).dw0, 1);
}

#[test]
fn controllers_that_are_none_twice_or_not_in_order_are_refused() {
    let mut host = host();
    for list in [&[][..], &[1], &[0, 0], &[0, 7]] {
        assert!(detach(&mut host, 1, list).is(Status::CONTROLLER_LIST_INVALID), "{list:?}");
    }
    assert!(attach(&mut host, 1, &[0]).is(Status::NAMESPACE_ALREADY_ATTACHED));
    assert!(detach(&mut host, 1, &[0]).is_success());
    assert!(detach(&mut host, 1, &[0]).is(Status::NAMESPACE_NOT_ATTACHED));
    assert!(attach(&mut host, 9, &[0]).is(Status::INVALID_NAMESPACE));
    assert!(attachment(&mut host, 1, 2, &[0]).is(Status::INVALID_FIELD));
}

#[test]
fn one_controller_that_cannot_take_part_refuses_the_attachment_of_all() {
    let mut host = host();
    let _other = Controller::new(ControllerId(1), &mut host.subsystem, CmbRegisters::default());
    assert!(detach(&mut host, 1, &[1]).is_success());
    assert!(detach(&mut host, 1, &[0, 1]).is(Status::NAMESPACE_NOT_ATTACHED));
    assert_ne!(blocks_of(&mut host, 1), 0, "still attached here");
    assert!(attach(&mut host, 1, &[0, 1]).is(Status::NAMESPACE_ALREADY_ATTACHED));
    assert!(attach(&mut host, 1, &[1]).is_success());
}

#[test]
fn deleting_and_formatting_are_reported_as_changes() {
    let mut host = host();
    assert!(format(&mut host, 1, FormatCdw10::new().with_lbafl(1)).is_success());
    assert_eq!(delete(&mut host, 2), Status::SUCCESS);
    let list = host.log(LogPage::CHANGED_NAMESPACES, Csi::NVM, 4096).unwrap();
    assert_eq!((number(&list, 0, 4), number(&list, 4, 4), number(&list, 8, 4)), (1, 2, 0));
}

#[test]
fn a_format_erases_and_changes_the_block_size() {
    let mut host = host();
    host.create_pair(1, 16);
    block(&mut host, NvmOpcode::WRITE, 1, &[9; 512]);
    assert!(format(&mut host, 1, FormatCdw10::new().with_lbafl(1).with_ses(1)).is_success());
    assert_eq!(blocks_of(&mut host, 1), 8 * MIB / 4096);
    assert_eq!(block(&mut host, NvmOpcode::READ, 1, &[1; 4096]), [0; 4096]);
    block(&mut host, NvmOpcode::WRITE, 1, &[9; 4096]);
    assert!(format(&mut host, 1, FormatCdw10::new()).is_success());
    assert_eq!(blocks_of(&mut host, 1), 8 * MIB / 512);
    assert_eq!(block(&mut host, NvmOpcode::READ, 1, &[1; 512]), [0; 512]);
}

#[test]
fn a_format_that_is_not_there_is_refused() {
    let mut host = host();
    let plain = FormatCdw10::new();
    assert!(format(&mut host, 1, plain.with_lbafl(2)).is(Status::INVALID_FORMAT));
    assert!(format(&mut host, 1, plain.with_lbafu(1)).is(Status::INVALID_FORMAT));
    assert!(format(&mut host, 2, plain.with_lbafl(1)).is(Status::INVALID_FORMAT));
    assert!(format(&mut host, 1, plain.with_pi(1)).is(Status::INVALID_FORMAT));
    assert!(format(&mut host, 1, plain.with_mset(true)).is(Status::INVALID_FORMAT));
    assert!(format(&mut host, 1, plain.with_ses(2)).is(Status::INVALID_FIELD));
    assert!(format(&mut host, NSID_ALL, plain).is(Status::INVALID_FIELD));
    assert!(format(&mut host, 9, plain).is(Status::INVALID_NAMESPACE));
    assert!(format(&mut host, 0, plain).is(Status::INVALID_NAMESPACE));
    assert!(format(&mut host, 2, plain).is_success());
}

#[test]
fn a_deleted_namespace_takes_its_bound_window_with_it() {
    let mut host = host();
    host.create_pair(1, 16);
    let mut bind = Command::new(AdminOpcode::SET_FEATURES.0, 0, 2);
    bind.cdw10 = FeatureCdw10::new().with_fid(FeatureId::WINDOW).into_bits();
    bind.cdw11 = 1;
    assert!(host.admin(bind).status().is_success());
    assert_eq!(delete(&mut host, 2), Status::SUCCESS);
    let made = create(&mut host, Csi::KV, |data| data[..8].copy_from_slice(&(8 * MIB).to_le_bytes()));
    assert_eq!(made.dw0, 2, "the identifier is used again");
    assert!(attach(&mut host, 2, &[0]).is_success());
    let mut bound = bind;
    bound.cdw0.set_opcode(AdminOpcode::GET_FEATURES.0);
    assert!(host.admin(bound).status().is(Status::COMMAND_SEQUENCE_ERROR), "not bound to the new namespace");
    assert!(host.delete_sq(1).is_success());
}
