//! Messages as bytes: the protocol's own, QEMU's, and invalid ones.
#![allow(clippy::unwrap_used)]

use byway_vfio_user_wire::*;

fn parse(command: Command, payload: &[u8]) -> Result<Request<'_>, WireError> {
    Request::parse(command, payload)
}

fn words(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn to(command: Command) -> Header {
    Header { id: MessageId(3), command, size_bytes: 16, kind: Kind::Command, no_reply: false, error: None }
}

#[test]
fn register_read_takes_32_bytes() {
    let mut bytes = Vec::new();
    let from = Access { region: RegionIndex::BAR0, offset: 0x1c, bytes: 4 };
    Request::RegionRead(from).encode(MessageId(0x0102), false, &mut bytes);
    let id_and_command =
        u32::from_ne_bytes([0x02_u16.to_ne_bytes(), 9_u16.to_ne_bytes()].concat().try_into().unwrap())
            | if cfg!(target_endian = "little") { 0x0100 } else { 0x0100_0000 };
    assert_eq!(bytes, words(&[id_and_command, 32, 0, 0, 0x1c, 0, 0, 4]));
}

#[test]
fn an_error_reply_is_a_header_and_nothing_else() {
    let mut bytes = Vec::new();
    encode_error(&to(Command::DMA_MAP), Errno::EEXIST, &mut bytes);
    assert_eq!(bytes.len(), HEADER_BYTES);
    let header = Header::parse(bytes.first_chunk().unwrap());
    assert_eq!(header.error, Some(Errno::EEXIST));
    assert_eq!(Reply::parse(&header, &[]), Err(WireError::Failed(Errno::EEXIST)));
}

#[test]
fn a_range_may_end_at_2_to_the_64() {
    let range = DmaRange::new(0xfef0_0000, 0xffff_ffff_0110_0000).unwrap();
    assert_eq!(range.last(), u64::MAX);
    assert!(DmaRange::new(0xfef0_0000, 0xffff_ffff_0110_0001).is_err());
    assert!(DmaRange::new(0, 0).is_err());
    assert!(range.covers(&DmaRange::new(u64::MAX, 1).unwrap()));
    assert!(!range.touches(&DmaRange::new(0, 0xfef0_0000).unwrap()));
}

#[test]
fn qemu_unmaps_everything_by_a_flag() {
    assert_eq!(parse(Command::DMA_UNMAP, &words(&[24, 2, 0, 0, 0, 0])), Ok(Request::DmaUnmap(DmaUnmap::All)));
    assert!(parse(Command::DMA_UNMAP, &words(&[24, 0, 0, 0, 0, 0])).is_err());
    assert!(parse(Command::DMA_UNMAP, &words(&[24, 1, 0, 0, 1, 0])).is_err());
}

#[test]
fn qemu_disarms_all_vectors_by_triggering_none() {
    let all = words(&[20, 0x21, 2, 0, 0]);
    let Ok(Request::SetIrqs(set)) = parse(Command::DEVICE_SET_IRQS, &all) else { panic!() };
    assert!(set.disarms_all());
    let one = words(&[20, 0x24, 2, 5, 1]);
    let Ok(Request::SetIrqs(set)) = parse(Command::DEVICE_SET_IRQS, &one) else { panic!() };
    assert!(!set.disarms_all());
    assert_eq!((set.start, set.count, set.data), (5, 1, IrqData::EventFds));
}

#[test]
fn interrupt_flags_that_exclude_each_other_are_refused() {
    for flags in [0, 0x01, 0x20, 0x23, 0x26, 0x31, 0x39, 0x61, 0x07, u32::MAX] {
        let payload = words(&[20, flags, 2, 0, 1]);
        let refused = parse(Command::DEVICE_SET_IRQS, &payload).unwrap_err();
        assert_eq!(refused, WireError::BadFlags { what: "interrupt", flags });
    }
}

#[test]
fn no_more_interrupts_are_named_than_a_device_can_have() {
    assert!(parse(Command::DEVICE_SET_IRQS, &words(&[20, 0x24, 2, 2047, 1])).is_ok());
    assert!(parse(Command::DEVICE_SET_IRQS, &words(&[20, 0x24, 2, 2048, 1])).is_err());
    assert!(parse(Command::DEVICE_SET_IRQS, &words(&[20, 0x24, 2, u32::MAX, 2])).is_err());
}

#[test]
fn data_that_did_not_come_is_refused() {
    let write = words(&[0, 0, 0, 5, 1]);
    assert_eq!(parse(Command::REGION_WRITE, &write), Err(WireError::ShortData { announced: 5, bytes: 4 }));
    assert!(parse(Command::DEVICE_SET_IRQS, &words(&[24, 0x22, 2, 0, 5, 0])).is_err());
    assert!(parse(Command::REGION_WRITE_MULTI, &words(&[1, 0, 0, 0, 0, 4])).is_err());
    assert!(parse(Command::DMA_WRITE, &words(&[0, 0, u32::MAX, u32::MAX])).is_err());
}

#[test]
fn none_of_several_writes_is_made_if_one_is_not_valid() {
    let one = [0, 0, 0, 4, 1, 0];
    let nine_bytes = [0, 0, 0, 9, 1, 0];
    assert!(parse(Command::REGION_WRITE_MULTI, &words(&[&[2, 0][..], &one, &one].concat())).is_ok());
    assert!(parse(Command::REGION_WRITE_MULTI, &words(&[&[2, 0][..], &one, &nine_bytes].concat())).is_err());
    assert!(parse(Command::REGION_WRITE_MULTI, &words(&[201, 0])).is_err());
}

#[test]
fn accesses_that_run_past_the_end_of_all_numbers_are_refused() {
    assert!(parse(Command::REGION_READ, &words(&[u32::MAX, u32::MAX, 0, 1])).is_err());
    assert!(parse(Command::DMA_READ, &words(&[u32::MAX, u32::MAX, 1, 0])).is_err());
}

#[test]
fn capabilities_have_the_defaults_of_the_protocol() {
    for payload in [&[0, 0, 0, 0][..], b"\0\0\0\0\0", b"\0\0\0\0{}\0", b"\0\0\0\0{\"capabilities\":{}}\0"] {
        let Ok(Request::Version(version)) = parse(Command::VERSION, payload) else { panic!() };
        let capabilities = version.capabilities;
        assert_eq!(
            (capabilities.max_msg_fds(), capabilities.max_data_xfer_size(), capabilities.pgsizes()),
            (1, 1 << 20, 4096)
        );
        assert_eq!(
            (capabilities.max_dma_maps(), capabilities.write_multiple(), capabilities.has_twin_socket()),
            (65_535, false, false)
        );
    }
}

#[test]
fn capabilities_that_are_not_known_are_passed_over() {
    let text = br#"{ "capabilities": { "max_msg_fds": 8, "migration": { "pgsize": 4096 }, "twin_socket": {"supported": true} } }"#;
    let payload = [&[0; 4][..], text, b"\0"].concat();
    let Ok(Request::Version(version)) = parse(Command::VERSION, &payload) else { panic!() };
    assert_eq!(version.capabilities.max_msg_fds(), 8);
    assert!(version.capabilities.has_twin_socket());
}

#[test]
fn invalid_capabilities_are_refused_with_a_message() {
    for text in [&b"{"[..], b"{\"capabilities\":{\"max_msg_fds\":-1}}", b"{\"capabilities\":7}", b"\xff\xfe"]
    {
        let payload = [&[0; 4][..], text].concat();
        assert!(matches!(parse(Command::VERSION, &payload), Err(WireError::BadCapabilities(_))), "{text:?}");
    }
    let deep = [&[0; 4][..], &b"[".repeat(10_000)].concat();
    assert!(parse(Command::VERSION, &deep).is_err());
}

fn region(areas: Vec<Area>) -> RegionInfo {
    let flags = RegionFlags { readable: true, writable: true, mappable: true };
    RegionInfo { index: RegionIndex::BAR0, flags, bytes: 0x4000, file_offset: 0, areas, full_bytes: None }
}

fn encoded(info: &RegionInfo, argsz: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    Reply::RegionInfo(info.clone()).encode_within(&to(Command::DEVICE_GET_REGION_INFO), argsz, &mut bytes);
    bytes.split_off(HEADER_BYTES)
}

fn parsed(payload: &[u8]) -> Result<RegionInfo, WireError> {
    let header = Header { kind: Kind::Reply, ..to(Command::DEVICE_GET_REGION_INFO) };
    match Reply::parse(&header, payload)? {
        Reply::RegionInfo(info) => Ok(info),
        other => panic!("{other:?}"),
    }
}

#[test]
fn region_info_reports_its_full_size_to_a_client_that_accepts_less() {
    let info = region(vec![Area { offset: 0x1000, bytes: 0x1000 }]);
    let short = parsed(&encoded(&info, 32)).unwrap();
    assert_eq!((short.full_bytes, short.areas.len()), (Some(64), 0));
    assert_eq!(parsed(&encoded(&info, 64)), Ok(info));
}

#[test]
fn region_capabilities_that_point_outside_are_refused() {
    let good = encoded(&region(vec![Area { offset: 0x1000, bytes: 0x1000 }]), 64);
    let with = |at: usize, word: u32| {
        let mut payload = good.clone();
        payload.get_mut(at..at + 4).unwrap().copy_from_slice(&word.to_ne_bytes());
        parsed(&payload)
    };
    assert!(with(12, 4000).is_err(), "the list begins outside");
    assert!(with(40, 2).is_err(), "an area is missing");
    assert!(with(40, u32::MAX).is_err(), "areas without end");
    let mut circle = good.clone();
    circle[32..34].copy_from_slice(&9_u16.to_ne_bytes());
    circle[36..40].copy_from_slice(&32_u32.to_ne_bytes());
    assert!(parsed(&circle).is_err(), "the list leads back");
}

#[test]
fn qemus_answer_to_a_dma_write_is_understood_though_half_its_count_is_undefined() {
    let header = Header { kind: Kind::Reply, ..to(Command::DMA_WRITE) };
    let answer = words(&[0x1000, 0, 512, 0xdead_beef]);
    assert_eq!(Reply::parse(&header, &answer), Ok(Reply::DmaWritten { address: 0x1000, bytes: 512 }));
    assert!(Reply::parse(&header, answer.get(..12).unwrap()).is_ok());
}

#[test]
fn migration_is_not_known_here() {
    for command in [14, 16, 17, 18, 0, 999] {
        let refused = parse(Command(command), &[]).unwrap_err();
        assert_eq!(refused.errno(), Errno::ENOTSUP);
    }
}
