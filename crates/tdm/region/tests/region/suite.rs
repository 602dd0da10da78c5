//! Behaviour of every kind of region.

use byway_tdm_region::{Access, DeviceRegion, Memory, RegionError, Window};

use crate::support::{HERE, all};

/// Whole pages in the middle.
fn middle(region: &dyn DeviceRegion) -> std::ops::Range<u64> {
    let align = region.align_bytes();
    let start = (region.len_bytes() / 2 / align).min(region.len_bytes() / align - 1) * align;
    start..start + align
}

fn for_each(test: impl Fn(&dyn DeviceRegion)) {
    for place in all() {
        println!("{}", place.description);
        test(place.open().as_ref());
    }
}

#[test]
fn flushed_stores_survive_a_reopen() {
    for place in all() {
        let region = place.open();
        let at = region.len_bytes() - 100;
        region.window().write(at, b"kept over an opening").unwrap();
        region.window().flush(at, 20, HERE).unwrap();
        region.window().fence(HERE);
        drop(region);
        let mut back = [0; 20];
        place.open().window().read(at, &mut back).unwrap();
        assert_eq!(&back, b"kept over an opening", "{}", place.name);
    }
}

#[test]
fn a_region_has_one_owner() {
    for place in all() {
        let region = place.open();
        let second = place.try_open().unwrap_err().to_string();
        let owner = format!("process {} owns it", std::process::id());
        assert!(second.contains(&owner), "{}: {second}", place.name);
        drop(region);
        place.open();
    }
}

#[test]
fn a_region_says_from_where_on_it_keeps_stores_and_why() {
    for_each(|region| {
        assert!(!region.why().is_empty());
        assert_eq!(region.domain(), region.window().domain());
        assert!(!region.is_emulated() || region.why().contains("emulated"));
    });
}

#[test]
fn ranges_are_whole_pages_of_the_region() {
    for_each(|region| {
        let (align, len) = (region.align_bytes(), region.len_bytes());
        for range in [0..align - 1, 1..align, len..len + align, align..align, 0..u64::MAX / align * align] {
            assert!(matches!(region.residency(range.clone()), Err(RegionError::Range { .. })), "{range:?}");
            assert!(region.prefetch(range.clone()).is_err() && region.evict(range.clone()).is_err());
            assert!(matches!(region.pin(range.clone()), Err(RegionError::Range { .. })));
            assert!(region.export(range, Access::ReadOnly).is_err());
        }
    });
}

#[test]
fn prefetched_range_is_resident_once_the_ticket_is_done() {
    for_each(|region| {
        let range = middle(region);
        region.evict(range.clone()).unwrap();
        let ticket = region.prefetch(range.clone()).unwrap();
        region.wait_for(ticket);
        assert!(region.has_come(ticket) && region.residency(range).unwrap().is_whole());
    });
}

#[test]
fn evicted_bytes_are_not_lost() {
    for_each(|region| {
        let range = middle(region);
        region.window().write(range.start, b"dirty").unwrap();
        region.evict(range.clone()).unwrap();
        let mut back = [0; 5];
        region.window().read(range.start, &mut back).unwrap();
        assert_eq!(&back, b"dirty");
    });
}

#[test]
fn another_mapping_of_an_export_has_the_same_bytes() {
    for_each(|region| {
        let range = middle(region);
        region.window().write(range.start, b"from the owner").unwrap();
        let export = region.export(range.clone(), Access::ReadWrite).unwrap();
        let theirs =
            Window::of_export(&export.file, export.page_table.as_ref(), &export.description).unwrap();
        assert_eq!((theirs.len_bytes(), theirs.domain()), (range.end - range.start, region.domain()));
        let mut back = [0; 14];
        theirs.read(0, &mut back).unwrap();
        assert_eq!(&back, b"from the owner");
        theirs.store(8, 42).unwrap();
        theirs.flush(8, 8, HERE).unwrap();
        theirs.fence(HERE);
        assert_eq!(region.window().load(range.start + 8).unwrap(), 42);
    });
}

#[test]
fn an_export_for_reading_is_not_written() {
    for_each(|region| {
        let export = region.export(middle(region), Access::ReadOnly).unwrap();
        let theirs =
            Window::of_export(&export.file, export.page_table.as_ref(), &export.description).unwrap();
        assert!(theirs.write(0, b"x").is_err() && theirs.store(0, 1).is_err());
        theirs.load(0).unwrap();
        let mut claims_more = export.description;
        claims_more.access = Access::ReadWrite;
        assert!(
            Window::of_export(&export.file, export.page_table.as_ref(), &claims_more).is_err(),
            "the descriptor itself allows no stores"
        );
    });
}

#[test]
fn a_domain_that_is_known_beforehand_is_the_one_that_is_found() {
    for place in all() {
        let region = place.open();
        println!("{}: {}, {}", place.description, region.domain(), region.why());
        assert!(place.domain.as_ref().is_none_or(|known| *known == region.domain().name()));
    }
}
