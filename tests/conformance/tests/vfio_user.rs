//! The suite over a device that a server serves at a socket, by this library's own driver.

#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use byway::{CreateOptions, ErrorKind, Method, NewNamespace};
use byway_conformance::conformance;
use byway_conformance::scratch::Scratch;
use byway_conformance::served::{Served, Serving};
use byway_core::Backend;

/// A socket beside the scratch file.
fn socket(scratch: &Scratch) -> PathBuf {
    scratch.path.with_file_name("socket")
}

/// A device with a namespace of blocks alone, in an image in place of the scratch file.
fn opened(scratch: &Scratch) -> impl Backend + use<> {
    std::fs::remove_file(&scratch.path).unwrap();
    let namespaces = vec![NewNamespace::NVM];
    let create = CreateOptions { namespaces, ..CreateOptions::new(2 * Scratch::BYTES) };
    byway::create(&scratch.path, &create).unwrap();
    Served::open(&format!("embedded:{}", scratch.path.display()), &socket(scratch))
}

conformance!(vfio_user, opened);

#[test]
fn every_transfer_method_carries_values_to_a_device_in_another_process() {
    let scratch = Scratch::new();
    let path = socket(&scratch);
    let _serving = Serving::start("ram:128M", &path);
    for method in Method::ALL {
        let uri = format!("vfio-user:{}?transfer={method}", path.display());
        let device = byway::open(&uri).unwrap();
        let mut kv = match device.kv(None) {
            Ok(kv) => kv,
            // Where the server offers no memory of the device's that can be stored into.
            Err(error) => {
                assert!(
                    method.needs_device_memory() && error.kind() == ErrorKind::Unsupported,
                    "{method}: {error}"
                );
                continue;
            }
        };
        for len in [0_u32, 1, 35, 36, 64, 100, 4095, 4096, 4097, 8000] {
            let value: Vec<u8> = (0..len).map(|at| (at * 7 + len) as u8).collect();
            let key = len.to_be_bytes();
            kv.put(&key, &value).unwrap_or_else(|error| panic!("{method} {len}: {error}"));
            assert_eq!(kv.get(&key).unwrap().as_ref(), Some(&value), "{method} {len}");
        }
        assert_eq!(device.chosen().backend, "vfio-user");
    }
}

#[test]
fn what_one_client_stored_the_next_one_finds() {
    let scratch = Scratch::new();
    let path = socket(&scratch);
    let _serving = Serving::start("ram:64M", &path);
    let open = || byway::open(&format!("vfio-user:{}", path.display())).unwrap();
    for round in 0_u32..4 {
        let device = open();
        let mut kv = device.kv(None).unwrap();
        for before in 0..round {
            assert_eq!(kv.get(&before.to_be_bytes()).unwrap().unwrap(), b"value");
        }
        kv.put(&round.to_be_bytes(), b"value").unwrap();
    }
}

#[test]
fn a_server_that_ends_leaves_errors_and_no_hang() {
    let scratch = Scratch::new();
    let path = socket(&scratch);
    let serving = Serving::start("ram:64M", &path);
    let device = byway::open(&format!("vfio-user:{}", path.display())).unwrap();
    let mut kv = device.kv(None).unwrap();
    kv.put(b"key", b"value").unwrap();
    drop(serving);
    let lost = kv.put(b"key", b"value").unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::DeviceLost, "{lost}");
    assert_eq!(device.namespaces().unwrap_err().kind(), ErrorKind::DeviceLost);
    let again = byway::open(&format!("vfio-user:{}", path.display())).unwrap_err();
    assert!(again.to_string().contains("is the server started?"), "{again}");
}
