//! The Commands Supported and Effects log against what becomes of each command: what it announces is known, all else is not.

use byway_controller::SubsystemOptions;
use byway_controller::engine::EngineCommands;
use byway_spec::base::admin::AdminOpcode;
use byway_spec::base::identify::Csi;
use byway_spec::base::log::LogPage;
use byway_spec::base::register::Cc;
use byway_spec::nvm::NvmOpcode;
use byway_spec::{Command, Status};

use crate::common::{TestHost, kv, number, nvm};
use crate::exported::Exported;
use crate::io::{BLOCKS_512, Io, KV, QUEUE};

const MIB: u64 = 1 << 20;

/// Whether the page announces an opcode (CSUPP): admin commands precede I/O commands.
fn announces(page: &[u8], is_admin: bool, opcode: u8) -> bool {
    let start = if is_admin { 0 } else { 1024 };
    number(page, start + usize::from(opcode) * 4, 4) & 1 == 1
}

/// Sends every opcode over queue `qid`, with fields of zeroes, and compares what becomes of it with the page.
fn compare_with_page(host: &mut TestHost, qid: u16, nsid: u32, csi: Csi) {
    let page = host.log(LogPage::EFFECTS, csi, 4096).unwrap();
    for opcode in 0..=u8::MAX {
        let is_announced = announces(&page, qid == 0, opcode);
        let is_event_request = qid == 0 && opcode == AdminOpcode::ASYNC_EVENT_REQUEST.0;
        if is_event_request {
            assert!(is_announced, "an event request, which is answered later");
            continue;
        }
        let command = Command::new(opcode, 0, if qid == 0 { 0 } else { nsid });
        let status = host.execute(qid, command).status();
        assert_eq!(status.is(Status::INVALID_OPCODE), !is_announced, "{csi:?} {qid} {opcode:#x}: {status}");
    }
}

#[test]
fn each_announced_command_is_known_in_rings_and_no_other_is() {
    let mut io = Io::new();
    for csi in [Csi::NVM, Csi::KV] {
        compare_with_page(&mut io.host, 0, 0, csi);
    }
    compare_with_page(&mut io.host, QUEUE, BLOCKS_512, Csi::NVM);
    compare_with_page(&mut io.host, QUEUE, KV, Csi::KV);
}

#[test]
fn commands_of_transfer_methods_are_announced_once_they_are_enabled() {
    let mut io = Io::new();
    let page = io.host.log(LogPage::EFFECTS, Csi::KV, 4096).unwrap();
    assert!((0x80..=u8::MAX).all(|opcode| !announces(&page, false, opcode)));
    io.enable_methods();
    compare_with_page(&mut io.host, QUEUE, KV, Csi::KV);
    let page = io.host.log(LogPage::EFFECTS, Csi::KV, 4096).unwrap();
    assert!(announces(&page, false, 0x80));
}

#[test]
fn disabled_options_of_a_subsystem_are_not_announced() {
    let specs = [nvm(8 * MIB, 512), kv(16 * MIB)];
    let options = SubsystemOptions::default().doorbell_buffers(false).namespace_management(false);
    let mut host = TestHost::with_options(64 * MIB, &specs, options);
    compare_with_page(&mut host, 0, 0, Csi::NVM);
    let page = host.log(LogPage::EFFECTS, Csi::NVM, 4096).unwrap();
    for opcode in [0x7c, 0x0d, 0x15, 0x80, 0x84] {
        assert!(!announces(&page, true, opcode), "{opcode:#x}");
    }
    let controller = host.identify(byway_spec::base::identify::Cns::CONTROLLER, 0, Csi::NVM).unwrap();
    assert_eq!(number(&controller, 256, 2), 0, "OACS");
    assert_eq!(number(&controller, 328, 4), 0, "SANICAP");
}

#[test]
fn commands_missing_in_an_export_are_not_announced() {
    let none = |commands: &mut EngineCommands| {
        *commands = EngineCommands {
            write_zeroes: false,
            deallocate: false,
            compare: false,
            verify: false,
            copy: false,
        };
    };
    let mut device = Exported::shaped(|shape| none(&mut shape.commands));
    let host = device.host();
    let page = host.log(LogPage::EFFECTS, Csi::NVM, 4096).unwrap();
    for opcode in [
        NvmOpcode::COMPARE,
        NvmOpcode::WRITE_ZEROES,
        NvmOpcode::DATASET_MANAGEMENT,
        NvmOpcode::VERIFY,
        NvmOpcode::COPY,
    ] {
        assert!(!announces(&page, false, opcode.0), "{opcode}");
    }
    assert!(announces(&page, false, NvmOpcode::READ.0));
    compare_with_page(host, 0, 0, Csi::NVM);
}

#[test]
fn effects_under_admin_only_css_list_no_io_commands() {
    let mut host = TestHost::new(64 * MIB, &[nvm(8 * MIB, 512), kv(16 * MIB)]);
    host.enable_for(Cc::CSS_ADMIN_ONLY);
    let page = host.log(LogPage::EFFECTS, Csi::NVM, 4096).unwrap();
    assert!((0..=u8::MAX).all(|opcode| !announces(&page, false, opcode)));
    compare_with_page(&mut host, 0, 0, Csi::NVM);
    host.enable_for(Cc::CSS_NVM);
    let page = host.log(LogPage::EFFECTS, Csi::KV, 4096).unwrap();
    assert!((0..=u8::MAX).all(|opcode| !announces(&page, false, opcode)));
}
