//! Keys and values over the network.

use byway_spec::Status;
use byway_spec::kv::KvOpcode;

use crate::host::{By, Proposal, keyed, pattern};
use crate::served::Served;

#[test]
fn values_of_any_size_are_stored_and_retrieved() {
    let served = Served::new();
    for proposal in [Proposal::default(), Proposal::DIGESTS] {
        let (_admin, mut io) = served.host(proposal);
        for bytes in [1, 64, 4095, 4096, 16384, 16385, 100_000, 1 << 20, 4 << 20] {
            let value = pattern(bytes as u64, bytes);
            let key = format!("key {bytes}");
            let by = if bytes <= 16384 { By::Capsule } else { By::R2t };
            let stored = io.write(keyed(KvOpcode::STORE, key.as_bytes(), bytes), by, &value);
            assert!(stored.status().is_success(), "{bytes}: {:?}", stored.status());
            let (retrieved, got) = io.read(keyed(KvOpcode::RETRIEVE, key.as_bytes(), bytes), bytes);
            assert!(retrieved.status().is_success());
            assert_eq!(retrieved.dw0, bytes as u32);
            assert!(got == value, "{bytes}");
        }
    }
}

#[test]
fn a_value_shorter_than_the_buffer_has_zeroes_behind_it() {
    let served = Served::new();
    let (_admin, mut io) = served.host(Proposal::default());
    let noise = pattern(1, 8192);
    assert!(io.write(keyed(KvOpcode::STORE, b"noise", 8192), By::Capsule, &noise).status().is_success());
    assert!(io.write(keyed(KvOpcode::STORE, b"short", 5), By::Capsule, b"value").status().is_success());
    assert_eq!(io.read(keyed(KvOpcode::RETRIEVE, b"noise", 8192), 8192).1, noise);
    let (retrieved, got) = io.read(keyed(KvOpcode::RETRIEVE, b"short", 8192), 8192);
    assert_eq!(retrieved.dw0, 5);
    assert_eq!(got.len(), 8192, "hosts take less than they asked for as a failure");
    assert_eq!(&got[..5], b"value");
    assert!(got[5..].iter().all(|byte| *byte == 0));
}

#[test]
fn keys_are_listed_deleted_and_missed() {
    let served = Served::new();
    let (_admin, mut io) = served.host(Proposal::default());
    for key in [b"b", b"a", b"c"] {
        assert!(io.write(keyed(KvOpcode::STORE, key, 1), By::Capsule, b"v").status().is_success());
    }
    let (listed, list) = io.read(keyed(KvOpcode::LIST, b"", 4096), 4096);
    assert!(listed.status().is_success());
    assert_eq!(list[..4], 3u32.to_le_bytes());
    assert_eq!([list[6], list[10], list[14]], *b"abc");
    assert!(io.read(keyed(KvOpcode::DELETE, b"b", 0), 0).0.status().is_success());
    assert!(io.read(keyed(KvOpcode::EXIST, b"a", 0), 0).0.status().is_success());
    for opcode in [KvOpcode::EXIST, KvOpcode::RETRIEVE] {
        let missing = io.read(keyed(opcode, b"b", 0), if opcode == KvOpcode::EXIST { 0 } else { 64 }).0;
        assert!(missing.status().is(Status::KEY_DOES_NOT_EXIST) || !missing.status().is_success());
    }
    let missing = io.read(keyed(KvOpcode::RETRIEVE, b"b", 64), 64).0;
    assert!(missing.status().is(Status::KEY_DOES_NOT_EXIST));
}
