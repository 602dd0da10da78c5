//! The model of a hybrid SSD: cache, latencies and counts.

use std::collections::VecDeque;

use byway_tdm_region::{Access, Admitted, DeviceRegion, ExportDescription, Memory, RegionError, Window};

use crate::support::{HERE, Place, SIZE, emu};

const PAGE: u64 = 4096;
/// The prototype's time of a cache line.
const HIT_PS: u64 = 800_000;

/// A device with a cache of 16 pages and all bytes on its drive.
fn used(options: &str) -> (Place, Box<dyn DeviceRegion>) {
    let place = emu(&format!("&profile=cmm-h&cache=64K{options}"));
    drop(place.open());
    let region = place.open();
    (place, region)
}

fn touch(region: &dyn DeviceRegion, page: u64) {
    region.window().load(page * PAGE).unwrap();
}

fn is_resident(region: &dyn DeviceRegion, page: u64) -> bool {
    region.residency(page * PAGE..(page + 1) * PAGE).unwrap().is_whole()
}

/// Modelled time of an operation.
fn taken_ps(region: &dyn DeviceRegion, what: impl FnOnce()) -> u64 {
    let before = region.stats().modelled_ps;
    what();
    region.stats().modelled_ps - before
}

#[test]
fn a_read_costs_a_hit_where_the_page_is_resident_and_waits_for_flash_where_not() {
    let (_place, region) = used("&clock=virtual");
    let read = || region.window().read(100, &mut [0; 8]).unwrap();
    let miss_ps = taken_ps(region.as_ref(), read);
    assert!((50_000_000..100_000_000).contains(&miss_ps), "{miss_ps}");
    assert_eq!(taken_ps(region.as_ref(), read), HIT_PS);
    let stats = region.stats();
    assert_eq!((stats.blocking_touches, stats.misses, stats.from_flash_bytes), (1, 1, PAGE));
}

#[test]
fn the_time_of_a_hit_can_be_swept() {
    let (_place, region) = used("&clock=virtual&hit=150");
    touch(region.as_ref(), 0);
    assert_eq!(taken_ps(region.as_ref(), || region.window().read(0, &mut [0; 64]).unwrap()), 150_000);
    let fence_ps = taken_ps(region.as_ref(), || region.window().fence(HERE));
    assert_eq!(fence_ps, 150_000);
}

#[test]
fn stores_are_free_and_what_is_written_back_and_fenced_is_paid() {
    let (_place, region) = used("&clock=virtual");
    let window = region.window();
    touch(region.as_ref(), 0);
    assert_eq!(taken_ps(region.as_ref(), || window.write(0, &[1; 640]).unwrap()), 0);
    assert_eq!(taken_ps(region.as_ref(), || window.flush(0, 640, HERE).unwrap()), 10 * 16_000);
    assert_eq!(taken_ps(region.as_ref(), || window.fence(HERE)), HIT_PS);
}

#[test]
fn touch_after_a_finished_prefetch_does_not_wait() {
    let (_place, region) = used("&clock=virtual");
    let ticket = region.prefetch(0..8 * PAGE).unwrap();
    let coming = region.residency(0..8 * PAGE).unwrap();
    assert_eq!((coming.coming_bytes, coming.resident_bytes, region.has_come(ticket)), (8 * PAGE, 0, false));
    region.wait_for(ticket);
    (0..8).for_each(|page| touch(region.as_ref(), page));
    let stats = region.stats();
    assert_eq!((stats.blocking_touches, stats.hits, stats.misses), (0, 8, 8));
}

#[test]
fn a_touch_of_what_is_on_its_way_waits_for_the_rest_of_it() {
    let (_place, region) = used("&clock=virtual");
    let ticket = region.prefetch(0..PAGE).unwrap();
    let rest_ps = taken_ps(region.as_ref(), || touch(region.as_ref(), 0));
    assert!(region.has_come(ticket) && rest_ps > 50_000_000, "{rest_ps}");
    let stats = region.stats();
    assert_eq!((stats.blocking_touches, stats.misses), (1, 1), "it is not fetched twice");
}

#[test]
fn pages_on_different_planes_come_at_the_same_time() {
    let (_place, region) = used("&clock=virtual");
    let one = taken_ps(region.as_ref(), || region.wait_for(region.prefetch(0..PAGE).unwrap()));
    region.evict(0..PAGE).unwrap();
    let sixteen = taken_ps(region.as_ref(), || region.wait_for(region.prefetch(0..16 * PAGE).unwrap()));
    assert!(sixteen < 3 * one, "{sixteen} {one}");
}

#[test]
fn the_cache_has_what_was_used_last_and_nothing_else() {
    let (_place, region) = used("");
    let mut model: VecDeque<u64> = VecDeque::new();
    let mut random = byway_kit::Random::new(7);
    for _ in 0..2_000 {
        let page = random.below(40);
        touch(region.as_ref(), page);
        model.retain(|known| *known != page);
        model.push_back(page);
        if model.len() > 16 {
            model.pop_front();
        }
    }
    for page in 0..SIZE / PAGE {
        assert_eq!(is_resident(region.as_ref(), page), model.contains(&page), "page {page}");
    }
    let stats = region.stats();
    assert_eq!((stats.resident_bytes, stats.hits + stats.misses), (16 * PAGE, 2_000));
    assert_eq!(stats.evictions, stats.misses - 16);
}

#[test]
fn dirty_pages_alone_are_written_to_flash_on_eviction() {
    let (_place, region) = used("");
    (0..16).for_each(|page| touch(region.as_ref(), page));
    region.window().store(3 * PAGE, 1).unwrap();
    region.evict(0..16 * PAGE).unwrap();
    let stats = region.stats();
    assert_eq!((stats.evictions, stats.to_flash_bytes, stats.resident_bytes), (16, PAGE, 0));
}

#[test]
fn the_same_touches_take_the_same_time_and_count_the_same() {
    let run = || {
        let (_place, region) = used("&clock=virtual");
        for step in 0..500_u64 {
            region.window().store(step * 37 % 200 * PAGE, step).unwrap();
        }
        region.stats()
    };
    let stats = run();
    assert_eq!(run(), stats);
    assert!(stats.to_flash_bytes > 0 && stats.programmed_bytes > 0 && stats.modelled_ps > 0);
}

#[test]
fn with_the_clock_off_all_is_counted_and_nothing_takes_time() {
    let (_place, region) = used("");
    (0..20).for_each(|page| touch(region.as_ref(), page));
    let stats = region.stats();
    assert_eq!((stats.modelled_ps, stats.misses, stats.evictions), (0, 20, 4));
    assert!(region.has_come(region.prefetch(0..PAGE).unwrap()));
}

#[test]
fn paced_touches_last_as_long_as_the_model_says() {
    let (_place, region) = used("&clock=paced");
    let miss_ps = taken_ps(region.as_ref(), || touch(region.as_ref(), 0));
    assert!(miss_ps >= 50_000_000, "{miss_ps}");
}

#[test]
fn a_device_that_pins_nothing_says_so() {
    let (_place, region) = used("");
    let refusal = region.pin(0..PAGE).unwrap_err();
    assert!(matches!(refusal, RegionError::Unsupported(_)), "{refusal}");
}

#[test]
fn pinned_pages_stay_until_the_pin_is_dropped() {
    let (_place, region) = used("&pin=on&clock=virtual");
    let pin = region.pin(0..4 * PAGE).unwrap();
    assert!(pin.holds() && region.residency(0..4 * PAGE).unwrap().is_whole());
    region.evict(0..4 * PAGE).unwrap();
    (4..100).for_each(|page| touch(region.as_ref(), page));
    assert!(region.residency(0..4 * PAGE).unwrap().is_whole());
    assert_eq!(region.stats().pinned_bytes, 4 * PAGE);
    drop(pin);
    (4..100).for_each(|page| touch(region.as_ref(), page));
    assert_eq!(region.residency(0..4 * PAGE).unwrap().resident_bytes, 0);
}

#[test]
fn not_all_of_the_cache_can_be_pinned() {
    let (_place, region) = used("&pin=on");
    let _pin = region.pin(0..15 * PAGE).unwrap();
    assert!(region.pin(15 * PAGE..16 * PAGE).unwrap_err().to_string().contains("a sixteenth"));
    let _again = region.pin(0..15 * PAGE).unwrap();
    touch(region.as_ref(), 50);
    assert!(is_resident(region.as_ref(), 50), "what is not pinned can be used all the same");
}

#[test]
fn admitted_pages_are_prefetched_again_after_eviction() {
    let (_place, region) = used("&clock=virtual");
    let mut admitted = Admitted::of(region.as_ref());
    assert_eq!(admitted.budget_bytes(), 65_536 - 6_554, "a tenth is never admitted");
    region.wait_for(admitted.admit(region.as_ref(), 0..8 * PAGE).unwrap());
    assert_eq!(admitted.keep(region.as_ref()).unwrap().0, 0);
    (100..116).for_each(|page| touch(region.as_ref(), page));
    let before = region.stats().blocking_touches;
    let (bytes, ticket) = admitted.keep(region.as_ref()).unwrap();
    assert_eq!(bytes, 8 * PAGE);
    region.wait_for(ticket);
    (0..8).for_each(|page| touch(region.as_ref(), page));
    assert_eq!(region.stats().blocking_touches, before);
}

#[test]
fn no_more_is_admitted_than_fits() {
    let (_place, region) = used("");
    let mut admitted = Admitted::of(region.as_ref());
    admitted.admit(region.as_ref(), 0..8 * PAGE).unwrap();
    let why = admitted.admit(region.as_ref(), 8 * PAGE..20 * PAGE).unwrap_err().to_string();
    assert!(why.contains("of the cache are left"), "{why}");
    assert!(
        admitted
            .admit(region.as_ref(), 4 * PAGE..9 * PAGE)
            .unwrap_err()
            .to_string()
            .contains("admitted already")
    );
    assert!(admitted.release(0) && !admitted.release(0));
    assert_eq!(admitted.admitted_bytes(), 0);
    admitted.admit(region.as_ref(), 8 * PAGE..20 * PAGE).unwrap();
}

/// The region in another process.
fn exported(region: &dyn DeviceRegion) -> Window {
    let export = region.export(0..region.len_bytes(), Access::ReadWrite).unwrap();
    let description = ExportDescription::from_bytes(&export.description.to_bytes()).unwrap();
    Window::of_export(&export.file, export.page_table.as_ref(), &description).unwrap()
}

#[test]
fn a_client_pays_as_the_owner_does() {
    let (_place, region) = used("&clock=virtual");
    let theirs = exported(region.as_ref());
    region.wait_for(region.prefetch(0..PAGE).unwrap());
    assert_eq!(taken_ps(region.as_ref(), || theirs.read(0, &mut [0; 8]).unwrap()), HIT_PS);
    assert_eq!(taken_ps(region.as_ref(), || theirs.write(0, &[1; 64]).unwrap()), 0);
    assert_eq!(taken_ps(region.as_ref(), || theirs.flush(0, 64, HERE).unwrap()), 16_000);
    assert_eq!(taken_ps(region.as_ref(), || theirs.fence(HERE)), HIT_PS);
    assert_eq!(region.stats().blocking_touches, 0);
}

#[test]
fn pages_brought_by_a_client_are_written_back_by_the_owner() {
    let (_place, region) = used("&clock=virtual");
    let theirs = exported(region.as_ref());
    let miss_ps = taken_ps(region.as_ref(), || theirs.store(5 * PAGE, 1).unwrap());
    assert!((50_000_000..100_000_000).contains(&miss_ps), "{miss_ps}");
    assert!(is_resident(region.as_ref(), 5));
    region.evict(5 * PAGE..6 * PAGE).unwrap();
    let stats = region.stats();
    assert_eq!((stats.blocking_touches, stats.misses, stats.to_flash_bytes), (1, 1, PAGE));
}

#[test]
fn a_client_that_touches_more_than_fits_pushes_out_what_was_there() {
    let (_place, region) = used("");
    let theirs = exported(region.as_ref());
    (0..100).for_each(|page| theirs.store(page * PAGE, page).unwrap());
    assert_eq!(region.stats().resident_bytes, 16 * PAGE);
    assert!(is_resident(region.as_ref(), 99) && !is_resident(region.as_ref(), 0));
}

#[test]
fn racing_threads_and_clients_cache_each_page_at_most_once() {
    let (_place, region) = used("");
    let region = region.as_ref();
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            scope.spawn(move || {
                let client = exported(region);
                let windows = [region.window(), &client];
                for step in 0..2_000 {
                    let page = (step * 7 + thread * 13) % 60;
                    windows[step as usize % 2].store(page * PAGE + thread * 8, step).unwrap();
                }
            });
        }
        for step in 0..500 {
            let page = step * 11 % 60;
            region.evict(page * PAGE..(page + 1) * PAGE).unwrap();
            region.prefetch(page * PAGE..(page + 1) * PAGE).unwrap();
        }
    });
    let resident = (0..SIZE / PAGE).filter(|page| is_resident(region, *page)).count() as u64;
    let stats = region.stats();
    assert_eq!(stats.resident_bytes, resident * PAGE);
    assert!(resident <= 16 && stats.evictions == stats.misses - resident, "{stats:?}");
}

#[test]
fn client_spoiling_the_page_table_spoils_figures_only() {
    let (_place, region) = used("&clock=virtual");
    region.window().store(0, 7).unwrap();
    let page_table = region.export(0..PAGE, Access::ReadWrite).unwrap().page_table.unwrap();
    let len = page_table.metadata().unwrap().len() as usize;
    std::os::unix::fs::FileExt::write_all_at(&page_table, &vec![0xFF; len], 0).unwrap();
    (0..40).for_each(|page| touch(region.as_ref(), page));
    region.prefetch(0..SIZE).unwrap();
    region.evict(0..SIZE).unwrap();
    region.stats();
    assert_eq!(region.window().load(0).unwrap(), 7);
}

#[test]
fn partitions_share_the_cache_of_their_device() {
    let (_place, region) = used("");
    let uid = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap());
    let partition = region.partition(8 * PAGE..12 * PAGE, uid).unwrap();
    touch(partition.as_ref(), 0);
    assert!(is_resident(region.as_ref(), 8) && is_resident(partition.as_ref(), 0));
    assert_eq!(partition.stats(), region.stats());
    (20..36).for_each(|page| touch(region.as_ref(), page));
    assert!(!is_resident(partition.as_ref(), 0));
}

#[test]
fn a_profile_that_is_not_known_is_refused() {
    let refusal = emu("&profile=cosmos").try_open().unwrap_err().to_string();
    assert!(refusal.contains("expected cmm-h"), "{refusal}");
}
