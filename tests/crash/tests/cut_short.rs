//! Another program truncates or overwrites an image's file while it is open: writes fail from then on, nothing is acknowledged
//! that is not kept, and the process goes on.
#![allow(clippy::unwrap_used)]

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use byway::{AdminCommand, Backend, CreateOptions, ErrorKind, NewNamespace};

/// More puts than go without the file being written or a mapped part of it being touched that was cut off.
const PUTS: u32 = 200_000;

struct Open {
    device: byway::Device,
    image: PathBuf,
    _folder: tempfile::TempDir,
}

fn open(options: &str) -> Open {
    open_sized(options, 64 << 20)
}

fn open_sized(options: &str, usable_bytes: u64) -> Open {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("disk.img");
    let namespaces = vec![NewNamespace::KV, NewNamespace::NVM];
    byway::create(&image, &CreateOptions::new(usable_bytes).namespaces(namespaces)).unwrap();
    let device = byway::open(&format!("embedded:{}?{options}", image.display())).unwrap();
    Open { device, image, _folder: folder }
}

fn cut(image: &Path, len_bytes: u64) {
    OpenOptions::new().write(true).open(image).unwrap().set_len(len_bytes).unwrap();
}

fn overwrite(image: &Path, with: &[u8]) {
    OpenOptions::new().write(true).open(image).unwrap().write_all_at(with, 0).unwrap();
}

/// Puts keys until one fails; how many were acknowledged, and the failure.
fn fill(kv: &mut byway::Kv) -> (u32, byway::Error) {
    let failed = (0..PUTS).find_map(|n| Some((n, kv.put(&u64::from(n).to_le_bytes(), &[7; 400]).err()?)));
    failed.expect("puts go on being acknowledged")
}

/// The first byte of the log page with the device's health (02h).
fn critical_warning(device: &byway::Device) -> u8 {
    let into = device.buffer(512).unwrap();
    let log = AdminCommand::GetLog { log: 2, csi: 0, nsid: None, retain_event: false, offset_bytes: 0, into };
    device.admin(log).unwrap().buffer.unwrap().as_slice()[0]
}

/// The device says that it can only be read, and takes no write any more.
fn takes_nothing(open: &Open, kv: &mut byway::Kv) {
    for n in 0..20u32 {
        let said = kv.put(&n.to_be_bytes(), b"more").unwrap_err().to_string();
        assert!(said.contains("cut short"), "{said}");
        assert!(kv.delete(&n.to_le_bytes()).is_err());
    }
    let mut nvm = open.device.nvm(None).unwrap();
    assert!(nvm.write(0, &vec![1; nvm.lba_bytes() as usize]).is_err());
    assert_ne!(critical_warning(&open.device) & 1 << 3, 0, "read-only is a critical warning");
}

/// Changes the file of an open image by another descriptor: `change` gets its path and its length. How many puts were
/// acknowledged afterwards.
fn puts_after(open: Open, change: impl Fn(&Path, u64)) -> u32 {
    let mut kv = open.device.kv(None).unwrap();
    (0..1000u32).for_each(|n| kv.put(&n.to_be_bytes(), &[1; 400]).unwrap());
    let whole = std::fs::metadata(&open.image).unwrap().len();
    change(&open.image, whole);
    let (acknowledged, error) = fill(&mut kv);
    assert!([ErrorKind::Denied, ErrorKind::Media].contains(&error.kind()), "{error:?}");
    takes_nothing(&open, &mut kv);
    // What is left is read, or is an error: never other bytes.
    for n in 0..1000u32 {
        if let Ok(value) = kv.get(&n.to_be_bytes()) {
            assert_eq!(value.as_deref(), Some(&[1; 400][..]), "key {n}");
        }
    }
    drop(kv);
    let Open { device, image, _folder } = open;
    assert!(device.close().is_err(), "it is not closed in order");
    assert!(std::fs::metadata(&image).unwrap().len() <= whole);
    acknowledged
}

fn is_cut_while_open(options: &str, part: impl Fn(u64) -> u64) -> u32 {
    puts_after(open(options), |image, whole| cut(image, part(whole)))
}

const OPTIONS: [&str; 5] =
    ["flush=process", "flush=media", "run=thread", "run=thread&flush=media", "reads=checked"];

#[test]
fn image_cut_and_grown_back_while_open_acknowledges_nothing() {
    for options in OPTIONS {
        let acknowledged = puts_after(open(options), |image, whole| {
            cut(image, 0);
            cut(image, whole);
        });
        assert_eq!(acknowledged, 0, "{options}");
    }
}

#[test]
fn image_overwritten_in_place_while_open_acknowledges_nothing() {
    let noise = byway_kit::pattern(1, 1 << 20);
    for options in OPTIONS {
        for with in [&[0; 4096][..], &[0; 1 << 20], &noise[..4096], &noise] {
            let acknowledged = puts_after(open(options), |image, _| overwrite(image, with));
            assert_eq!(acknowledged, 0, "{options}, {} bytes", with.len());
        }
    }
}

#[test]
fn image_overwritten_by_an_older_copy_while_open_acknowledges_nothing() {
    let Open { device, image, _folder } = open("flush=process");
    device.close().unwrap();
    let older = image.with_extension("older");
    std::fs::copy(&image, &older).unwrap();
    let device = byway::open(&format!("embedded:{}", image.display())).unwrap();
    let open = Open { device, image, _folder };
    let acknowledged = puts_after(open, |image, _| {
        std::fs::copy(&older, image).unwrap();
    });
    assert_eq!(acknowledged, 0);
}

#[test]
fn reads_of_an_image_that_was_cut_and_grown_back_fail() {
    let open = open("flush=process");
    let mut kv = open.device.kv(None).unwrap();
    (0..1000u32).for_each(|n| kv.put(&n.to_be_bytes(), &[1; 400]).unwrap());
    let whole = std::fs::metadata(&open.image).unwrap().len();
    cut(&open.image, 0);
    cut(&open.image, whole);
    assert!((0..1000u32).all(|n| kv.get(&n.to_be_bytes()).is_err()));
}

#[test]
fn image_cut_to_a_middle_size_while_open_acknowledges_nothing() {
    for len_bytes in [100 << 20, 600 << 20] {
        let open = open_sized("flush=process", 1 << 30);
        assert_eq!(puts_after(open, |image, _| cut(image, len_bytes)), 0, "{len_bytes}");
    }
}

#[test]
fn image_cut_to_half_while_open_becomes_read_only() {
    for options in ["flush=process", "run=thread"] {
        is_cut_while_open(options, |whole| whole / 2);
    }
}

#[test]
fn image_cut_to_half_while_open_with_media_acknowledges_nothing() {
    for options in ["flush=media", "flush=media&run=thread"] {
        assert_eq!(is_cut_while_open(options, |whole| whole / 2), 0, "{options}");
    }
}

#[test]
fn image_cut_to_nothing_while_open_acknowledges_nothing() {
    for options in ["flush=process", "flush=media", "run=thread", "run=thread&flush=media", "reads=checked"] {
        assert_eq!(is_cut_while_open(options, |_| 0), 0, "{options}");
    }
}

#[test]
fn image_cut_anywhere_while_open_never_ends_the_process() {
    for part in 0..16 {
        assert_eq!(is_cut_while_open("flush=process", |whole| whole * part / 16), 0, "{part}/16");
    }
}

#[test]
fn reads_of_an_image_cut_to_nothing_fail() {
    let open = open("flush=process");
    let mut nvm = open.device.nvm(None).unwrap();
    let block = vec![3; nvm.lba_bytes() as usize];
    (0..2000).for_each(|lba| nvm.write(lba, &block).unwrap());
    cut(&open.image, 0);
    let mut into = vec![9; block.len()];
    let read = (0..2000).filter(|lba| nvm.read(*lba, &mut into).is_ok_and(|()| into != block));
    assert_eq!(read.count(), 0, "other bytes than were written");
    assert!((0..2000).any(|lba| nvm.read(lba, &mut into).is_err()));
}
