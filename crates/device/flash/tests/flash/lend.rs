//! Bytes that are lent from where they lie: the same as are read, counted and timed the same.

use crate::common::{MIB, create, extent, kv, nvm, page_of, small_profile};
use byway_flash::{Cause, Flash, FlashError, FlashOptions, MediaKind, Reads, RunOptions};
use proptest::prelude::*;

const PAGE: usize = 16384;
const PAGES: u64 = 40;

fn media(kind: MediaKind, reads: Reads) -> Flash {
    let options = FlashOptions::new(4 * MIB, small_profile(), kind).run(RunOptions::default().reads(reads));
    Flash::create(options, &[kv(4 * MIB)]).unwrap()
}

fn image(dir: &tempfile::TempDir) -> MediaKind {
    MediaKind::File(dir.path().join("image"))
}

fn any_reads() -> impl Strategy<Value = Reads> {
    prop_oneof![Just(Reads::Mapped), Just(Reads::Checked)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Pages are written over and over, so that blocks are collected beneath.
    #[test]
    fn lent_pages_equal_read_pages(
        (in_memory, reads) in (any::<bool>(), any_reads()),
        writes in proptest::collection::vec((0..PAGES, 1..1000u64), 1..400),
        looks in proptest::collection::vec((0..PAGES, 0..PAGE, 1..PAGE), 1..40),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut flash = media(if in_memory { MediaKind::Ram } else { image(&dir) }, reads);
        let extent = extent(&flash, 1);
        for (page, seed) in writes {
            let data = page_of(&flash, seed);
            flash.write_page(extent, page, &data, Cause::Host, &mut 0).unwrap();
        }
        let mut now_ps = 1 << 50;
        for (page, within, len) in looks {
            let (at, len) = (page * PAGE as u64 + within as u64, len.min(PAGE - within));
            let (mut wanted, mut room) = (vec![1; len], vec![2; len]);
            // Long after whatever was before it.
            now_ps += 2 << 40;
            let (mut read_ps, begin_ps) = (now_ps, now_ps + (1 << 40));
            flash.read(extent, at, &mut wanted, Cause::Host, &mut read_ps).unwrap();
            let counted = flash.counters()[Cause::Host];
            let mut lent_ps = begin_ps;
            prop_assert_eq!(flash.lend(extent, at, &mut room, Cause::Host, &mut lent_ps).unwrap(), &wanted[..]);
            let after = flash.counters()[Cause::Host];
            prop_assert_eq!(lent_ps - begin_ps, read_ps - now_ps);
            let units = ((within + len).div_ceil(4096) - within / 4096) as u64;
            let on_flash = lent_ps > begin_ps;
            prop_assert_eq!(after.reads - counted.reads, u64::from(on_flash));
            prop_assert_eq!(after.read_bytes - counted.read_bytes, if on_flash { units * 4096 } else { 0 });
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// A view finds what a look finds, and of a page that was never written, or is outside, as little.
    #[test]
    fn pages_of_a_view_are_those_of_a_peek(
        (in_memory, reads) in (any::<bool>(), any_reads()),
        writes in proptest::collection::vec((0..PAGES, 1..1000u64), 1..400),
        looks in proptest::collection::vec((0..2 * PAGES, 0..PAGE, 1..PAGE), 1..40),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut flash = media(if in_memory { MediaKind::Ram } else { image(&dir) }, reads);
        let extent = extent(&flash, 1);
        prop_assert!(flash.view(extent).is_none(), "reads take modelled time");
        flash.set_timing(false);
        for (page, seed) in writes {
            let data = page_of(&flash, seed);
            flash.write_page(extent, page, &data, Cause::Host, &mut 0).unwrap();
        }
        let view = flash.view(extent);
        prop_assert_eq!(view.is_some(), in_memory || reads == Reads::Mapped);
        let end = flash.extent_len_bytes(extent).unwrap();
        for (page, within, len) in looks {
            let at = page * PAGE as u64 + within as u64;
            for (at, len) in [(at, len), (end - len as u64, len), (end - 1, len), (end, len), (u64::MAX, len)] {
                let seen = view.and_then(|view| view.peek(at, len));
                prop_assert_eq!(seen, flash.peek(extent, at, len).filter(|_| view.is_some()));
            }
        }
    }
}

#[test]
fn nothing_outside_of_an_extent_is_lent() {
    let dir = tempfile::tempdir().unwrap();
    let mut flash = media(image(&dir), Reads::Mapped);
    let extent = extent(&flash, 1);
    let mut room = [0; 11];
    let end = flash.extent_len_bytes(extent).unwrap();
    let lent = flash.lend(extent, end - 10, &mut room, Cause::Host, &mut 0);
    assert!(matches!(lent, Err(FlashError::OutOfRange { .. })));
    flash.prefetch(extent, u64::MAX, 100);
    flash.prefetch(extent, 0, 1 << 30);
}

#[test]
fn blocks_are_read_and_verified_where_pages_would_be_lent() {
    let dir = tempfile::tempdir().unwrap();
    let media = MediaKind::File(dir.path().join("image"));
    let mut flash = create(media, 4 * MIB, &[nvm(4 * MIB)]);
    let extent = extent(&flash, 1);
    flash.write_units(extent, 0, &[7; 8 * 4096], Cause::Host, &mut 0).unwrap();
    let (mut room, mut at_ps) = ([0; 100], 0);
    assert_eq!(flash.lend(extent, 4000, &mut room, Cause::Host, &mut at_ps).unwrap(), [7; 100]);
    assert_eq!(room, [7; 100], "read into the room");
}

#[test]
fn memory_that_is_taken_at_once_is_empty_and_keeps_what_is_written() {
    let options =
        FlashOptions::new(4 * MIB, small_profile(), MediaKind::Ram).run(RunOptions::default().prefault(true));
    let mut flash = Flash::create(options, &[nvm(4 * MIB)]).unwrap();
    let extent = extent(&flash, 1);
    flash.write_units(extent, 1, &[7; 4096], Cause::Host, &mut 0).unwrap();
    let mut read = [1; 3 * 4096];
    flash.read(extent, 0, &mut read, Cause::Host, &mut 0).unwrap();
    assert!(read[..4096].iter().chain(&read[8192..]).all(|byte| *byte == 0));
    assert!(read[4096..8192].iter().all(|byte| *byte == 7));
}
