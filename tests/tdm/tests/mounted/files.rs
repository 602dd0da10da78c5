//! What a mount shows is what lies below, and the other way round.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, symlink};

use crate::{mount, place};

#[test]
fn files_folders_links_and_attributes_are_those_below() {
    let Some(place) = place("files_folders_links_and_attributes_are_those_below") else { return };
    let mount = mount(&place);
    fs::create_dir(mount.file("folder")).unwrap();
    fs::write(mount.file("folder/a"), b"one").unwrap();
    fs::hard_link(mount.file("folder/a"), mount.file("b")).unwrap();
    symlink("folder/a", mount.file("link")).unwrap();
    rustix::fs::setxattr(mount.file("b"), "user.colour", b"red", rustix::fs::XattrFlags::empty()).unwrap();
    assert_eq!(fs::read(place.file("b")).unwrap(), b"one");
    assert_eq!(fs::read_link(place.file("link")).unwrap(), fs::read_link(mount.file("link")).unwrap());
    let [above, below] = [mount.file("b"), place.file("folder/a")].map(|path| fs::metadata(path).unwrap());
    assert_eq!((above.ino(), above.nlink(), above.mode()), (below.ino(), 2, below.mode()));
    assert_eq!(above.mtime_nsec(), below.mtime_nsec());
    let mut colour = [0; 8];
    assert_eq!(rustix::fs::getxattr(place.file("folder/a"), "user.colour", &mut colour).unwrap(), 3);
    fs::rename(mount.file("folder"), mount.file("other")).unwrap();
    assert_eq!(fs::read(mount.file("b")).unwrap(), b"one");
    fs::remove_file(mount.file("b")).unwrap();
    fs::remove_file(mount.file("other/a")).unwrap();
    fs::remove_dir(mount.file("other")).unwrap();
    assert_eq!(fs::read_dir(place.path().join("files")).unwrap().count(), 1);
    mount.end();
}

#[test]
fn changes_below_the_mount_are_seen_at_once() {
    let Some(place) = place("changes_below_the_mount_are_seen_at_once") else { return };
    let mount = mount(&place);
    let above =
        File::options().read(true).write(true).create(true).truncate(false).open(mount.file("a")).unwrap();
    for round in 0..100_u32 {
        let below = File::options().write(true).open(place.file("a")).unwrap();
        below.write_all_at(&round.to_le_bytes(), u64::from(round)).unwrap();
        assert_eq!(above.metadata().unwrap().len(), u64::from(round) + 4);
        let mut got = [0; 4];
        above.read_exact_at(&mut got, u64::from(round)).unwrap();
        assert_eq!(u32::from_le_bytes(got), round);
        fs::write(place.file(&format!("new-{round}")), b"x").unwrap();
        assert!(mount.file(&format!("new-{round}")).exists());
        fs::remove_file(place.file(&format!("new-{round}"))).unwrap();
        assert!(!mount.file(&format!("new-{round}")).exists());
    }
    fs::remove_file(place.file("a")).unwrap();
    assert!(File::open(mount.file("a")).is_err());
    above.write_all_at(b"still open", 0).unwrap();
    drop(above);
    mount.end();
}

#[test]
fn a_large_folder_is_listed_whole_and_once() {
    let Some(place) = place("a_large_folder_is_listed_whole_and_once") else { return };
    let names: BTreeSet<String> = (0..3000).map(|i| format!("a-file-with-a-name-{i}")).collect();
    names.iter().for_each(|name| drop(File::create(place.file(name)).unwrap()));
    let mount = mount(&place);
    let listed: Vec<String> = fs::read_dir(mount.at())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(listed.len(), 3000);
    assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), names);
    mount.end();
}

#[test]
fn a_folder_is_mounted_over_itself_and_is_what_it_was_when_that_is_gone() {
    let Some(place) = place("a_folder_is_mounted_over_itself_and_is_what_it_was_when_that_is_gone") else {
        return;
    };
    fs::write(place.file("before"), b"1").unwrap();
    let mount = byway_tdm_tests::Mount::over(crate::MOUNTER, &place, place.path().join("files"));
    assert_eq!(fs::read(place.file("before")).unwrap(), b"1");
    fs::write(place.file("during"), b"2").unwrap();
    mount.end();
    assert_eq!(fs::read(place.file("during")).unwrap(), b"2");
}
