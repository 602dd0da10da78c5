//! Round trips: whatever is encoded is parsed unchanged.
#![allow(clippy::unwrap_used)]

use byway_vfio_user_wire::*;
use proptest::prelude::*;

fn small_write() -> impl Strategy<Value = SmallWrite> {
    (any::<u32>(), any::<u32>(), 0..=8_u32, any::<[u8; 8]>()).prop_map(|(region, offset, bytes, data)| {
        SmallWrite { to: Access { region: RegionIndex(region), offset: u64::from(offset), bytes }, data }
    })
}

fn range() -> impl Strategy<Value = DmaRange> {
    (any::<u64>(), any::<u64>()).prop_filter_map("a range", |(first, bytes)| DmaRange::new(first, bytes).ok())
}

fn capabilities() -> impl Strategy<Value = Capabilities> {
    let twin = (any::<bool>(), any::<Option<u32>>())
        .prop_map(|(supported, fd_index)| TwinSocket { supported, fd_index });
    let numbers = (any::<Option<u32>>(), any::<Option<u64>>(), any::<Option<u64>>(), any::<Option<u64>>());
    (numbers, proptest::option::of(twin), any::<Option<bool>>()).prop_map(
        |((max_msg_fds, max_data_xfer_size, max_dma_maps, pgsizes), twin_socket, write_multiple)| {
            Capabilities {
                max_msg_fds,
                max_data_xfer_size,
                max_dma_maps,
                pgsizes,
                twin_socket,
                write_multiple,
            }
        },
    )
}

/// Requests that borrow nothing.
fn request() -> impl Strategy<Value = Request<'static>> {
    let version = (any::<u16>(), any::<u16>(), capabilities())
        .prop_map(|(major, minor, capabilities)| Request::Version(Version { major, minor, capabilities }));
    let map = (range(), any::<u64>(), any::<bool>(), any::<bool>()).prop_map(
        |(range, file_offset, readable, writable)| {
            Request::DmaMap(DmaMap { range, file_offset, readable, writable })
        },
    );
    let read = (any::<u32>(), any::<u32>(), any::<u32>()).prop_map(|(region, offset, bytes)| {
        Request::RegionRead(Access { region: RegionIndex(region), offset: u64::from(offset), bytes })
    });
    prop_oneof![
        version,
        map,
        range().prop_map(|range| Request::DmaUnmap(DmaUnmap::Range(range))),
        Just(Request::DmaUnmap(DmaUnmap::All)),
        Just(Request::DeviceGetInfo),
        (any::<u32>(), any::<u32>())
            .prop_map(|(index, argsz)| Request::RegionGetInfo { index: RegionIndex(index), argsz }),
        (any::<u32>(), any::<u32>())
            .prop_map(|(index, argsz)| Request::RegionGetIoFds { index: RegionIndex(index), argsz }),
        any::<u32>().prop_map(|index| Request::IrqGetInfo { index: IrqIndex(index) }),
        read,
        (any::<u32>(), any::<u32>()).prop_map(|(address, bytes)| Request::DmaRead {
            address: u64::from(address),
            bytes: u64::from(bytes)
        }),
        Just(Request::DeviceReset),
    ]
}

fn action() -> impl Strategy<Value = IrqAction> {
    prop_oneof![Just(IrqAction::Mask), Just(IrqAction::Unmask), Just(IrqAction::Trigger)]
}

fn areas() -> impl Strategy<Value = Vec<Area>> {
    let area = (any::<u64>(), any::<u64>()).prop_map(|(offset, bytes)| Area { offset, bytes });
    proptest::collection::vec(area, 0..6)
}

fn region_info() -> impl Strategy<Value = RegionInfo> {
    (any::<u32>(), any::<[bool; 3]>(), any::<u64>(), any::<u64>(), areas()).prop_map(
        |(index, [readable, writable, mappable], bytes, file_offset, areas)| RegionInfo {
            index: RegionIndex(index),
            flags: RegionFlags { readable, writable, mappable },
            bytes,
            file_offset,
            areas,
            full_bytes: None,
        },
    )
}

fn io_fds() -> impl Strategy<Value = RegionIoFds> {
    let part = (any::<[u64; 3]>(), any::<[u32; 3]>()).prop_map(
        |([offset, bytes, data], [fd_index, kind, flags])| IoFd {
            offset,
            bytes,
            fd_index,
            kind: IoFdKind(kind),
            flags,
            data,
        },
    );
    (any::<u32>(), proptest::collection::vec(part, 0..6)).prop_map(|(index, parts)| RegionIoFds {
        index: RegionIndex(index),
        parts,
        full_bytes: None,
    })
}

/// Sends bytes through a reader, and gives its only message to `look`.
fn received<T>(bytes: &[u8], look: impl FnOnce(Message<'_, ()>) -> T) -> T {
    let mut reader = Reader::new(Limits::default());
    reader.push(bytes, []);
    let Some(Incoming::Message(message)) = reader.next().unwrap() else { panic!("no message") };
    assert_eq!(message.header.size_bytes as usize, bytes.len());
    look(message)
}

fn goes_round(request: &Request<'_>, no_reply: bool) {
    let mut bytes = Vec::new();
    request.encode(MessageId(0xbeef), no_reply, &mut bytes);
    received(&bytes, |message| {
        assert_eq!(message.header.id, MessageId(0xbeef));
        assert_eq!((message.header.kind, message.header.no_reply), (Kind::Command, no_reply));
        assert_eq!(Request::parse(message.header.command, message.payload), Ok(request.clone()));
    });
}

fn comes_back(command: Command, reply: &Reply<'_>) {
    let to = Header {
        id: MessageId(7),
        command,
        size_bytes: 16,
        kind: Kind::Command,
        no_reply: false,
        error: None,
    };
    let mut bytes = Vec::new();
    reply.encode(&to, &mut bytes);
    received(&bytes, |message| {
        assert_eq!((message.header.id, message.header.kind), (MessageId(7), Kind::Reply));
        assert_eq!(Reply::parse(&message.header, message.payload), Ok(reply.clone()));
    });
}

proptest! {
    #[test]
    fn any_request_is_parsed_as_it_was_encoded(request in request(), no_reply: bool) {
        goes_round(&request, no_reply);
    }

    #[test]
    fn data_goes_with_reads_and_writes(region: u32, offset: u32, data in proptest::collection::vec(any::<u8>(), 0..100)) {
        let at = Access { region: RegionIndex(region), offset: u64::from(offset), bytes: data.len() as u32 };
        let address = u64::from(offset);
        goes_round(&Request::RegionWrite { to: at, data: &data }, false);
        goes_round(&Request::DmaWrite { address, data: &data }, false);
        comes_back(Command::REGION_READ, &Reply::RegionRead { from: at, data: &data });
        comes_back(Command::REGION_WRITE, &Reply::RegionWritten(at));
        comes_back(Command::DMA_READ, &Reply::DmaRead { address, data: &data });
        comes_back(Command::DMA_WRITE, &Reply::DmaWritten { address, bytes: data.len() as u32 });
    }

    #[test]
    fn interrupts_are_set_in_every_form(index: u32, start in 0..1000_u32, action in action(), booleans in proptest::collection::vec(any::<u8>(), 0..1000)) {
        let count = booleans.len() as u32;
        for data in [IrqData::Now, IrqData::Where(&booleans), IrqData::EventFds] {
            goes_round(&Request::SetIrqs(SetIrqs { index: IrqIndex(index), start, count, action, data }), false);
        }
    }

    #[test]
    fn small_writes_keep_their_order(writes in proptest::collection::vec(small_write(), 0..=200)) {
        let mut bytes = Vec::new();
        Request::encode_writes(&writes, MessageId(1), true, &mut bytes);
        received(&bytes, |message| {
            let request = Request::parse(message.header.command, message.payload).unwrap();
            let Request::RegionWriteMulti(parsed) = request else { panic!("{request:?}") };
            assert_eq!(parsed.iter().collect::<Vec<_>>(), writes);
            goes_round(&request, true);
        });
        comes_back(Command::REGION_WRITE_MULTI, &Reply::RegionWrittenMulti { writes: writes.len() as u64 });
    }

    #[test]
    fn device_info_round_trips(has_reset: bool, is_pci: bool, regions: u32, irqs: u32, flags: [bool; 4]) {
        comes_back(Command::DEVICE_GET_INFO, &Reply::DeviceInfo(DeviceInfo { has_reset, is_pci, regions, irqs }));
        let [eventfd, maskable, automasked, noresize] = flags;
        let flags = IrqFlags { eventfd, maskable, automasked, noresize };
        let info = IrqInfo { index: IrqIndex(regions), flags, count: irqs };
        comes_back(Command::DEVICE_GET_IRQ_INFO, &Reply::IrqInfo(info));
    }

    #[test]
    fn regions_and_their_descriptors_come_back_as_they_were_said(region in region_info(), fds in io_fds()) {
        comes_back(Command::DEVICE_GET_REGION_INFO, &Reply::RegionInfo(region));
        comes_back(Command::DEVICE_GET_REGION_IO_FDS, &Reply::RegionIoFds(fds));
    }

    #[test]
    fn versions_and_unmappings_come_back_as_they_were_said(capabilities in capabilities(), range in range()) {
        comes_back(Command::VERSION, &Reply::Version(Version { major: 0, minor: 0, capabilities }));
        comes_back(Command::DMA_UNMAP, &Reply::DmaUnmapped(DmaUnmap::Range(range)));
        comes_back(Command::DMA_UNMAP, &Reply::DmaUnmapped(DmaUnmap::All));
        comes_back(Command::DMA_MAP, &Reply::Done);
    }
}
