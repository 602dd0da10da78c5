//! Partitions: a user cannot reach another's memory.

use std::fs::OpenOptions;
use std::os::unix::fs::MetadataExt;

use byway_tdm_region::{Access, Memory, PartitionName, Window};

use crate::support::{SIZE, all_with_files, devdax, emu};

/// This process's user.
fn uid() -> u32 {
    std::fs::metadata("/proc/self").unwrap().uid()
}

#[test]
fn a_partition_is_a_file_of_its_user_alone_and_holds_the_partition_alone() {
    for place in all_with_files() {
        let region = place.open();
        region.window().write(4096, b"the owner's").unwrap();
        let partition = region.partition(4096..12288, uid()).unwrap();
        assert_eq!((partition.len_bytes(), partition.domain()), (8192, region.domain()));
        let export = partition.export(0..8192, Access::ReadWrite).unwrap();
        let file = export.file.metadata().unwrap();
        assert_eq!((file.uid(), file.mode() & 0o777, file.len()), (uid(), 0o600, 8192));
        let theirs =
            Window::of_export(&export.file, export.page_table.as_ref(), &export.description).unwrap();
        assert_ne!(
            theirs.load(0).unwrap(),
            region.window().load(4096).unwrap(),
            "nothing of the owner's is in it"
        );
        theirs.store(0, 9).unwrap();
        assert_eq!(partition.window().load(0).unwrap(), 9);
        let mut kept = [0; 11];
        region.window().read(4096, &mut kept).unwrap();
        assert_eq!(&kept, b"the owner's");
    }
}

#[test]
fn partitions_are_found_again_with_what_is_in_them() {
    for place in all_with_files() {
        let region = place.open();
        region.partition(65536..69632, uid()).unwrap().window().store(8, 5).unwrap();
        drop(region);
        let region = place.open();
        assert!(region.partitions().unwrap().contains(&PartitionName { range: 65536..69632, uid: uid() }));
        assert_eq!(region.partition(65536..69632, uid()).unwrap().window().load(8).unwrap(), 5);
    }
}

#[test]
fn device_node_has_one_partition_for_its_owner() {
    let Some(place) = devdax() else { return };
    let region = place.open();
    let align = region.align_bytes();
    let partition = region.partition(align..3 * align, uid()).unwrap();
    partition.window().store(8, 77).unwrap();
    assert_eq!(region.window().load(align + 8).unwrap(), 77);
    let export = partition.export(0..align, Access::ReadWrite).unwrap();
    let theirs = Window::of_export(&export.file, None, &export.description).unwrap();
    assert_eq!(theirs.load(8).unwrap(), 77);
    let why = region.partition(align..3 * align, uid() + 1).unwrap_err().to_string();
    assert!(why.contains("user="), "{why}");
}

#[test]
fn partitions_do_not_overlap_and_lie_within_the_region() {
    let place = emu("");
    let region = place.open();
    let _first = region.partition(4096..8192, uid()).unwrap();
    let why = region.partition(0..SIZE, uid()).unwrap_err().to_string();
    assert!(why.contains("belong to the partition of user"), "{why}");
    assert!(region.partition(SIZE - 4096..SIZE + 4096, uid()).is_err());
    assert!(region.partition(8192..12288, uid()).is_ok());
}

#[test]
fn user_truncating_its_partition_harms_no_other() {
    let place = emu("");
    let region = place.open();
    let partition = region.partition(0..8192, uid()).unwrap();
    let export = partition.export(0..8192, Access::ReadWrite).unwrap();
    export.file.set_len(0).unwrap();
    let mut back = [1; 8];
    partition.window().read(4096, &mut back).unwrap();
    assert_eq!(back, [0; 8]);
    assert!(partition.window().mapping().is_lost(), "and its owner can see that");
    region.window().store(0, 1).unwrap();
}

#[test]
fn a_link_in_the_place_of_a_partition_is_not_followed() {
    let place = emu("");
    let region = place.open();
    let victim = tempfile::NamedTempFile::new().unwrap();
    let path = place.description.trim_start_matches("emu:").split('?').next().unwrap().to_owned();
    std::os::unix::fs::symlink(victim.path(), format!("{path}.slice-0-4096-{}", uid())).unwrap();
    assert!(region.partition(0..4096, uid()).is_err());
    let length = OpenOptions::new().read(true).open(victim.path()).unwrap().metadata().unwrap().len();
    assert_eq!(length, 0);
}
