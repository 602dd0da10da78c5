//! Devices in this process, over an image.

use std::path::Path;

use byway::{Backend, CreateOptions, ErrorKind, NewNamespace, create, open};

use crate::child::{fork, is_refused};

fn image(folder: &Path) -> String {
    let path = folder.join("disk.img");
    let namespaces = vec![NewNamespace::KV, NewNamespace::NVM];
    create(&path, &CreateOptions::new(64 << 20).namespaces(namespaces)).unwrap();
    format!("embedded:{}", path.display())
}

fn rounds() -> u32 {
    std::env::var("BYWAY_TEST_ROUNDS").map_or(3, |rounds| rounds.parse().unwrap())
}

/// A child drops all it inherited and ends; values that the parent stores before, meanwhile and afterwards are read after reopening.
fn round(options: &str, number: u32) {
    let folder = tempfile::tempdir().unwrap();
    let uri = image(folder.path());
    let (mut device, key) = (Some(open(&format!("{uri}?{options}")).unwrap()), |n: u32| n.to_le_bytes());
    let mut kv = Some(device.as_ref().unwrap().kv(None).unwrap());
    let mut buffer = Some(device.as_ref().unwrap().buffer(8192).unwrap());
    let put = |kv: &mut Option<byway::Kv>, n: u32| kv.as_mut().unwrap().put(&key(n), &[n as u8; 40]).unwrap();
    (0..10).for_each(|n| put(&mut kv, n));
    let child = fork(|| {
        let refused = is_refused(kv.as_mut().unwrap().put(b"child", b"child"));
        drop((kv.take(), buffer.take()));
        let closes = number.is_multiple_of(2);
        let device = device.take().unwrap();
        let closed = if closes { is_refused(device.close()) } else { true };
        refused && closed
    });
    (10..20).for_each(|n| put(&mut kv, n));
    assert!(child.was_right());
    // The lock is the parent's still: no other process writes.
    assert_eq!(open(&uri).unwrap_err().kind(), ErrorKind::Busy);
    (20..30).for_each(|n| put(&mut kv, n));
    drop((kv, buffer));
    device.take().unwrap().close().unwrap();
    let path = folder.path().join("disk.img");
    assert!(byway::check(&path, &mut |_, _, _| {}).unwrap().is_clean());
    let mut kv = open(&uri).unwrap().kv(None).unwrap();
    for n in 0..30 {
        assert_eq!(kv.get(&key(n)).unwrap().unwrap(), [n as u8; 40], "round {number}, key {n}");
    }
    assert!(!kv.exists(b"child").unwrap());
}

#[test]
fn image_after_a_forked_child_ended_keeps_every_put_of_the_parent() {
    for number in 0..rounds() {
        for options in ["flush=process", "flush=media", "run=thread", "run=thread&flush=media"] {
            round(options, number);
        }
    }
}

#[test]
fn device_in_a_forked_child_refuses_every_call() {
    let folder = tempfile::tempdir().unwrap();
    let device = open(&image(folder.path())).unwrap();
    let (mut kv, mut nvm) = (device.kv(None).unwrap(), device.nvm(None).unwrap());
    kv.put(b"key", b"value").unwrap();
    let copy = folder.path().join("copy.img");
    let embedded = device.as_embedded().unwrap();
    let child = fork(|| {
        let calls = [
            is_refused(kv.get(b"key")),
            is_refused(kv.put(b"key", b"other")),
            is_refused(kv.delete(b"key")),
            is_refused(kv.exists(b"key")),
            is_refused(kv.keys(None).collect::<byway::Result<Vec<_>>>()),
            is_refused(nvm.write(0, &[1; 512])),
            is_refused(nvm.read(0, &mut [0; 512])),
            is_refused(nvm.flush()),
            is_refused(nvm.trim(0, 1)),
            is_refused(device.namespaces()),
            is_refused(device.buffer(4096)),
            is_refused(device.default_queue()),
            is_refused(device.kv(None)),
            is_refused(device.nvm(None)),
            is_refused(device.admin_queue()),
            is_refused(embedded.snapshot(&copy)),
            is_refused(embedded.queue()),
            is_refused(open("ram:64M").map(|_| ()).and_then(|()| embedded.kv(None))),
            open("ram:64M").is_ok(),
        ];
        calls.iter().all(|right| *right)
    });
    assert!(child.was_right());
    assert!(!copy.exists());
    assert_eq!(kv.get(b"key").unwrap().unwrap(), b"value");
}

#[test]
fn image_of_a_parent_that_lives_is_in_use_for_its_child() {
    let folder = tempfile::tempdir().unwrap();
    let uri = image(folder.path());
    let mut device = Some(open(&uri).unwrap());
    let child = fork(|| {
        drop(device.take());
        open(&uri).unwrap_err().kind() == ErrorKind::Busy
    });
    assert!(child.was_right());
}

#[test]
fn image_of_a_parent_that_died_is_opened_by_its_child() {
    let folder = tempfile::tempdir().unwrap();
    let uri = image(folder.path());
    let (died, dies) = std::io::pipe().unwrap();
    let mut dies = Some(dies);
    let (says, said) = std::io::pipe().unwrap();
    let parent = fork(|| {
        let device = open(&uri).unwrap();
        device.kv(None).unwrap().put(b"parent", b"1").unwrap();
        let _child = fork(|| {
            drop(dies.take());
            // Readable once its parent is gone, and this test's end of the pipe is closed.
            std::io::Read::read(&mut &died, &mut [0]).unwrap();
            let mut kv = open(&uri).unwrap().kv(None).unwrap();
            let right = kv.get(b"parent").unwrap().unwrap() == b"1" && kv.put(b"child", b"2").is_ok();
            drop(kv);
            std::io::Write::write_all(&mut &said, &[u8::from(right)]).unwrap();
            right
        });
        std::mem::forget(device);
        true
    });
    assert!(parent.was_right());
    drop((dies, said));
    let mut right = [0];
    std::io::Read::read_exact(&mut &says, &mut right).unwrap();
    assert_eq!(right, [1]);
}

#[test]
fn image_of_a_forked_childs_own_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let _parents = open("ram:64M").unwrap();
    let uri = image(folder.path());
    let child = fork(|| {
        let device = open(&uri).unwrap();
        device.kv(None).unwrap().put(b"child", b"1").unwrap();
        device.close().is_ok()
    });
    assert!(child.was_right());
    assert_eq!(open(&uri).unwrap().kv(None).unwrap().get(b"child").unwrap().unwrap(), b"1");
}
