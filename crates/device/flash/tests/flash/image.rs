//! Images: what is there after the end of a process, and what is refused.

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::common::{
    MIB, create, extent, fingerprint, kv, nvm, open, page_of, read_unit, refusal, try_create, unit_of,
    write_unit,
};
use byway_flash::{AreaId, Cause, Flash, FlashError, MediaKind, NamespaceSpec, OpenOptions, UNIT_BYTES};

const SIZE: u64 = 16 * MIB;

fn image(dir: &tempfile::TempDir) -> PathBuf {
    dir.path().join("image")
}

fn on_file(path: &Path, namespaces: &[NamespaceSpec]) -> Flash {
    create(MediaKind::File(path.to_path_buf()), SIZE, namespaces)
}

/// An image with ten units written, closed in order.
fn closed_image(path: &Path) {
    let mut flash = on_file(path, &[nvm(8 * MIB)]);
    let extent = extent(&flash, 1);
    for unit in 0..10 {
        write_unit(&mut flash, extent, unit, unit).unwrap();
    }
    flash.close().unwrap();
}

#[test]
fn writes_survive_a_drop_without_close() {
    let dir = tempfile::tempdir().unwrap();
    let mut flash = on_file(&image(&dir), &[nvm(8 * MIB), kv(8 * MIB)]);
    let (blocks, pairs) = (extent(&flash, 1), extent(&flash, 2));
    let area = flash.add_area(2, AreaId(1), 10_000).unwrap();
    for number in 0..30 {
        write_unit(&mut flash, blocks, number * 3, number).unwrap();
        let page = page_of(&flash, number);
        flash.write_page(pairs, number, &page, Cause::Host, &mut 0).unwrap();
    }
    flash.protected(area)[9_990..].copy_from_slice(b"protected!");
    flash.commit_u64(area, 8, 30);
    flash.set_owner_state(2, b"owner").unwrap();
    let (counters, records) = (*flash.counters(), flash.namespaces().cloned().collect::<Vec<_>>());
    drop(flash);

    let mut flash = open(&image(&dir)).unwrap();
    assert!(flash.recovery().unclean);
    assert_eq!(*flash.counters(), counters);
    assert_eq!(flash.namespaces().cloned().collect::<Vec<_>>(), records);
    assert_eq!(flash.check(), []);
    for number in 0..30 {
        assert_eq!(read_unit(&mut flash, blocks, number * 3).unwrap(), unit_of(number));
        let mut page = vec![0; 16384];
        flash.read(pairs, number * 16384, &mut page, Cause::Host, &mut 0).unwrap();
        assert_eq!(page, page_of(&flash, number));
    }
    let area = flash.find_area(2, AreaId(1)).unwrap();
    assert_eq!(&flash.area(area)[9_990..], b"protected!");
    assert_eq!(flash.load_u64(area, 8), 30);
    assert_eq!(&flash.namespace(2).unwrap().owner_state[..6], b"owner\0");
    assert_eq!(flash.mapped_bytes(blocks).unwrap(), 30 * UNIT_BYTES as u64);
}

#[test]
fn power_cycles_and_unsafe_shutdowns_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    closed_image(&image(&dir));
    let mut flash = open(&image(&dir)).unwrap();
    assert!(!flash.recovery().unclean);
    assert_eq!((flash.power_history().power_cycles, flash.power_history().unsafe_shutdowns), (2, 0));
    flash.close().unwrap();
    let extent = extent(&flash, 1);
    assert!(write_unit(&mut flash, extent, 0, 0).is_err(), "a closed device takes nothing");
    drop(flash);
    drop(open(&image(&dir)).unwrap());
    let flash = open(&image(&dir)).unwrap();
    assert_eq!((flash.power_history().power_cycles, flash.power_history().unsafe_shutdowns), (4, 1));
}

#[test]
fn the_same_options_make_the_same_image() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (dir.path().join("one"), dir.path().join("two"));
    closed_image(&one);
    closed_image(&two);
    let ((len, crc, _), (other_len, other_crc, _)) = (fingerprint(&one), fingerprint(&two));
    assert_eq!((len, crc), (other_len, other_crc));
}

#[test]
fn a_read_only_opener_sees_everything_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut flash = on_file(&image(&dir), &[nvm(8 * MIB)]);
    let extent = extent(&flash, 1);
    for unit in 0..9 {
        write_unit(&mut flash, extent, unit, unit).unwrap();
    }
    drop(flash);
    let before = fingerprint(&image(&dir));
    let options = OpenOptions::default().read_only(true).timing(false);
    let mut flash = Flash::open(&image(&dir), options.clone()).unwrap();
    let mut second = Flash::open(&image(&dir), options).unwrap();
    assert!(flash.recovery().unclean);
    for unit in 0..9 {
        assert_eq!(read_unit(&mut flash, extent, unit).unwrap(), unit_of(unit));
    }
    assert!(matches!(write_unit(&mut flash, extent, 0, 5), Err(FlashError::ReadOnly)));
    assert!(matches!(flash.trim(extent, 0..1), Err(FlashError::ReadOnly)));
    assert!(matches!(flash.add_namespace(nvm(4096)), Err(FlashError::ReadOnly)));
    assert_eq!(second.check(), []);
    flash.close().unwrap();
    drop((flash, second));
    assert_eq!(fingerprint(&image(&dir)), before);
}

#[test]
fn a_missing_file_is_said_to_be_missing() {
    let dir = tempfile::tempdir().unwrap();
    assert!(refusal(open(&image(&dir))).ends_with("image does not exist"));
}

#[test]
fn a_foreign_file_is_no_image() {
    let dir = tempfile::tempdir().unwrap();
    for foreign in [&b""[..], b"short", &[7; 100_000]] {
        fs::write(image(&dir), foreign).unwrap();
        let before = fingerprint(&image(&dir));
        assert!(refusal(open(&image(&dir))).ends_with("image is not a Byway image"));
        assert_eq!(fingerprint(&image(&dir)), before);
    }
}

#[test]
fn a_truncated_image_is_named_and_untouched() {
    let dir = tempfile::tempdir().unwrap();
    closed_image(&image(&dir));
    let whole = fs::metadata(image(&dir)).unwrap().len();
    for len in [whole - 1, whole / 2, 65_536, 4096, 100] {
        fs::OpenOptions::new().write(true).open(image(&dir)).unwrap().set_len(len).unwrap();
        let before = fingerprint(&image(&dir));
        let said = refusal(open(&image(&dir)));
        assert!(said.contains("is truncated: it has"), "{said}");
        assert_eq!(fingerprint(&image(&dir)), before);
    }
}

/// Changes bytes of the superblock and puts its checksum right.
fn forge_superblock(path: &Path, at: usize, bytes: &[u8]) {
    let file = fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut page = [0; 4096];
    file.read_exact_at(&mut page, 0).unwrap();
    page[at..at + bytes.len()].copy_from_slice(bytes);
    let crc = crc32c::crc32c(&page[..4092]);
    page[4092..].copy_from_slice(&crc.to_le_bytes());
    file.write_all_at(&page, 0).unwrap();
}

#[test]
fn another_version_and_unknown_features_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let cases = [
        (8, 0_u8, "is a Byway image of format version 0; this program knows version 1"),
        (8, 2, "is a Byway image of format version 2; this program knows version 1"),
        (32, 4, "uses image features unknown to this program (bits 0x4)"),
        (24, 3, "uses image features (bits 0x2) that this program can only read: readonly=1 opens it"),
    ];
    for (at, value, sentence) in cases {
        closed_image(&image(&dir));
        forge_superblock(&image(&dir), at, &[value]);
        let before = fingerprint(&image(&dir));
        let said = refusal(open(&image(&dir)));
        assert!(said.ends_with(sentence), "{said}");
        assert_eq!(fingerprint(&image(&dir)), before);
        fs::remove_file(image(&dir)).unwrap();
    }
}

#[test]
fn features_that_only_writers_must_know_leave_an_image_readable() {
    let dir = tempfile::tempdir().unwrap();
    closed_image(&image(&dir));
    forge_superblock(&image(&dir), 24, &[2]);
    let mut flash = Flash::open(&image(&dir), OpenOptions::default().read_only(true).timing(false)).unwrap();
    let extent = extent(&flash, 1);
    assert_eq!(read_unit(&mut flash, extent, 7).unwrap(), unit_of(7));
}

#[test]
fn an_image_is_opened_once() {
    let dir = tempfile::tempdir().unwrap();
    let flash = on_file(&image(&dir), &[nvm(MIB)]);
    for read_only in [false, true] {
        let said =
            refusal(Flash::open(&image(&dir), OpenOptions::default().read_only(read_only).timing(true)));
        assert!(said.contains("is in use by another process"), "{said}");
    }
    drop(flash);
    open(&image(&dir)).unwrap();
}

#[test]
fn an_existing_file_is_never_overwritten_by_a_new_image() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(image(&dir), "mine").unwrap();
    let said = refusal(try_create(MediaKind::File(image(&dir)), SIZE, &[]));
    assert!(said.ends_with("exists already and is left as it is"), "{said}");
    assert_eq!(fs::read(image(&dir)).unwrap(), b"mine");
}

#[test]
fn an_image_that_cannot_be_made_leaves_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let said = refusal(try_create(MediaKind::File(image(&dir)), SIZE, &[nvm(SIZE + 1)]));
    assert!(said.contains("does not fit"), "{said}");
    assert!(!image(&dir).exists());
    let said = refusal(try_create(MediaKind::File(image(&dir)), 1000, &[]));
    assert!(said.contains("too small; the least is 4 MiB"), "{said}");
    assert!(!image(&dir).exists());
}

#[test]
fn a_read_only_file_is_refused_to_writers_alone() {
    let dir = tempfile::tempdir().unwrap();
    closed_image(&image(&dir));
    fs::set_permissions(image(&dir), fs::Permissions::from_mode(0o444)).unwrap();
    let before = fingerprint(&image(&dir));
    let said = refusal(open(&image(&dir)));
    assert!(said.ends_with("is read-only here: readonly=1 opens it to look inside"), "{said}");
    let mut flash = Flash::open(&image(&dir), OpenOptions::default().read_only(true).timing(false)).unwrap();
    let extent = extent(&flash, 1);
    assert_eq!(read_unit(&mut flash, extent, 3).unwrap(), unit_of(3));
    drop(flash);
    assert_eq!(fingerprint(&image(&dir)), before);
}

#[test]
fn an_image_takes_little_room_at_first() {
    let dir = tempfile::tempdir().unwrap();
    let flash = create(MediaKind::File(image(&dir)), 64 << 30, &[nvm(32 << 30), kv(32 << 30)]);
    assert!(flash.image_bytes() > 64 << 30);
    assert!(flash.disk_bytes().unwrap() < 32 * MIB, "{}", flash.disk_bytes().unwrap());
}
