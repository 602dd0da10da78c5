//! The discovery log: its bytes, parts of it, and a reading that sees one log and not two halves.
#![allow(clippy::unwrap_used)]

use byway_fabrics::*;
use byway_spec::fabrics::{AddressFamily, EntryFlags, SecurityType, SubsystemType, TransportType};
use proptest::prelude::*;

fn entry(name: &str) -> Entry {
    Entry::tcp(Nqn::new(name).unwrap(), "192.0.2.1".parse().unwrap(), 4420)
}

fn log_of(names: usize) -> DiscoveryLog {
    let mut log = DiscoveryLog::default();
    log.set(1, (0..names).map(|i| entry(&format!("nqn.2026-11.example:{i}"))).collect());
    log
}

#[test]
fn an_entry_has_its_fields_where_libnvme_reads_them() {
    let entry = Entry {
        port_id: 7,
        flags: EntryFlags::new().with_persistent(true),
        secure_channel: SecureChannel::Required,
        tcp_security: SecurityType::TLS_1_3,
        ..entry("nqn.2026-11.example:disk")
    };
    let bytes = entry.encode();
    assert_eq!(bytes[..12], [3, 1, 2, 5, 7, 0, 0xff, 0xff, 32, 0, 2, 0]);
    assert_eq!(bytes[32..37], *b"4420\0");
    assert_eq!(bytes[256..281], *b"nqn.2026-11.example:disk\0");
    assert_eq!(bytes[512..522], *b"192.0.2.1\0");
    assert_eq!(bytes[768..770], [2, 0]);
    assert_eq!(Entry::parse(&bytes), Ok(entry));
}

#[test]
fn ipv6_address_is_recognized() {
    let entry = Entry::tcp(Nqn::discovery(), "2001:db8::1".parse().unwrap(), 8009);
    assert_eq!((entry.family, entry.address.as_str()), (AddressFamily::IPV6, "2001:db8::1"));
}

#[test]
fn texts_are_read_whether_spaces_or_zeroes_follow() {
    let mut bytes = entry("nqn.2026-11.example:disk").encode();
    bytes[36..64].fill(b' ');
    bytes[521..768].fill(b' ');
    assert_eq!(Entry::parse(&bytes), Ok(entry("nqn.2026-11.example:disk")));
}

#[test]
fn an_entry_with_a_text_that_is_none_is_refused() {
    let good = entry("nqn.2026-11.example:disk").encode();
    for (at, why) in [(32, EntryError::NotAscii("port")), (512, EntryError::NotAscii("address"))] {
        for byte in [0x1b, 0x7f, 0xff] {
            let mut bytes = good;
            bytes[at] = byte;
            assert_eq!(Entry::parse(&bytes), Err(why));
        }
    }
    let mut bytes = good;
    bytes[256] = 0;
    assert_eq!(Entry::parse(&bytes), Err(EntryError::Name(NqnError::Empty)));
}

#[test]
fn header_holds_generation_and_number_of_entries() {
    let mut log = log_of(3);
    assert_eq!(log.bytes(), 4096);
    assert_eq!(log.read(0, 20), [1, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert!(!log.set(1, log.entries().to_vec()), "no change, no event");
    assert_eq!(log.generation(), 1);
    assert!(!log.set(2, log.entries().to_vec()), "another host sees a change, this one does not");
    assert!(log.set(3, Vec::new()));
    assert_eq!(log.read(0, 9), [3, 0, 0, 0, 0, 0, 0, 0, 0]);
}

proptest! {
    #[test]
    fn any_part_of_a_log_is_that_part_of_the_whole_and_zeroes_behind_it(names in 0..4_usize, offset in 0..6000_u64, bytes in 0..6000_usize) {
        let log = log_of(names);
        let mut whole = log.read(0, log.bytes() as usize);
        prop_assert_eq!(whole.len(), 1024 * (names + 1));
        whole.resize(12_000, 0);
        prop_assert_eq!(&log.read(offset, bytes)[..], &whole[offset as usize..offset as usize + bytes]);
    }

    #[test]
    fn a_log_is_read_in_parts_of_any_size(names in 0..20_usize, part_bytes: u16) {
        let log = log_of(names);
        prop_assert_eq!(read(LogReading::new(u32::from(part_bytes)), |_| log.clone()), Ok(log.entries().to_vec()));
    }

    #[test]
    fn no_bytes_make_a_reading_panic(parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..3000), 0..6)) {
        let mut reading = LogReading::new(2048);
        for part in parts {
            let _ = reading.step();
            let _ = reading.take(&part);
        }
    }
}

#[test]
fn a_part_that_begins_beyond_all_there_is_is_zeroes() {
    assert_eq!(log_of(2).read(u64::MAX, 8), [0; 8]);
}

/// Reads `log(n)` at the n-th step.
fn read(mut reading: LogReading, log: impl Fn(u32) -> DiscoveryLog) -> Result<Vec<Entry>, LogError> {
    for n in 0.. {
        match reading.step() {
            Step::Read { offset, bytes } => {
                assert!(offset % 4 == 0 && bytes % 4 == 0 && bytes > 0);
                reading.take(&log(n).read(offset, bytes as usize))?;
            }
            Step::Done(entries) => return Ok(entries),
        }
    }
    unreachable!()
}

#[test]
fn a_log_that_changes_while_it_is_read_is_read_again() {
    let (old, mut new) = (log_of(4), log_of(4));
    new.set(2, log_of(2).entries().to_vec());
    let entries = read(LogReading::new(2048), |n| if n < 2 { old.clone() } else { new.clone() });
    assert_eq!(entries, Ok(new.entries().to_vec()));
}

#[test]
fn a_log_that_never_stops_changing_is_given_up() {
    let result = read(LogReading::new(1 << 20), |n| {
        let mut log = log_of(1);
        log.set(n as u64, log_of(n as usize % 2 + 1).entries().to_vec());
        log
    });
    assert_eq!(result, Err(LogError::Unsteady));
}

#[test]
fn a_log_that_lies_about_itself_is_refused() {
    let take = |header: &[u8]| LogReading::new(4096).take(header);
    assert_eq!(take(&[0; 1023]), Err(LogError::Short { bytes: 1023, expected: 1024 }));
    let mut header = [0; 1024];
    header[16] = 1;
    assert_eq!(take(&header), Err(LogError::Format(1)));
    header[8..18].copy_from_slice(&[1, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(take(&header), Err(LogError::TooLong(65_537)));
    let mut reading = LogReading::new(4096);
    reading.take(&log_of(2).read(0, 1024)).unwrap();
    assert_eq!(reading.take(&[0; 2047]), Err(LogError::Short { bytes: 2047, expected: 2048 }));
}

/// A name of a later revision, or one that is damaged, does not hide the others.
#[test]
fn unreadable_entry_is_skipped_and_reported() {
    let mut reading = LogReading::new(4096);
    reading.take(&log_of(2).read(0, 1024)).unwrap();
    let mut entries = log_of(2).read(1024, 2048);
    entries[256] = 0xff;
    reading.take(&entries).unwrap();
    reading.take(&log_of(2).read(0, 1024)).unwrap();
    assert_eq!(reading.step(), Step::Done(log_of(2).entries()[1..].to_vec()));
    assert_eq!(reading.skipped(), [EntryError::Name(NqnError::NotUtf8)]);
}

#[test]
fn unknown_discovery_values_round_trip() {
    let entry = Entry {
        transport: TransportType(77),
        family: AddressFamily(66),
        kind: SubsystemType(55),
        cntlid: 5,
        tcp_security: SecurityType::NONE,
        ..entry("nqn.2026-11.example:disk")
    };
    assert_eq!(Entry::parse(&entry.encode()), Ok(entry));
}
