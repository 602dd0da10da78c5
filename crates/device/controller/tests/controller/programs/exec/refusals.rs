//! What Exec refuses, and with which status.

use byway_spec::base::log::ErrorEntry;

use super::*;

/// The status of an Exec with this request, whose program could run.
fn status_of(host: &mut TestHost, request: &[u8]) -> Status {
    let command = exec_command(OPERATION, request, 8);
    exec_in(host, command, request, 4096.max(request.len())).0.status().code()
}

#[test]
fn nothing_runs_over_values_of_a_namespace_without_a_list_or_with_an_empty_one() {
    let mut elsewhere = with_options(
        SubsystemOptions::default()
            .exec_allowed(BTreeMap::from([(9, AllowList::from_iter([allowed(&COPY)]))])),
    );
    for host in [&mut elsewhere, &mut allowing([])] {
        install(host, FREE, &COPY);
        assert_eq!(exec(host, (OPERATION, b"key", b""), 8), Err(Status::INVALID_OPCODE));
    }
}

#[test]
fn program_that_is_not_in_the_list_is_denied_at_the_byte_of_its_operation() {
    let mut host = allowing([allowed(&COPY)]);
    let mut other = COPY;
    other[3] = [0xb7, 0, 0, 0, 0, 0, 0, 0]; // r0 = 0
    install(&mut host, FREE, &other);
    assert_eq!(exec(&mut host, (OPERATION, b"key", b""), 8), Err(Status::OPERATION_DENIED));
    let log = host.log(LogPage::ERROR, Csi::NVM, 64).unwrap();
    let entry = ErrorEntry::read_from_bytes(&log).unwrap();
    assert_eq!(entry.parameter, 52, "the byte of the operation");
}

#[test]
fn operation_of_no_activated_program_is_unknown() {
    let mut host = allowing([allowed(&COPY)]);
    assert_eq!(exec(&mut host, (OPERATION, b"key", b""), 8), Err(Status::NO_PROGRAM));
    assert!(load(&mut host, FREE, 96, 0, COPY.as_flattened()).is_success());
    assert_eq!(exec(&mut host, (OPERATION, b"key", b""), 8), Err(Status::NO_PROGRAM), "not activated");
    assert!(activate(&mut host, FREE).is_success());
    assert_eq!(exec(&mut host, (OPERATION, b"key", b""), 8), Ok((b"value".to_vec(), 5)));
    assert!(delete(&mut host, PROGRAMS).is_success());
    assert_eq!(exec(&mut host, (OPERATION, b"key", b""), 8), Err(Status::NO_PROGRAM));
}

#[test]
fn missing_key_and_keys_of_a_wrong_length_are_refused() {
    let mut host = running(&COPY);
    assert_eq!(status_of(&mut host, &request(b"key", b"")), Status::SUCCESS);
    assert_eq!(status_of(&mut host, &request(b"kex", b"")), Status::KEY_DOES_NOT_EXIST);
    assert_eq!(status_of(&mut host, &request(b"", b"input")), Status::INVALID_KEY_SIZE);
    assert_eq!(status_of(&mut host, &request(&[7; 17], b"")), Status::INVALID_FIELD);
    assert_eq!(status_of(&mut host, &request(&[7; 300], b"")), Status::INVALID_FIELD);
}

#[test]
fn request_that_ends_before_its_key_is_refused() {
    let mut host = running(&COPY);
    for request in [&b""[..], b"\x03", b"\x03\0", b"\x03\0ke", b"\xff\xffkey"] {
        assert_eq!(status_of(&mut host, request), Status::INVALID_FIELD, "{request:?}");
    }
}

#[test]
fn lengths_over_the_announced_limit_are_refused() {
    let mut host = running(&COPY);
    let limit = vendor_area(&mut host).exec_max_bytes;
    let longest = request(b"key", &vec![1; limit as usize - 5]);
    assert_eq!(status_of(&mut host, &longest), Status::SUCCESS);
    for (request_bytes, output_max_bytes) in [(limit + 1, 8), (u32::MAX, 8), (5, limit + 1), (5, u32::MAX)] {
        let mut command = exec_command(OPERATION, b"\x03\0key", output_max_bytes);
        command.cdw10 = request_bytes;
        let done = exec_in(&mut host, command, b"\x03\0key", 4096).0;
        assert!(done.status().is(Status::INVALID_FIELD), "{request_bytes} {output_max_bytes}");
    }
}

#[test]
fn exec_of_other_namespaces_and_by_unmapped_memory_is_refused() {
    let mut host = running(&COPY);
    for (nsid, status) in [
        (BLOCKS, Status::INVALID_OPCODE),
        (MEMORY, Status::INVALID_OPCODE),
        (PROGRAMS, Status::INVALID_OPCODE),
        (9, Status::INVALID_NAMESPACE),
    ] {
        let mut command = exec_command(OPERATION, b"\x03\0key", 8);
        command.nsid = nsid;
        assert_eq!(exec_in(&mut host, command, b"\x03\0key", 4096).0.status().code(), status, "{nsid}");
    }
    let mut nowhere = exec_command(OPERATION, b"\x03\0key", 8);
    nowhere.set_prps(0x1000, 0);
    assert!(host.execute(1, nowhere).status().is(Status::DATA_TRANSFER_ERROR));
}
