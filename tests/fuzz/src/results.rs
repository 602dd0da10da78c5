//! Results of Scan and Retrieve Many as a host reads them, and the requests as a device does.

use byway_core::results::ResultReader;
use byway_spec::vendor::{FoundValue, KeyRange, ScanHeader, ScanPair, read_many_keys, write_many_keys};
use byway_spec::{Command, Key};

use crate::input::Input;

/// The first byte says whether the rest is a result of Scan, one of Retrieve Many, a request of keys, or a command with a range.
///
/// What a result hands out lies in it, in order and without overlap; what a request and a command say encodes to the same bytes.
pub fn results(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    match input.byte() % 4 {
        0 => scan(input.bytes(usize::MAX)),
        1 => retrieve_many(input.bytes(usize::MAX)),
        2 => request(input.byte().into(), input.bytes(usize::MAX)),
        _ => range(&mut input),
    }
}

fn scan(result: &[u8]) {
    let Ok(mut reader) = ResultReader::new(result) else { return };
    assert!(reader.bytes() <= result.len());
    let mut end = size_of::<ScanHeader>();
    let mut left = reader.left();
    while let Ok(Some(pair)) = reader.next_pair(result) {
        let key_at = end + size_of::<ScanPair>();
        assert_eq!(&result[key_at..key_at + pair.key_len], pair.key().as_bytes());
        assert_eq!((pair.key_at, pair.value_at), (key_at, key_at + pair.key_len.next_multiple_of(4)));
        assert!(result.get(pair.value_at..pair.value_at + pair.value_bytes).is_some());
        assert!(pair.value_bytes <= pair.value_len && pair.value_at + pair.value_bytes <= reader.bytes());
        end = (end + ScanPair::bytes(pair.key_len, pair.value_bytes)).min(reader.bytes());
        assert!(reader.left() == left - 1, "each pair is counted once");
        left -= 1;
    }
}

fn retrieve_many(result: &[u8]) {
    let Ok(mut reader) = ResultReader::new(result) else { return };
    let (mut at, mut left) = (size_of::<ScanHeader>(), reader.left());
    while let Ok(Some(entry)) = reader.next_found(result) {
        at += size_of::<FoundValue>();
        assert_eq!(&result[at..at + entry.value.len()], entry.value);
        assert!(entry.value.len() <= entry.value_len && at + entry.value.len() <= reader.bytes());
        at = (at + entry.value.len().next_multiple_of(4)).min(reader.bytes());
        assert!(reader.left() == left - 1, "each value is counted once");
        left -= 1;
    }
}

fn request(count: usize, request: &[u8]) {
    let mut keys: Vec<Key> = Vec::new();
    if read_many_keys(request, count, |key| keys.push(key)).is_ok() {
        let mut written = vec![0; request.len()];
        assert_eq!(write_many_keys(&keys, &mut written), Some(request.len()));
        assert_eq!((written.as_slice(), keys.len()), (request, count));
    }
    assert!(keys.len() <= count);
}

fn range(input: &mut Input<'_>) {
    let mut command = Command::new(0xb2, 0, 1);
    command.as_mut_bytes().copy_from_slice(&input.array::<64>());
    let Ok(range) = KeyRange::read_from(&command) else { return };
    let mut written = Command::new(0xb2, 0, 1);
    range.write_to(&mut written);
    assert_eq!(KeyRange::read_from(&written), Ok(range));
    if let Some(start) = range.start {
        let behind = range.behind(start);
        assert!(behind.exclusive && behind.bound == range.bound);
    }
}
