//! Descriptors of commands without data, which hosts fill as they like, and those of commands with data, which they may not.

use super::{
    ABORT_REQUESTED, Answer, Descriptor, Entry, INVALID_FIELD, INVALID_NAMESPACE, INVALID_OPCODE, RawHost,
    SGL_LENGTH_INVALID, SGL_TYPE_INVALID, SUCCESS,
};
use crate::served::{BLOCKS, KEYS, Served};

const ALL_SETS: u32 = 6;
const EVERY_NAMESPACE: u32 = u32::MAX;

/// What hosts put into the descriptor and the flags of a command without data.
const UNUSED: [(Descriptor, u8); 8] = [
    (Descriptor::ZERO, 0x40),
    (Descriptor::ZERO, 0x00),
    (Descriptor([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x5a]), 0x40),
    (Descriptor::GARBAGE, 0x40),
    (Descriptor::GARBAGE, 0x00),
    (Descriptor([0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0x40]), 0x80),
    // A transport data block of 4096 bytes, and data in the capsule that is not there.
    (Descriptor([0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0x5a]), 0x40),
    (Descriptor([0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0x01]), 0x40),
];

fn run(host: &mut RawHost, entry: Entry, (descriptor, flags): (Descriptor, u8)) -> Answer {
    host.run(entry.described(descriptor).flags(flags), &[])
}

fn check(host: &mut RawHost, cases: &[(&str, Entry, u16)]) {
    for unused in UNUSED {
        for (name, entry, status) in cases {
            let answer = run(host, *entry, unused);
            assert_eq!((answer.status, answer.data), (*status, Vec::new()), "{name} with {unused:x?}");
        }
    }
}

#[test]
fn fabrics_commands_without_data_take_any_descriptor() {
    let served = Served::new();
    let (mut admin, controller) = RawHost::admin(&served, ALL_SETS);
    check(
        &mut admin,
        &[
            ("Property Get CAP", Entry::fabrics(4).cdw(10, 1), SUCCESS),
            ("Property Get VS", Entry::fabrics(4).cdw(11, 8), SUCCESS),
            ("Property Set CC", Entry::fabrics(0).cdw(11, 0x14).cdw(12, 0x0046_0061), SUCCESS),
            ("Disconnect of an admin queue", Entry::fabrics(8), INVALID_FIELD),
        ],
    );
    for unused in UNUSED {
        let mut io = RawHost::io(&served, 1, controller);
        assert_eq!(run(&mut io, Entry::fabrics(8), unused).status, SUCCESS, "{unused:x?}");
    }
}

#[test]
fn admin_commands_without_data_take_any_descriptor() {
    let served = Served::new();
    let (mut admin, _) = RawHost::admin(&served, ALL_SETS);
    let feature = |opcode, fid| Entry::new(opcode, 0).cdw(10, fid);
    check(
        &mut admin,
        &[
            ("Keep Alive", Entry::new(0x18, 0), SUCCESS),
            ("Keep Alive of every namespace", Entry::new(0x18, EVERY_NAMESPACE), SUCCESS),
            ("Abort", Entry::new(0x08, 0).cdw(10, 77 << 16), SUCCESS),
            ("Get Number of Queues", feature(0x0a, 7), SUCCESS),
            ("Set Number of Queues", feature(0x09, 7).cdw(11, 3 << 16 | 3), SUCCESS),
            ("Get Asynchronous Event Configuration", feature(0x0a, 0x0b), SUCCESS),
            ("Set Asynchronous Event Configuration", feature(0x09, 0x0b).cdw(11, 0x100), SUCCESS),
            ("Set Keep Alive Timer", feature(0x09, 0x0f).cdw(11, 60_000), SUCCESS),
            ("Get Keep Alive Timer", feature(0x0a, 0x0f), SUCCESS),
            ("Get Volatile Write Cache", feature(0x0a, 6), SUCCESS),
            ("Get Timestamp, supported capabilities", feature(0x0a, 3 << 8 | 0x0e), SUCCESS),
            ("Get a feature that is none", feature(0x0a, 0xd0), INVALID_FIELD),
            ("Set a feature that is none", feature(0x09, 0xd0), INVALID_FIELD),
            ("Format NVM", Entry::new(0x80, BLOCKS), SUCCESS),
            ("Sanitize, exit failure mode", Entry::new(0x84, 0).cdw(10, 1), SUCCESS),
            ("delete a namespace that is none", Entry::new(0x0d, 9).cdw(10, 1), INVALID_NAMESPACE),
            ("a vendor's command", Entry::new(0xc0, 0), INVALID_OPCODE),
        ],
    );
    // What a command that the target does not know moves is what its opcode says.
    let create_queue = Entry::new(0x05, 0);
    assert_eq!(admin.run(create_queue, &[]).status, INVALID_OPCODE);
    assert_eq!(admin.run_asked(create_queue, &[0; 4096]).status, INVALID_OPCODE);
}

#[test]
fn event_requests_take_any_descriptor() {
    let served = Served::new();
    let (mut admin, _) = RawHost::admin(&served, ALL_SETS);
    for (descriptor, flags) in UNUSED {
        let cid = admin.send(Entry::new(0x0c, 0).described(descriptor).flags(flags), &[]);
        let abort = admin.send(Entry::new(0x08, 0).cdw(10, u32::from(cid) << 16), &[]);
        let mut answers = [admin.answer(&[]), admin.answer(&[])].map(|answer| (answer.cid, answer.status));
        answers.sort_unstable();
        assert_eq!(answers, [(cid, ABORT_REQUESTED), (abort, SUCCESS)], "{descriptor:x?}");
    }
}

#[test]
fn io_commands_without_data_take_any_descriptor() {
    let served = Served::new();
    let (_admin, controller) = RawHost::admin(&served, ALL_SETS);
    let mut io = RawHost::io(&served, 1, controller);
    let key = |opcode| Entry::new(opcode, KEYS).key(b"key");
    let stored = io.run(key(0x01).cdw(10, 3).described(Descriptor::in_capsule(3)), b"abc");
    assert_eq!(stored.status, SUCCESS);
    check(
        &mut io,
        &[
            ("Flush", Entry::new(0x00, BLOCKS), SUCCESS),
            ("Flush of every namespace", Entry::new(0x00, EVERY_NAMESPACE), SUCCESS),
            ("Flush of keys", Entry::new(0x00, KEYS), SUCCESS),
            ("Write Zeroes", Entry::new(0x08, BLOCKS).cdw(12, 7), SUCCESS),
            ("Verify", Entry::new(0x0c, BLOCKS).cdw(12, 7), SUCCESS),
            ("Exist", key(0x14), SUCCESS),
            ("Delete of a key that is none", Entry::new(0x10, KEYS).key(b"none"), SUCCESS),
            ("a vendor's command", Entry::new(0x80, KEYS), INVALID_OPCODE),
        ],
    );
    for unused in UNUSED {
        let emptied = run(&mut io, key(0x01), unused);
        assert_eq!(emptied.status, SUCCESS, "Store of a value without bytes, with {unused:x?}");
        let looked = run(&mut io, key(0x02), unused);
        assert_eq!(
            (looked.status, looked.data),
            (SUCCESS, Vec::new()),
            "Retrieve of 0 bytes, with {unused:x?}"
        );
        let listed = run(&mut io, key(0x06), unused);
        assert_eq!((listed.status, listed.data), (INVALID_FIELD, Vec::new()), "List of 0 bytes");
    }
    let read = io.read(key(0x02).cdw(10, 64), 64);
    assert_eq!((read.status, read.result), (SUCCESS, 0));
    assert_eq!(run(&mut io, key(0x10), (Descriptor::ZERO, 0)).status, SUCCESS);
}

#[test]
fn discovery_commands_without_data_take_any_descriptor() {
    let served = Served::new();
    let mut host = RawHost::open(served.discovery());
    let mut data = super::Connecting::admin().data();
    data[256..512].fill(0);
    let discovery = b"nqn.2014-08.org.nvmexpress.discovery";
    data[256..256 + discovery.len()].copy_from_slice(discovery);
    let entry = Entry::fabrics(1).cdw(11, 31).described(Descriptor::in_capsule(1024));
    assert_eq!(host.run(entry, &data).status, SUCCESS);
    host.set_cc(0x0046_0001);
    check(
        &mut host,
        &[
            ("Property Get", Entry::fabrics(4).cdw(11, 8), SUCCESS),
            ("Keep Alive", Entry::new(0x18, 0), SUCCESS),
            ("Get Asynchronous Event Configuration", Entry::new(0x0a, 0).cdw(10, 0x0b), SUCCESS),
            ("Set Asynchronous Event Configuration", Entry::new(0x09, 0).cdw(10, 0x0b), SUCCESS),
        ],
    );
    let unread = host.run(Entry::new(0x02, 0).cdw(10, 0x70), &[]);
    assert_eq!(unread.status, SGL_LENGTH_INVALID, "Get Log Page without a buffer");
}

#[test]
fn commands_with_data_need_a_descriptor_of_it() {
    let served = Served::new();
    let (mut admin, controller) = RawHost::admin(&served, ALL_SETS);
    let mut io = RawHost::io(&served, 1, controller);
    let kinds = [0x00, 0x0a, 0x10, 0x20, 0x30, 0x40, 0x4f, 0x5b, 0xff];
    for descriptor in kinds.map(|kind| Descriptor::new(kind, 4096)) {
        let identify = Entry::new(0x06, 0).cdw(10, 1).described(descriptor);
        assert_eq!(admin.run(identify, &[]).status, SGL_TYPE_INVALID, "{descriptor:x?}");
        for opcode in [0x01, 0x02, 0x05] {
            let moved = Entry::new(opcode, BLOCKS).cdw(12, 7).described(descriptor);
            assert_eq!(io.run(moved, &[]).status, SGL_TYPE_INVALID, "{opcode} {descriptor:x?}");
        }
        let stored = Entry::new(0x01, KEYS).key(b"key").cdw(10, 4096).described(descriptor);
        assert_eq!(io.run(stored, &[]).status, SGL_TYPE_INVALID, "{descriptor:x?}");
    }
    for flags in [0x00, 0x80, 0xc0] {
        let read = Entry::new(0x02, BLOCKS).cdw(12, 7).described(Descriptor::transport(4096)).flags(flags);
        assert_eq!(io.run(read, &[]).status, INVALID_FIELD, "{flags:#x}");
        let write = Entry::new(0x01, BLOCKS).described(Descriptor::in_capsule(512)).flags(flags);
        assert_eq!(io.run(write, &[1; 512]).status, INVALID_FIELD, "{flags:#x}");
    }
    let short = Entry::new(0x02, BLOCKS).cdw(12, 7).described(Descriptor::transport(512));
    assert_eq!(io.run(short, &[]).status, SGL_LENGTH_INVALID);
}

#[test]
fn data_in_the_capsule_of_a_command_that_moves_none_is_refused() {
    let served = Served::new();
    let (mut admin, controller) = RawHost::admin(&served, ALL_SETS);
    let mut io = RawHost::io(&served, 1, controller);
    let feature = |opcode, fid| Entry::new(opcode, 0).cdw(10, fid);
    for flags in [0x00, 0x40] {
        let described = |entry: Entry| entry.described(Descriptor::in_capsule(512)).flags(flags);
        for entry in [Entry::new(0x18, 0), feature(0x0a, 7), feature(0x09, 0x0b), Entry::fabrics(4)] {
            assert_eq!(admin.run(described(entry), &[1; 512]).status, SGL_LENGTH_INVALID, "{entry:x?}");
        }
        let keyed = |opcode| Entry::new(opcode, KEYS).key(b"key");
        for entry in [Entry::new(0x00, BLOCKS), keyed(0x01), keyed(0x02), keyed(0x10), keyed(0x14)] {
            assert_eq!(io.run(described(entry), &[1; 512]).status, SGL_LENGTH_INVALID, "{entry:x?}");
        }
    }
}

#[test]
fn data_goes_in_capsules_and_when_it_is_asked_for() {
    let served = Served::new();
    let (_admin, controller) = RawHost::admin(&served, ALL_SETS);
    let mut io = RawHost::io(&served, 1, controller);
    let data: Vec<u8> = (0..65_536_u32).map(|n| (n * 7 + n / 256) as u8).collect();
    let in_capsule = Entry::new(0x01, BLOCKS).cdw(12, 7).described(Descriptor::in_capsule(4096));
    assert_eq!(io.run(in_capsule, &data[..4096]).status, SUCCESS);
    assert_eq!(io.run_asked(Entry::new(0x01, BLOCKS).cdw(10, 8).cdw(12, 127), &data).status, SUCCESS);
    let read = io.read(Entry::new(0x02, BLOCKS).cdw(12, 7), 4096);
    assert_eq!((read.status, &read.data[..]), (SUCCESS, &data[..4096]));
    let read = io.read(Entry::new(0x02, BLOCKS).cdw(10, 8).cdw(12, 127), 65_536);
    assert_eq!(read.status, SUCCESS);
    assert!(read.data == data);
}
