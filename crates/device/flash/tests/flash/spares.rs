//! Full devices whose blocks fail, one after the other: they take every write until their spares are used up, report the
//! spares that are left, and can be read from then on. A run of so many random devices: `BYWAY_TEST_CASES=2000`.

use std::path::Path;

use crate::common::{MIB, extent, kv, nvm, open, page_of, small_profile, unit_of};
use byway_flash::{
    Cause, ExtentId, FactoryBad, Flash, FlashError, FlashOptions, FlashProfile, MediaKind, NamespaceSpec,
    OpenOptions, RunOptions,
};
use byway_kit::spread;
use proptest::prelude::*;

const SIZE: u64 = 6 * MIB;
const PAGE: u64 = 8192;
/// A rule by which nothing fails.
const NOTHING: &str = "read:nth=1000000000";

/// What is written at once: units of a block namespace, pages of one of keys and values.
#[derive(Clone, Copy)]
enum Piece {
    Unit(ExtentId, u64),
    Page(ExtentId, u64),
}

/// A device and what each piece of it must hold.
struct Device {
    flash: Flash,
    pieces: Vec<(Piece, u64)>,
    step: u64,
}

fn run(inject: &str) -> RunOptions {
    RunOptions::default().injection(Some(inject.parse().unwrap()))
}

fn options(media: MediaKind, inject: &str) -> FlashOptions {
    // As many blocks as can be, and few of them open, so that nearly all are needed.
    let profile = FlashProfile {
        channels: 1,
        ways: 2,
        pages_per_block: 16,
        page_bytes: PAGE as u32,
        ..small_profile()
    };
    FlashOptions::new(SIZE, profile, media).run(run(inject))
}

fn shapes() -> [Vec<NamespaceSpec>; 4] {
    [
        vec![nvm(SIZE)],
        vec![kv(SIZE)],
        vec![kv(SIZE / 2), nvm(SIZE / 2)],
        vec![kv(SIZE / 4), nvm(SIZE / 4), kv(SIZE / 4)],
    ]
}

impl Device {
    fn new(options: FlashOptions, namespaces: &[NamespaceSpec]) -> Self {
        Self { flash: Flash::create(options, namespaces).unwrap(), pieces: Vec::new(), step: 0 }
    }

    /// Writes all that the namespaces were promised, and no more.
    fn fill(&mut self, percent: u64) {
        let nsids: Vec<u32> = self.flash.namespaces().map(|record| record.nsid).collect();
        for nsid in nsids {
            let at = extent(&self.flash, nsid);
            let entries = self.flash.extent_entries(at).unwrap();
            let unit = self.flash.extent_len_bytes(at).unwrap() / entries < PAGE;
            for index in 0..entries * percent / 100 {
                let piece = if unit { Piece::Unit(at, index) } else { Piece::Page(at, index) };
                self.pieces.push((piece, 0));
                self.write(self.pieces.len() - 1).unwrap();
            }
        }
    }

    fn write(&mut self, at: usize) -> Result<(), FlashError> {
        self.step += 1;
        match self.pieces[at].0 {
            Piece::Unit(extent, unit) => {
                self.flash.write_units(extent, unit, &unit_of(self.step), Cause::Host, &mut 0)?;
            }
            Piece::Page(extent, page) => {
                let data = page_of(&self.flash, self.step);
                // To blocks of every kind.
                match self.step % 4 {
                    0 => self.flash.write_page(extent, page, &data, Cause::Host, &mut 0),
                    1 => self.flash.write_page(extent, page, &data, Cause::LogCompaction, &mut 0),
                    2 => self.flash.write_page(extent, page, &data, Cause::Index, &mut 0),
                    _ => self.flash.write_merged_page(extent, page, &data, Cause::Index, &mut 0),
                }?;
            }
        }
        self.pieces[at].1 = self.step;
        Ok(())
    }

    /// Overwrites any piece.
    fn overwrite(&mut self) -> Result<(), FlashError> {
        let at = spread(self.step) % self.pieces.len() as u64;
        self.write(at as usize)
    }

    /// Overwrites until another block went bad, or more than one at the same time.
    fn overwrite_until_another_is_bad(&mut self) -> Result<(), FlashError> {
        let bad = self.flash.health().grown_bad_blocks;
        for _ in 0..200 * self.pieces.len() {
            self.overwrite()?;
            if self.flash.health().grown_bad_blocks > bad {
                return Ok(());
            }
        }
        panic!("no block fails any more");
    }

    fn assert_holds(&mut self) {
        for (piece, step) in &self.pieces {
            let (extent, at_bytes, wanted) = match piece {
                Piece::Unit(extent, unit) => (*extent, unit * 4096, unit_of(*step)),
                Piece::Page(extent, page) => (*extent, page * PAGE, page_of(&self.flash, *step)),
            };
            let mut found = vec![0; wanted.len()];
            self.flash.read(extent, at_bytes, &mut found, Cause::Host, &mut 0).unwrap();
            assert!(found == wanted, "step {step} is not there");
        }
        assert_eq!(self.flash.check(), []);
    }

    /// Asserts that the available spare is `left` of `all` blocks.
    fn assert_left(&self, all: u32, left: u32) {
        let health = self.flash.health();
        assert_eq!((health.spare_blocks, health.spare_blocks_left), (all, left), "{health:?}");
        assert_eq!(u32::from(health.available_spare_percent), left * 100 / all);
        assert!(!health.worn_out && !self.flash.is_read_only());
    }

    fn assert_is_read_and_not_written(&mut self) {
        let health = self.flash.health();
        assert_eq!((health.spare_blocks_left, health.available_spare_percent), (0, 0));
        assert!(health.worn_out && health.percentage_used >= 100 && self.flash.is_read_only());
        assert!(matches!(self.overwrite(), Err(FlashError::WornOut)));
        self.assert_holds();
    }

    fn reopen(&mut self, path: &Path, inject: &str) {
        let gone = Flash::create(options(MediaKind::Null, NOTHING), &[]).unwrap();
        drop(std::mem::replace(&mut self.flash, gone));
        self.flash = Flash::open(path, OpenOptions::default().run(run(inject))).unwrap();
    }
}

#[test]
fn a_full_device_takes_every_write_until_its_spares_are_used_up_one_by_one() {
    let dir = tempfile::tempdir().unwrap();
    for (number, namespaces) in shapes().iter().enumerate() {
        for (percent, inject) in
            [(100, "program:nth=150"), (100, "erase:nth=3"), (95, "program:nth=97"), (95, "erase:nth=9")]
        {
            let path = dir.path().join(format!("{number}-{percent}-{inject}"));
            let mut device = Device::new(options(MediaKind::File(path.clone()), NOTHING), namespaces);
            device.fill(percent);
            let all = device.flash.health().spare_blocks;
            assert!(all >= 4, "{all} blocks to spare");
            for left in (0..all).rev() {
                device.reopen(&path, inject);
                device.overwrite_until_another_is_bad().unwrap();
                device.assert_left(all, left);
                device.assert_holds();
            }
            device.reopen(&path, inject);
            while device.overwrite().is_ok() {}
            device.assert_is_read_and_not_written();
            device.flash = open_again(device.flash, &path);
            device.assert_is_read_and_not_written();
        }
    }
}

fn open_again(flash: Flash, path: &Path) -> Flash {
    drop(flash);
    open(path).unwrap()
}

/// On a device that has a few spares left, so that much of what fails is garbage collection.
#[test]
fn blocks_failing_in_close_succession_fail_no_write() {
    for namespaces in shapes() {
        let spares = Device::new(options(MediaKind::Ram, NOTHING), &namespaces).flash.health().spare_blocks;
        let fail_early = (1..=spares - 4).map(|n| format!("program:nth={}", 20 * n));
        let fail_early = fail_early.chain([NOTHING.into()]).collect::<Vec<_>>().join(",");
        let mut device = Device::new(options(MediaKind::Ram, &fail_early), &namespaces);
        device.fill(100);
        (0..2 * device.pieces.len()).for_each(|_| device.overwrite().unwrap());
        let counters = device.flash.counters();
        let (programs, erases) = (counters.total().programs, counters.total().erases);
        assert!(counters[Cause::Gc].programs > programs / 8, "{counters:?}");
        for (operation, from, distance) in [
            ("program", programs, 40),
            ("program", programs, 11),
            ("program", programs, 3),
            ("program", programs, 1),
            ("erase", erases, 3),
            ("erase", erases, 1),
        ] {
            let rules = (0..4).map(|n| format!("{operation}:nth={}", from + n * distance));
            let rules = rules.collect::<Vec<_>>().join(",");
            let inject = format!("{fail_early},{rules}");
            let mut device = Device::new(options(MediaKind::Ram, &inject), &namespaces);
            device.fill(100);
            for _ in 0..3 * device.pieces.len() {
                let health = device.flash.health();
                let done = device.overwrite();
                assert!(
                    done.is_ok(),
                    "{done:?} with {operation} {distance} in {}: {health:?}",
                    namespaces.len()
                );
            }
            assert_eq!(device.flash.health().spare_blocks_left, 0);
            device.assert_holds();
        }
    }
}

#[test]
fn spares_are_what_is_left_beside_what_namespaces_were_promised() {
    let create = |namespaces: &[_]| Device::new(options(MediaKind::Ram, NOTHING), namespaces);
    let spares = |device: &Device| device.flash.health().spare_blocks;
    let blocks = create(&[nvm(SIZE)]);
    let mut pairs = create(&[kv(SIZE)]);
    assert!(spares(&pairs) < spares(&blocks), "the flash on top is promised");
    assert_eq!(spares(&create(&[])), spares(&blocks));
    pairs.flash.remove_namespace(1).unwrap();
    assert_eq!(spares(&pairs), spares(&blocks), "and was given back");
    pairs.flash.add_namespace(kv(SIZE)).unwrap();
    assert_eq!(spares(&pairs), spares(&create(&[kv(SIZE)])));
}

#[test]
fn a_namespace_made_on_a_device_with_bad_blocks_is_promised_less() {
    let mut options = options(MediaKind::Ram, NOTHING);
    options.factory_bad = FactoryBad { ppm: 60_000, seed: 3 };
    let mut device = Device::new(options.clone(), &[kv(SIZE)]);
    let (extent_bytes, health) =
        (device.flash.extent_len_bytes(extent(&device.flash, 1)), device.flash.health());
    assert!(health.factory_bad_blocks > 0 && health.spare_blocks >= 4, "{health:?}");
    options.factory_bad = FactoryBad::default();
    let whole = Device::new(options, &[kv(SIZE)]);
    assert!(extent_bytes.unwrap() < whole.flash.extent_len_bytes(extent(&whole.flash, 1)).unwrap());
    device.fill(100);
    for _ in 0..400 {
        device.overwrite().unwrap();
    }
    device.assert_holds();
}

/// The reserve lasts for a few blocks that are emptied but cannot be erased. Here a seventh of all erases fail.
#[test]
fn four_blocks_in_a_row_that_cannot_be_erased_leave_room_to_go_on() {
    let inject = "seed=8476743907029320079,program:nth=1200:ppm=1066:always,erase:ppm=140554";
    let mut device = Device::new(options(MediaKind::Ram, inject), &shapes()[0]);
    device.fill(99);
    let refused = (0..40_000).find_map(|_| device.overwrite().err());
    assert!(matches!(refused, None | Some(FlashError::WornOut)), "{refused:?}: {:?}", device.flash.health());
    device.assert_holds();
}

fn cases(usual: u32) -> ProptestConfig {
    ProptestConfig { cases: byway_kit::cases(usual), failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(12))]

    #[test]
    fn a_full_device_is_worn_out_by_its_last_spare_and_by_nothing_before(
        seed in any::<u64>(),
        program_ppm in 100..10_000_u32,
        erase_ppm in 0..150_000_u32,
        shape in 0..4_usize,
        percent in 90..101_u64,
    ) {
        let inject = format!("seed={seed},program:nth=1200:ppm={program_ppm}:always,erase:ppm={erase_ppm}");
        let mut device = Device::new(options(MediaKind::Ram, &inject), &shapes()[shape]);
        device.fill(percent);
        let refused = (0..40_000).find_map(|_| device.overwrite().err());
        prop_assert!(matches!(refused, None | Some(FlashError::WornOut)), "{:?}: {:?}", refused, device.flash.health());
        device.assert_holds();
    }
}
