//! A served device and any client of it: messages with descriptors and without, and accesses of any place and width.

use std::fs::File;
use std::num::NonZeroU16;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use byway_executor::{Embedded, Hosts, UpkeepBy};
use byway_link::ClockMode;
use byway_spec::base::register::Register;
use byway_sys::{Wakeup, memfd};
use byway_vfio_user::{BAR0_BYTES, CONFIG_BYTES, Function, LIMITS, Outbox, Session, Vectors};
use byway_vfio_user_wire::{
    Access, Capabilities, DmaMap, DmaRange, DmaUnmap, Incoming, IrqAction, IrqData, IrqIndex, Kind,
    MessageId, Reader, RegionIndex, Request, SetIrqs, SmallWrite, Version,
};

use crate::input::Input;
use crate::machine::device;

/// Things done in one input, at most.
const ACTIONS_MAX: usize = 100;

const MEMORY_BYTES: u64 = 1 << 20;

/// Offsets of registers and tables in BAR 0.
const PLACES: [u64; 12] = [0, 0x0c, 0x14, 0x1c, 0x20, 0x24, 0x28, 0x30, 0x1000, 0x1008, 0x2000, 0x3000];

thread_local! {
    /// Interrupt vectors shared by all functions served here, one after the other: the kernel takes tens of
    /// milliseconds to release an eventfd, and each input would wait for that.
    static VECTORS: Arc<Vectors> = Arc::default();
}

/// A served function, and the device behind it.
struct Host {
    // Before the device, which it reaches.
    function: Function,
    _device: Embedded,
}

impl Host {
    fn new() -> Self {
        let vectors = VECTORS.with(Arc::clone);
        vectors.forget();
        let hosts = Hosts {
            interrupts: vectors.clone(),
            doorbells: None,
            threads: NonZeroU16::MIN,
            engines: None,
            upkeep_by: UpkeepBy::default(),
        };
        let device = Embedded::serve(device("gen4x4"), ClockMode::Off, true, hosts).expect("threads");
        Self { function: Function::new(device.front(), vectors, None), _device: device }
    }

    /// The client goes; the next finds the function as after power-on.
    fn check_next(&mut self) {
        self.function.leave().expect("a device that works");
        let mut bytes = Vec::new();
        for offset in [0x14, 0x1c, 0x24, 0x28, 0x30] {
            let register = Access { region: RegionIndex::BAR0, offset, bytes: 4 };
            self.function.read(&register, &mut bytes).expect("a register");
            assert_eq!(bytes, [0; 4], "register {offset:#x} as after power-on");
        }
    }
}

/// A client's messages, or noise. Every command that wants a reply gets one, and the next client is served.
pub fn session(bytes: &[u8]) {
    let (mut input, mut host) = (Input::new(bytes), Host::new());
    let mut reader = Reader::new(LIMITS);
    let mut talk = Session::default();
    let memory = memfd::sealed("fuzz", MEMORY_BYTES).expect("memory");
    if input.byte() & 3 != 0 {
        send(&begin(), &mut reader, Vec::new());
    }
    for _ in 0..ACTIONS_MAX {
        if input.is_empty() {
            break;
        }
        let fds = descriptors(&mut input, &memory);
        match input.byte() % 8 {
            0 => {
                let len = usize::from(input.byte());
                reader.push(input.bytes(len), fds);
            }
            1 => host.function.front().run(),
            2 => {
                let mut bytes = Vec::new();
                Request::encode_writes(&small_writes(&mut input), MessageId(1), false, &mut bytes);
                reader.push(&bytes, fds);
            }
            _ => {
                let data = input.array::<64>();
                send(&request(&mut input, &data), &mut reader, fds);
            }
        }
        if !answer(&mut host.function, &mut talk, &mut reader) {
            break;
        }
    }
    host.check_next();
}

fn send(request: &Request<'_>, reader: &mut Reader<OwnedFd>, fds: Vec<OwnedFd>) {
    let mut bytes = Vec::new();
    request.encode(MessageId(1), false, &mut bytes);
    reader.push(&bytes, fds);
}

fn begin() -> Request<'static> {
    let capabilities = Capabilities { write_multiple: Some(true), ..Capabilities::default() };
    Request::Version(Version { major: 0, minor: 0, capabilities })
}

/// Answers complete messages; false if the stream has lost its message boundaries.
fn answer(function: &mut Function, talk: &mut Session, reader: &mut Reader<OwnedFd>) -> bool {
    loop {
        let incoming = match reader.next() {
            Ok(Some(incoming)) => incoming,
            Ok(None) => return true,
            Err(_) => return false,
        };
        let (Incoming::Message(byway_vfio_user_wire::Message { header, .. })
        | Incoming::Refused { header, .. }) = &incoming;
        let (id, command) = (header.id, header.command);
        let wanted = usize::from(header.kind == Kind::Command && !header.no_reply);
        let mut out = Outbox::default();
        talk.take(function, incoming, &mut out);
        let mut replies = Reader::<()>::new(LIMITS);
        replies.push(&out.bytes, []);
        let mut count = 0;
        while let Ok(Some(Incoming::Message(reply))) = replies.next() {
            assert_eq!(
                (reply.header.id, reply.header.command, reply.header.kind),
                (id, command, Kind::Reply)
            );
            count += 1;
        }
        // An unknown command's refusal is none that a client reads as a message of a kind it knows.
        assert!(out.bytes.is_empty() == (wanted == 0) && count <= 1);
        assert!(replies.is_between_messages(), "a reply is whole");
    }
}

/// No descriptor more often than not, else memory, a short file, an eventfd, a pipe's end, or many.
fn descriptors(input: &mut Input<'_>, memory: &File) -> Vec<OwnedFd> {
    let shared = || memory.try_clone().map(OwnedFd::from);
    let event = || Wakeup::new().and_then(|event| event.as_fd().try_clone_to_owned());
    let one = match input.byte() % 16 {
        0..=3 => shared(),
        4 => File::open("/dev/null").map(OwnedFd::from),
        5..=7 => event(),
        8 => std::io::pipe().map(|(_, end)| end.into()),
        9 => return (0..input.byte() % 24).filter_map(|_| event().ok()).collect(),
        _ => return Vec::new(),
    };
    one.into_iter().collect()
}

fn small_writes(input: &mut Input<'_>) -> Vec<SmallWrite> {
    let write = |input: &mut Input<'_>| SmallWrite { to: access(input, 8), data: input.array() };
    (0..input.byte() % 4).map(|_| write(input)).collect()
}

/// A request that gets further than noise does.
fn request<'a>(input: &mut Input<'_>, data: &'a [u8; 64]) -> Request<'a> {
    let index = |input: &mut Input<'_>| RegionIndex(u32::from(input.byte() % 12));
    match input.byte() % 16 {
        0 => begin(),
        1 => Request::DeviceGetInfo,
        2 => Request::RegionGetInfo { index: index(input), argsz: input.number() },
        3 => Request::RegionGetIoFds { index: index(input), argsz: input.number() },
        4 => Request::IrqGetInfo { index: IrqIndex(u32::from(input.byte() % 7)) },
        5 | 6 => Request::SetIrqs(set_irqs(input, data)),
        7 | 8 => Request::RegionRead(access(input, 8192)),
        9..=11 => {
            let to = access(input, 64);
            let data = data.get(..to.bytes as usize).unwrap_or_default();
            Request::RegionWrite { to, data }
        }
        12 | 13 => map(input).map_or(Request::DeviceGetInfo, Request::DmaMap),
        14 => range(input)
            .map_or(Request::DmaUnmap(DmaUnmap::All), |range| Request::DmaUnmap(DmaUnmap::Range(range))),
        _ => Request::DeviceReset,
    }
}

fn set_irqs<'a>(input: &mut Input<'_>, data: &'a [u8; 64]) -> SetIrqs<'a> {
    let count = input.number() % 140;
    let chosen = data.get(..count as usize);
    let given = match (input.byte() % 3, chosen) {
        (0, Some(chosen)) => IrqData::Where(chosen),
        (1, _) => IrqData::Now,
        _ => IrqData::EventFds,
    };
    SetIrqs {
        index: input.one_of(&[IrqIndex::MSIX, IrqIndex::MSIX, IrqIndex::INTX, IrqIndex(9)]),
        start: input.number(),
        count,
        action: input.one_of(&[IrqAction::Trigger, IrqAction::Mask, IrqAction::Unmask]),
        data: given,
    }
}

fn map(input: &mut Input<'_>) -> Option<DmaMap> {
    let range = range(input)?;
    let flags = input.byte();
    let file_offset = u64::from(input.number()) & !4095;
    Some(DmaMap { range, file_offset, readable: flags & 1 == 0, writable: flags & 2 == 0 })
}

fn range(input: &mut Input<'_>) -> Option<DmaRange> {
    match input.byte() % 4 {
        0 => DmaRange::new(input.qword(), input.qword()).ok(),
        _ => DmaRange::new(u64::from(input.byte()) << 12, u64::from(input.byte() % 32) << 12).ok(),
    }
}

/// An access, usually to an existing register, of at most `bytes_max`.
fn access(input: &mut Input<'_>, bytes_max: u32) -> Access {
    let region =
        input.one_of(&[RegionIndex::BAR0, RegionIndex::BAR0, RegionIndex::CONFIG, RegionIndex::BAR2]);
    let (offset, bytes) = match input.byte() % 4 {
        0 => (input.qword(), input.number()),
        1 => (u64::from(input.word()), input.number()),
        _ => (input.one_of(&PLACES) + u64::from(input.byte() % 16), 4),
    };
    Access { region, offset, bytes: bytes % (bytes_max + 1) }
}

/// Reads and writes of configuration space and BAR, at any offset and width. Those outside, or to parts of words, are
/// refused and no others. The result of a read does not depend on the pieces.
pub fn accesses(bytes: &[u8]) {
    let (mut input, mut host) = (Input::new(bytes), Host::new());
    for _ in 0..ACTIONS_MAX {
        if input.is_empty() {
            break;
        }
        let to = access(&mut input, 300);
        let size = match to.region {
            RegionIndex::BAR0 => BAR0_BYTES,
            RegionIndex::CONFIG => CONFIG_BYTES as u64,
            _ => continue,
        };
        let is_inside = to.offset.checked_add(u64::from(to.bytes)).is_some_and(|end| end <= size);
        if input.byte() & 1 == 0 {
            check_read(&host.function, &to, is_inside);
            continue;
        }
        let data: Vec<u8> = (0..to.bytes).map(|_| input.byte()).collect();
        let is_words =
            to.region == RegionIndex::CONFIG || (to.offset | u64::from(to.bytes)).is_multiple_of(4);
        assert_eq!(host.function.write(&to, &data).is_ok(), is_inside && is_words, "{to:?}");
        host.function.front().run();
    }
    host.check_next();
}

fn check_read(function: &Function, from: &Access, is_inside: bool) {
    let mut whole = Vec::new();
    assert_eq!(function.read(from, &mut whole).is_ok(), is_inside, "{from:?}");
    // A shutdown that another thread ends changes CSTS at any time.
    let status = u64::from(Register::CSTS.0);
    let has_status = from.offset < status + 4 && from.offset + u64::from(from.bytes) > status;
    if !is_inside || from.region == RegionIndex::BAR0 && has_status {
        return;
    }
    let mut byte = Vec::new();
    for (offset, expected) in (from.offset..).zip(&whole) {
        function.read(&Access { offset, bytes: 1, ..*from }, &mut byte).expect("it is inside");
        assert_eq!(byte.first(), Some(expected), "{offset:#x} of {from:?}");
    }
}
