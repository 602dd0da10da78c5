//! Fabrics commands and Connect data: exact bytes, round trips, and the status of each refusal.
#![allow(clippy::unwrap_used)]

use byway_fabrics::*;
use byway_spec::base::register::{Cap, Cc, Crto, Csts};
use byway_spec::fabrics::status;
use byway_spec::{Command, Completion, DataPointer, Status};
use proptest::prelude::*;

const CONNECT: Connect = Connect {
    qid: 3,
    sqsize_z: 127,
    priority: 0,
    no_flow_control: true,
    individual_deletion: false,
    keep_alive_ms: 5000,
};

fn data() -> ConnectData {
    ConnectData {
        host_id: "12345678-9abc-def0-0123-456789abcdef".parse().unwrap(),
        controller: ControllerChoice::Dynamic,
        subsystem: Nqn::new("nqn.2026-11.example:disk").unwrap(),
        host: Nqn::new("nqn.2014-08.org.nvmexpress:uuid:12345678-9abc-def0-0123-456789abcdef").unwrap(),
    }
}

#[test]
fn a_connect_has_the_bytes_that_linux_sends() {
    let bytes = FabricsCommand::Connect(CONNECT).encode(0x1234).to_bytes();
    let mut expected = [0; 64];
    expected[..5].copy_from_slice(&[0x7f, 0x40, 0x34, 0x12, 0x01]);
    expected[32..40].copy_from_slice(&[0, 4, 0, 0, 0, 0, 0, 1]);
    expected[40..52].copy_from_slice(&[0, 0, 3, 0, 127, 0, 4, 0, 0x88, 0x13, 0, 0]);
    assert_eq!(bytes, expected);
}

#[test]
fn properties_are_named_by_size_and_offset() {
    let cap = PropertyAccess::parse(1, 0).unwrap();
    let bytes = FabricsCommand::PropertyGet(cap).encode(1).to_bytes();
    assert_eq!((bytes[4], bytes[39], bytes[40], &bytes[44..48]), (4, 0x5a, 1, &[0; 4][..]));
    let cc = PropertyAccess::parse(0, 0x14).unwrap();
    let bytes = FabricsCommand::PropertySet { property: cc, value: 0x0046_0001 }.encode(1).to_bytes();
    assert_eq!((bytes[4], bytes[40], &bytes[44..48]), (0, 0, &[0x14, 0, 0, 0][..]));
    assert_eq!(bytes[48..56], [1, 0, 0x46, 0, 0, 0, 0, 0]);
}

#[test]
fn a_message_of_authentication_names_its_protocol() {
    let bytes = FabricsCommand::AuthenticationSend(Authentication { bytes: 80 }).encode(1).to_bytes();
    assert_eq!((bytes[4], bytes[32], bytes[39]), (5, 80, 0x01), "in the capsule");
    assert_eq!(bytes[40..48], [0, 1, 1, 0xe9, 80, 0, 0, 0]);
    let bytes = FabricsCommand::AuthenticationReceive(Authentication { bytes: 80 }).encode(1).to_bytes();
    assert_eq!((bytes[4], bytes[32], bytes[39]), (6, 80, 0x5a), "by the transport");
}

fn any_command() -> impl Strategy<Value = FabricsCommand> {
    let property = prop_oneof![
        Just((1, 0)),
        Just((0, 8)),
        Just((0, 0x14)),
        Just((0, 0x1c)),
        Just((0, 0x20)),
        Just((0, 0x68))
    ]
    .prop_map(|(size, offset)| PropertyAccess::parse(size, offset).unwrap());
    let connect = (any::<u16>(), 1..=u16::MAX, 0..4_u8, any::<[bool; 2]>(), any::<u32>()).prop_map(
        |(qid, sqsize_z, priority, [no_flow_control, individual_deletion], keep_alive_ms)| {
            FabricsCommand::Connect(Connect {
                qid,
                sqsize_z,
                priority,
                no_flow_control,
                individual_deletion,
                keep_alive_ms,
            })
        },
    );
    let message = (1..=u32::MAX).prop_map(|bytes| Authentication { bytes });
    prop_oneof![
        connect,
        (property.clone(), any::<u64>())
            .prop_map(|(property, value)| FabricsCommand::PropertySet { property, value }),
        property.prop_map(FabricsCommand::PropertyGet),
        message.clone().prop_map(FabricsCommand::AuthenticationSend),
        message.prop_map(FabricsCommand::AuthenticationReceive),
        Just(FabricsCommand::Disconnect),
    ]
}

proptest! {
    #[test]
    fn any_command_is_parsed_as_it_was_encoded(command in any_command(), cid: u16) {
        let entry = command.encode(cid);
        prop_assert_eq!(entry.cid(), cid);
        prop_assert_eq!(FabricsCommand::parse(&entry), Ok(command));
    }
}

/// Changes a command; returns status and DW0 of its refusal.
fn refused(command: FabricsCommand, change: impl FnOnce(&mut Command)) -> (Status, u32) {
    let mut entry = command.encode(1);
    change(&mut entry);
    let error = FabricsCommand::parse(&entry).unwrap_err();
    (error.status(), error.dw0())
}

#[test]
fn malformed_fabrics_command_is_refused_as_by_linux() {
    let invalid_opcode = (Status::INVALID_OPCODE.with_dnr(), 0);
    let invalid_field = (Status::INVALID_FIELD.with_dnr(), 0);
    assert_eq!(refused(FabricsCommand::Disconnect, |entry| entry.cdw0.set_opcode(0x7e)), invalid_opcode);
    for kind in [2, 3, 7, 9, 0xff] {
        assert_eq!(refused(FabricsCommand::Disconnect, |entry| entry.nsid = kind), invalid_opcode, "{kind}");
    }
    assert_eq!(refused(FabricsCommand::Disconnect, |entry| entry.cdw0.set_fuse(1)), invalid_field);
    let message = FabricsCommand::AuthenticationSend(Authentication { bytes: 16 });
    for psdt in [DataPointer::Prp, DataPointer::SglMetadata, DataPointer::Reserved] {
        assert_eq!(refused(message, |entry| entry.cdw0.set_psdt(psdt)), invalid_field);
        let mut without_data = FabricsCommand::Disconnect.encode(1);
        without_data.cdw0.set_psdt(psdt);
        assert_eq!(FabricsCommand::parse(&without_data), Ok(FabricsCommand::Disconnect));
    }
    let format = (status::INCOMPATIBLE_FORMAT.with_dnr(), 0);
    assert_eq!(refused(FabricsCommand::Disconnect, |entry| entry.cdw10 = 1), format);
}

#[test]
fn a_connect_is_refused_with_the_offset_of_the_field() {
    let connect = FabricsCommand::Connect(CONNECT);
    assert_eq!(refused(connect, |entry| entry.cdw10 |= 1), (status::INCOMPATIBLE_FORMAT.with_dnr(), 0));
    let sqsize = (status::INVALID_PARAMETERS.with_dnr(), 44);
    assert_eq!(refused(connect, |entry| entry.cdw11 &= !0xffff), sqsize);
    let offsets = [Parameter::QID, Parameter::SQSIZE, Parameter::CATTR, Parameter::KATO];
    let dw0s = offsets.map(|parameter| ConnectRefusal::invalid(parameter).dw0());
    assert_eq!(dw0s, [42, 44, 46, 48]);
    let offsets = [Parameter::HOSTID, Parameter::CNTLID, Parameter::SUBNQN, Parameter::HOSTNQN];
    let dw0s = offsets.map(|parameter| ConnectRefusal::invalid(parameter).dw0());
    assert_eq!(dw0s, [0x1_0000, 0x1_0010, 0x1_0100, 0x1_0200]);
}

#[test]
fn properties_that_are_not_there_or_of_another_size_are_invalid_fields() {
    let get = FabricsCommand::PropertyGet(PropertyAccess::parse(0, 8).unwrap());
    for (size, offset) in
        [(1, 8), (0, 0), (2, 0), (7, 8), (0, 4), (0, 9), (0, 0x24), (0, 0x1000), (0, u32::MAX)]
    {
        let change = |entry: &mut Command| (entry.cdw10, entry.cdw11) = (size, offset);
        assert_eq!(refused(get, change), (Status::INVALID_FIELD.with_dnr(), 0), "{size} {offset:#x}");
    }
}

#[test]
fn messages_of_another_protocol_and_empty_ones_are_invalid_fields() {
    let send = FabricsCommand::AuthenticationSend(Authentication { bytes: 80 });
    for cdw10 in [0xe901_0000, 0xe900_0100, 0x0001_0100, 0] {
        assert_eq!(refused(send, |entry| entry.cdw10 = cdw10), (Status::INVALID_FIELD.with_dnr(), 0));
    }
    assert_eq!(refused(send, |entry| entry.cdw11 = 0), (Status::INVALID_FIELD.with_dnr(), 0));
}

#[test]
fn the_data_of_connect_has_its_names_at_256_and_512() {
    let bytes = data().encode();
    assert_eq!(bytes[..18], *b"\x12\x34\x56\x78\x9a\xbc\xde\xf0\x01\x23\x45\x67\x89\xab\xcd\xef\xff\xff");
    assert_eq!(bytes[256..281], *b"nqn.2026-11.example:disk\0");
    assert_eq!(bytes[512..523], *b"nqn.2014-08");
    assert_eq!(ConnectData::parse(&bytes), Ok(data()));
    let with_id = ConnectData { controller: ControllerChoice::Id(ControllerId(7)), ..data() };
    assert_eq!(with_id.encode()[16..18], [7, 0]);
    assert_eq!(ConnectData::parse(&with_id.encode()), Ok(with_id));
}

#[test]
fn a_connect_without_proper_names_is_refused_at_the_name() {
    let refused = |at: usize, bytes: &[u8]| {
        let mut data = data().encode();
        data[at..at + bytes.len()].copy_from_slice(bytes);
        let refusal = ConnectData::parse(&data).unwrap_err();
        (refusal.status(), refusal.dw0())
    };
    for (at, dw0) in [(256, 0x1_0100), (512, 0x1_0200)] {
        let expected = (status::INVALID_PARAMETERS.with_dnr(), dw0);
        for bytes in [&[b'x'; 256][..], &[b'x'; 224], b"\0", b"\xff", b"nqn.\n"] {
            assert_eq!(refused(at, bytes), expected);
        }
    }
}

#[test]
fn data_of_connect_that_is_not_1024_bytes_is_refused() {
    for bytes in [0, 1, 1023, 1025] {
        let refusal = ConnectData::parse(&vec![0; bytes]).unwrap_err();
        assert_eq!(refusal.status(), Status::DATA_SGL_LENGTH_INVALID.with_dnr());
    }
}

#[test]
fn a_host_reads_what_a_controller_answered() {
    let accepted = Accepted { controller: ControllerId(7), authenticate: true, secure: false };
    let mut completion = Completion::new(0, 0, 1, Status::SUCCESS);
    completion.dw0 = accepted.dw0();
    assert_eq!(completion.to_bytes()[..4], [7, 0, 2, 0]);
    assert_eq!(Accepted::parse(&completion), Ok(accepted));
    for kind in [
        RefusalKind::IncompatibleFormat,
        RefusalKind::Busy,
        RefusalKind::Invalid(Parameter::HOSTNQN),
        RefusalKind::Invalid(Parameter::QID),
        RefusalKind::RestartDiscovery,
        RefusalKind::InvalidHost,
        RefusalKind::AuthenticationRequired,
        RefusalKind::Other(Status::INTERNAL_ERROR),
    ] {
        for refusal in [ConnectRefusal::for_now(kind), ConnectRefusal::for_good(kind)] {
            let mut completion = Completion::new(0, 0, 1, refusal.status());
            completion.dw0 = refusal.dw0();
            assert_eq!(Accepted::parse(&completion), Err(refusal));
        }
    }
}

#[test]
fn names_are_up_to_223_bytes_of_text() {
    assert_eq!(Nqn::new(""), Err(NqnError::Empty));
    assert!(Nqn::new(&"x".repeat(223)).is_ok());
    assert_eq!(Nqn::new(&"x".repeat(224)), Err(NqnError::TooLong(224)));
    assert_eq!(Nqn::new("nqn.\u{7f}"), Err(NqnError::Control));
    assert!(Nqn::new("nqn.2026-11.example:größe").is_ok());
    assert!(Nqn::discovery().is_discovery());
}

#[test]
fn form_of_a_name_is_recognized() {
    let form = |name: &str| Nqn::new(name).unwrap().form();
    let uuid = "nqn.2014-08.org.nvmexpress:uuid:12345678-9ABC-def0-0123-456789abcdef";
    assert_eq!(form(uuid), NqnForm::Uuid);
    for name in ["nqn.2014-08.org.nvmexpress.discovery", "nqn.2026-12.a-b.example:any: text", "nqn.2026-01.x"]
    {
        assert_eq!(form(name), NqnForm::Domain, "{name}");
    }
    for name in [
        "blktests-subsystem-1",
        "nqn.",
        "nqn.2026-13.example:x",
        "nqn.2026-00.example:x",
        "nqn.26-11.example:x",
        "nqn.2026-11.:x",
        "nqn.2026-11.-a:x",
        "nqn.2026-11.a..b",
        "nqn.2026-11é.x",
        "nqn.2026-11",
        "nqn.2014-08.org.nvmexpress:uuid:1234",
    ] {
        assert_eq!(form(name), NqnForm::Other, "{name}");
    }
}

#[test]
fn a_host_identifier_is_a_uuid() {
    let text = "12345678-9abc-def0-0123-456789abcdef";
    let id: HostId = text.parse().unwrap();
    assert_eq!(id.to_string(), text);
    for wrong in [
        "",
        "123456789abcdef00123456789abcdef",
        "12345678-9abc-def0-0123-456789abcdeg",
        "12345678-9abc-def0-0123-456789abcde",
        "1234567-89abc-def0-0123-456789abcdef",
        "é234567-9abc-def0-0123-456789abcdef",
    ] {
        assert!(wrong.parse::<HostId>().is_err(), "{wrong}");
    }
}

fn properties() -> Properties {
    let cap =
        Cap::new().with_css(Cap::CSS_NVM | Cap::CSS_IO_SETS).with_cqr(true).with_to(20).with_nssrs(true);
    Properties::new(cap, Crto::new().with_crwmt(20))
}

fn at(size: u8, offset: u32) -> PropertyAccess {
    PropertyAccess::parse(size, offset).unwrap()
}

#[test]
fn a_controller_is_enabled_shut_down_and_reset_by_cc() {
    let mut p = properties();
    let cc = at(0, 0x14);
    assert_eq!(p.get(at(1, 0)) >> 43 & 1, 1);
    assert_eq!(p.get(at(0, 8)), 0x0002_0100);
    assert_eq!(p.set(cc, 0x0046_0001), Ok(Change::Enable));
    assert!(!p.csts().rdy() && !p.takes_io_queues());
    p.set_ready();
    assert_eq!((p.get(at(0, 0x1c)), p.get(cc)), (1, 0x0046_0001));
    assert!(p.takes_io_queues());
    assert_eq!(p.set(cc, 0x0046_4001), Ok(Change::Shutdown));
    assert_eq!(p.csts().shst(), Csts::SHST_OCCURRING);
    assert_eq!(p.set(cc, 0x0046_4001), Ok(Change::None), "it is reported once");
    p.set_shut_down();
    assert_eq!(p.get(at(0, 0x1c)), 0b1001);
    assert_eq!(p.set(cc, 0), Ok(Change::Reset));
    assert_eq!(p.get(at(0, 0x1c)), 0);
}

#[test]
fn a_configuration_that_is_not_there_is_fatal_until_the_reset() {
    let wrong = [
        Cc::new().with_en(true).with_css(1),
        Cc::new().with_en(true).with_mps(1),
        Cc::new().with_en(true).with_ams(1),
    ];
    for cc in wrong {
        let mut p = properties();
        assert_eq!(p.set(at(0, 0x14), u64::from(cc.into_bits())), Ok(Change::None));
        p.set_ready();
        assert!(p.csts().cfs() && !p.csts().rdy());
        assert_eq!(p.set(at(0, 0x14), 0), Ok(Change::Reset));
        assert!(!p.csts().cfs());
    }
}

#[test]
fn io_queues_have_entries_of_64_and_16_bytes() {
    for cc in [0x0046_0001, 0x0045_0001, 0x0036_0001, 0x0000_0001] {
        let mut p = properties();
        assert_eq!(p.set(at(0, 0x14), cc), Ok(Change::Enable));
        p.set_ready();
        assert_eq!(p.takes_io_queues(), cc == 0x0046_0001);
    }
}

#[test]
fn only_the_magic_resets_the_subsystem_and_only_where_it_can_be() {
    let mut p = properties();
    assert_eq!(p.set(at(0, 0x20), 1), Ok(Change::None));
    assert_eq!(p.set(at(0, 0x20), 0x4e56_4d65), Ok(Change::SubsystemReset));
    p.subsystem_reset();
    assert!(p.csts().nssro());
    p.set(at(0, 0x1c), 1 << 4).unwrap();
    assert!(!p.csts().nssro());
    let mut p = Properties::new(Cap::new(), Crto::new());
    assert_eq!(p.set(at(0, 0x20), 0x4e56_4d65), Err(PropertyError::ReadOnly(Property::Nssr)));
}

#[test]
fn read_only_property_is_not_written() {
    for access in [at(1, 0), at(0, 8), at(0, 0x68)] {
        let error = properties().set(access, 0).unwrap_err();
        assert_eq!(error.status(), Status::INVALID_FIELD.with_dnr());
    }
}
