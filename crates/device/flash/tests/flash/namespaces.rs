//! Namespaces and protected areas come, go and stay.

use crate::common::{MIB, create, extent, kv, nvm, open, read_unit, unit_of, write_unit};
use byway_flash::{AreaId, FlashError, MediaKind, NamespaceKind, NamespaceSpec};

#[test]
fn namespaces_fill_the_device_and_no_more() {
    let mut flash = create(MediaKind::Ram, 16 * MIB, &[nvm(10 * MIB)]);
    assert_eq!(flash.unallocated_bytes(), 6 * MIB);
    let refused = flash.add_namespace(kv(6 * MIB + 1));
    assert!(matches!(refused, Err(FlashError::NoCapacity { free_bytes, .. }) if free_bytes == 6 * MIB));
    let second = flash.add_namespace(kv(6 * MIB)).unwrap();
    assert_eq!((second.nsid, second.kind), (2, NamespaceKind::Kv));
    assert_eq!(flash.unallocated_bytes(), 0);
    assert_ne!(flash.namespace(1).unwrap().nguid, second.nguid);
}

#[test]
fn numbers_are_chosen_or_given() {
    let mut flash = create(MediaKind::Ram, 16 * MIB, &[]);
    let asked = |nsid| NamespaceSpec { nsid: Some(nsid), kind: NamespaceKind::Kv, size_bytes: MIB };
    assert_eq!(flash.add_namespace(asked(5)).unwrap().nsid, 5);
    assert_eq!(flash.add_namespace(nvm(MIB)).unwrap().nsid, 1);
    assert!(matches!(flash.add_namespace(asked(5)), Err(FlashError::NamespaceExists(5))));
    assert!(flash.add_namespace(asked(0)).is_err());
    assert!(flash.add_namespace(asked(u32::MAX)).is_err());
}

#[test]
fn a_removed_namespace_is_gone_with_its_data_areas_and_disk_room() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    let mut flash = create(MediaKind::File(path.clone()), 64 * MIB, &[nvm(32 * MIB), nvm(MIB)]);
    let (first, second) = (extent(&flash, 1), extent(&flash, 2));
    write_unit(&mut flash, second, 0, 99).unwrap();
    for unit in 0..32 * MIB / 4096 {
        write_unit(&mut flash, first, unit, unit).unwrap();
    }
    let area = flash.add_area(1, AreaId(1), 1 << 20).unwrap();
    flash.protected(area).fill(7);
    let full_bytes = flash.disk_bytes().unwrap();
    flash.remove_namespace(1).unwrap();
    assert!(flash.disk_bytes().unwrap() < full_bytes - 24 * MIB);
    assert!(flash.namespace(1).is_none() && flash.find_area(1, AreaId(1)).is_none());
    assert!(matches!(flash.remove_namespace(1), Err(FlashError::NoNamespace(1))));

    let made = flash.add_namespace(nvm(32 * MIB)).unwrap();
    assert_eq!(made.nsid, 1);
    for unit in [0, 1, 5000] {
        assert_eq!(read_unit(&mut flash, made.extent, unit).unwrap(), vec![0; 4096]);
    }
    let area = flash.add_area(1, AreaId(1), 1 << 20).unwrap();
    assert!(flash.area(area).iter().all(|byte| *byte == 0), "a new area is zero");
    assert_eq!(read_unit(&mut flash, second, 0).unwrap(), unit_of(99));
    assert_eq!(flash.check(), []);
    drop(flash);
    assert_eq!(open(&path).unwrap().namespaces().count(), 2);
}

#[test]
fn extents_are_placed_wherever_there_is_room() {
    let mut flash = create(MediaKind::Ram, 64 * MIB, &[]);
    for round in 0..200 {
        let record = flash.add_namespace(nvm((1 + round % 60) * MIB)).unwrap();
        write_unit(&mut flash, record.extent, 255, round).unwrap();
        let small = flash.add_namespace(kv(MIB)).unwrap();
        assert_eq!(read_unit(&mut flash, record.extent, 255).unwrap(), unit_of(round));
        flash.remove_namespace(record.nsid).unwrap();
        flash.remove_namespace(small.nsid).unwrap();
    }
    assert_eq!(flash.used_bytes(), 0);
}

#[test]
fn areas_have_names_and_one_owner() {
    let mut flash = create(MediaKind::Ram, 16 * MIB, &[kv(MIB)]);
    let area = flash.add_area(1, AreaId(3), 100).unwrap();
    assert_eq!(flash.protected(area).len(), 100);
    assert!(matches!(flash.add_area(1, AreaId(3), 1), Err(FlashError::AreaExists { nsid: 1, id: 3 })));
    assert!(matches!(flash.add_area(9, AreaId(3), 1), Err(FlashError::NoNamespace(9))));
    assert!(flash.add_area(1, AreaId(4), 0).is_err());
    assert!(flash.add_area(1, AreaId(4), usize::MAX).is_err());
    flash.add_area(0, AreaId(3), 50).unwrap();
    assert_eq!(flash.find_area(1, AreaId(3)), Some(area));
    assert_eq!(flash.find_area(1, AreaId(5)), None);
}

#[test]
fn device_memory_is_shared_and_survives() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    let mut flash = create(MediaKind::File(path.clone()), 16 * MIB, &[kv(MIB)]);
    let area = flash.add_area(1, AreaId(1), 8192).unwrap();
    flash.protected(area)[0] = 1;
    let memory = flash.area_memory(area);
    memory.write_at(4000, b"stored by a host").unwrap();
    assert!(flash.remove_namespace(1).is_err(), "its memory is still held");
    drop((memory, flash));
    let flash = open(&path).unwrap();
    let area = flash.find_area(1, AreaId(1)).unwrap();
    assert_eq!((flash.area(area)[0], &flash.area(area)[4000..4016]), (1, &b"stored by a host"[..]));
}
