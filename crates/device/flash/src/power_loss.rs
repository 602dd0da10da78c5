//! Power-loss injection for tests. The process "dies" before a given store to protected state, each run at the same one. Or a
//! watcher is called before each store and each operation of the medium, and examines what a power loss there would leave.

use std::cell::RefCell;

#[cfg(test)]
use std::cell::Cell;
#[cfg(test)]
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Where power can be cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Point {
    /// Before a word of protected state is stored, or any bytes of it are handed out to be stored to.
    Store,
    /// Before a page is programmed.
    Program,
    /// Before bytes of a page are read.
    Read,
    /// Before a block is erased.
    Erase,
}

type Watcher = Box<dyn FnMut(Point)>;

thread_local! {
    static WATCHER: RefCell<Option<Watcher>> = const { RefCell::new(None) };
}

/// Calls `watcher` before each point that this thread reaches from now on; `None` ends it. Points that the watcher itself
/// reaches do not count.
pub fn watch(watcher: Option<Watcher>) {
    WATCHER.set(watcher);
}

pub(crate) fn at(point: Point) {
    let Some(mut watcher) = WATCHER.take() else { return };
    watcher(point);
    WATCHER.set(Some(watcher));
}

#[cfg(test)]
thread_local! {
    static STORES_LEFT: Cell<u64> = const { Cell::new(u64::MAX) };
}

#[cfg(test)]
struct PowerCut;

/// Called before each store of a word.
pub(crate) fn before_store() {
    at(Point::Store);
    #[cfg(test)]
    STORES_LEFT.with(|left| match left.get() {
        0 => resume_unwind(Box::new(PowerCut)),
        stores => left.set(stores - 1),
    });
}

#[cfg(test)]
/// Runs `what` until it has made `stores` stores. Says how many were left when it ended by itself.
pub(crate) fn run_for(stores: u64, what: impl FnOnce()) -> Option<u64> {
    STORES_LEFT.set(stores);
    let ended = catch_unwind(AssertUnwindSafe(what));
    let left = STORES_LEFT.replace(u64::MAX);
    match ended {
        Ok(()) => Some(left),
        Err(cut) if cut.is::<PowerCut>() => None,
        Err(other) => resume_unwind(other),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeMap;
    use std::fs::File;
    use std::os::unix::fs::FileExt;
    use std::path::Path;

    use byway_link::Profile;
    use rustix::fs::{SeekFrom, seek};

    use super::run_for;
    use crate::counters::Cause;
    use crate::flash::Flash;
    use crate::image::namespaces::{ExtentId, NamespaceKind, NamespaceSpec};
    use crate::lease::BlockLease;
    use crate::location::{Before, Location};
    use crate::media::MediaKind;
    use crate::options::{FlashOptions, OpenOptions};
    use crate::word;

    const MIB: u64 = 1 << 20;
    const UNITS: u64 = 2 * MIB / 4096;
    const PAGES: u64 = 2 * MIB / 16384;
    const STEPS: u64 = 120;
    const CUTS: u64 = 300;

    const NVM: NamespaceSpec = NamespaceSpec {
        nsid: Some(1),
        kind: NamespaceKind::Nvm { lba_bytes: 4096 },
        size_bytes: UNITS * 4096,
    };
    const KV: NamespaceSpec =
        NamespaceSpec { nsid: Some(2), kind: NamespaceKind::Kv, size_bytes: PAGES * 16384 };
    const PASSING: NamespaceSpec =
        NamespaceSpec { nsid: Some(3), kind: NamespaceKind::Kv, size_bytes: 16384 };

    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    enum Target {
        Unit(u64),
        Page(u64),
        Owner,
        Access,
        Passing,
    }

    /// What step `step` changes, and whether it writes or forgets.
    fn plan(step: u64) -> (Target, bool) {
        let mixed = step.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 16;
        let target = match mixed % 20 {
            0 => Target::Owner,
            3 => Target::Access,
            1 | 2 => Target::Passing,
            4..=6 => Target::Page(mixed / 32 % PAGES),
            _ => Target::Unit(mixed / 32 % UNITS),
        };
        (target, !mixed.is_multiple_of(7))
    }

    fn bytes(step: u64, len: usize) -> Vec<u8> {
        (0..len / 8).flat_map(|i| (step << 20 | i as u64).to_le_bytes()).collect()
    }

    fn extent(flash: &Flash, nsid: u32) -> ExtentId {
        flash.namespace(nsid).unwrap().extent
    }

    fn do_step(flash: &mut Flash, step: u64) {
        let (blocks, pairs) = (extent(flash, 1), extent(flash, 2));
        match plan(step) {
            (Target::Unit(unit), true) => {
                flash.write_units(blocks, unit, &bytes(step, 4096), Cause::Host, &mut 0)
            }
            (Target::Unit(unit), false) => flash.trim(blocks, unit..unit + 1),
            (Target::Page(page), true) => {
                flash.write_page(pairs, page, &bytes(step, 16384), Cause::Host, &mut 0)
            }
            (Target::Page(page), false) => flash.trim(pairs, page..page + 1),
            (Target::Owner, _) => flash.set_owner_state(1, &step.to_le_bytes()),
            (Target::Access, _) => flash.set_access_state(1, &step.to_le_bytes()),
            (Target::Passing, _) => toggle_passing(flash, step),
        }
        .unwrap();
    }

    /// Makes a third namespace with data and an area, or removes it.
    fn toggle_passing(flash: &mut Flash, step: u64) -> Result<(), crate::FlashError> {
        if flash.namespace(3).is_some() {
            return flash.remove_namespace(3);
        }
        let made = flash.add_namespace(PASSING)?;
        let area = flash.add_area(3, crate::AreaId(1), 100)?;
        flash.commit_u64(area, 0, step);
        flash.write_page(made.extent, 0, &bytes(step, 16384), Cause::Host, &mut 0)
    }

    /// What is at a target: the step that wrote it, if one did.
    fn found_at(flash: &mut Flash, target: Target) -> Option<u64> {
        let (extent, index, len) = match target {
            Target::Unit(unit) => (extent(flash, 1), unit, 4096),
            Target::Page(page) => (extent(flash, 2), page, 16384),
            Target::Owner | Target::Access => {
                let record = flash.namespace(1).unwrap();
                let state =
                    if target == Target::Owner { &record.owner_state[..] } else { &record.access_state[..] };
                return Some(u64::from_le_bytes(*state.first_chunk().unwrap())).filter(|step| *step > 0);
            }
            Target::Passing => return None,
        };
        let mut data = vec![0; len];
        flash.read(extent, index * len as u64, &mut data, Cause::Host, &mut 0).unwrap();
        let step = u64::from_le_bytes(*data.first_chunk().unwrap()) >> 20;
        assert!(
            step == 0 && data.iter().all(|byte| *byte == 0) || data == bytes(step, len),
            "{target:?} is torn"
        );
        Some(step).filter(|step| *step > 0)
    }

    /// An image that has been written often enough for garbage collection to run in the steps that follow.
    fn make_base(path: &Path) -> Vec<u64> {
        let profile = Profile::by_name("gen4x4").unwrap().flash;
        let options = FlashOptions::new(4 * MIB + 65536, profile, MediaKind::File(path.to_path_buf()));
        let mut flash = Flash::create(options, &[NVM, KV]).unwrap();
        let steps: Vec<u64> = (1..3000).collect();
        steps.iter().for_each(|step| do_step(&mut flash, *step));
        assert!(flash.counters()[Cause::Gc].erases > 0);
        steps
    }

    fn copy_sparse(from: &Path, to: &Path) {
        let (from, to) = (File::open(from).unwrap(), File::create(to).unwrap());
        let len = from.metadata().unwrap().len();
        to.set_len(len).unwrap();
        let mut at = 0;
        while let Ok(data) = seek(&from, SeekFrom::Data(at)) {
            let end = seek(&from, SeekFrom::Hole(data)).unwrap();
            let mut piece = vec![0; (end - data) as usize];
            from.read_exact_at(&mut piece, data).unwrap();
            to.write_all_at(&piece, data).unwrap();
            at = end;
        }
    }

    type Model = BTreeMap<Target, Option<u64>>;

    fn apply(model: &mut Model, step: u64) {
        let (target, writes) = plan(step);
        model.insert(target, (writes || matches!(target, Target::Owner | Target::Access)).then_some(step));
    }

    /// Does a step; units are written by two leases in turn, everything else once they are recalled.
    fn do_step_by_leases(flash: &mut Flash, leases: &[BlockLease; 2], step: u64) {
        let (Target::Unit(unit), true) = plan(step) else {
            flash.take_in_writes();
            return do_step(flash, step);
        };
        let reader = flash.block_reader(extent(flash, 1)).unwrap();
        let lease = &leases[(step % 2) as usize];
        let write = || reader.write_by(lease, unit * 4096, &bytes(step, 4096), || true);
        if !write() {
            flash.renew_block_lease(lease).unwrap();
            assert!(write(), "the map has its room, and a renewed lease too");
        }
    }

    /// Does the steps until the cut; says which were acknowledged, and the stores left if all were done.
    fn run_until_cut(path: &Path, first: u64, stores: u64, by_leases: bool) -> (u64, Option<u64>) {
        let mut done = first;
        let left = run_for(stores, || {
            let mut flash = Flash::open(path, OpenOptions::default().timing(!by_leases)).unwrap();
            let leases = by_leases.then(|| [0, 1].map(|_| flash.open_block_lease().unwrap()));
            while done < first + STEPS {
                match &leases {
                    Some(leases) => do_step_by_leases(&mut flash, leases, done),
                    None => do_step(&mut flash, done),
                }
                done += 1;
            }
        });
        (done, left)
    }

    #[test]
    fn a_cut_before_any_store_loses_and_tears_nothing() {
        cut_before_any_store(false);
    }

    #[test]
    fn a_cut_before_any_store_by_leases_loses_and_tears_nothing() {
        cut_before_any_store(true);
    }

    fn cut_before_any_store(by_leases: bool) {
        let dir = tempfile::tempdir().unwrap();
        let (base, path) = (dir.path().join("base"), dir.path().join("image"));
        let steps = make_base(&base);
        let first = steps.len() as u64 + 1;
        let mut before = Model::new();
        steps.iter().for_each(|step| apply(&mut before, *step));

        copy_sparse(&base, &path);
        let enough = 1 << 40;
        let (_, left) = run_until_cut(&path, first, enough, by_leases);
        let total = enough - left.unwrap();
        assert!(total > CUTS);
        for cut in (0..CUTS).map(|cut| cut * total / CUTS) {
            copy_sparse(&base, &path);
            let (done, _) = run_until_cut(&path, first, cut, by_leases);
            let mut model = before.clone();
            (first..done).for_each(|step| apply(&mut model, step));
            let mut flash = Flash::open(&path, OpenOptions::default()).unwrap();
            assert_eq!(flash.check(), [], "cut before store {cut}");
            let (under_way, _) = plan(done);
            let mut after = model.clone();
            apply(&mut after, done);
            for (target, step) in model.iter().filter(|(target, _)| **target != Target::Passing) {
                let found = found_at(&mut flash, *target);
                let may_be = *target == under_way && found == after[target];
                assert!(
                    found == *step || may_be,
                    "cut before store {cut}: {target:?} of {step:?} is {found:?}"
                );
            }
            assert!(flash.namespaces().count() <= 3 && flash.unallocated_bytes() <= 65536);
        }
    }

    /// A loss of power before the next sync sets the block back to that.
    #[test]
    fn unmapped_block_is_noted_as_such_wherever_its_taking_in_is_cut() {
        const FIRST_UNUSED: u64 = 1;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        for stores in 0.. {
            let profile = Profile::by_name("gen4x4").unwrap().flash;
            let options = FlashOptions::new(4 * MIB, profile, MediaKind::File(path.clone())).timing(false);
            let mut flash = Flash::create(options, &[NVM]).unwrap();
            let blocks = extent(&flash, 1);
            flash.write_units(blocks, 0, &bytes(1, 4096), Cause::Host, &mut 0).unwrap();
            let lease = flash.open_block_lease().unwrap();
            flash.renew_block_lease(&lease).unwrap();
            let reader = flash.block_reader(blocks).unwrap();
            assert!(reader.write_by(&lease, FIRST_UNUSED * 4096, &bytes(2, 4096), || true));
            let left = run_for(stores, || flash.take_in_writes());
            let (_, map) = flash.regions().into_iter().find(|(name, _)| *name == "map").unwrap();
            drop((flash, reader, lease));
            drop(Flash::open(&path, OpenOptions::default()).unwrap());
            let mut word = [0; 8];
            File::open(&path).unwrap().read_exact_at(&mut word, map.start + FIRST_UNUSED * 8).unwrap();
            let value = u64::from_le_bytes(word) & word::MAX_VALUE;
            assert!(matches!(Location::from_value(value), Some(Location::Buffer(_))));
            assert_eq!(Before::from_value(value), Before::Unmapped, "cut before store {stores}");
            std::fs::remove_file(&path).unwrap();
            if left.is_some() {
                assert!(stores > 4);
                break;
            }
        }
    }
}
