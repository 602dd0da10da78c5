//! Whether notes of dead records and the index say the same of every record that compaction may look at.
#![allow(clippy::unwrap_used)]
use super::*;
use crate::engine::StoreHow;
use crate::engine::lease::LeaseId;
use crate::layout::KvFormat;
use crate::options::KvOptions;
use byway_flash::{Flash, FlashOptions, MediaKind, NamespaceKind, NamespaceRecord, NamespaceSpec};
use byway_spec::Key;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Put {
        key: u16,
        len: usize,
    },
    /// By one of two leases, beside the other.
    PutBeside {
        key: u16,
        len: usize,
        second: bool,
    },
    Delete {
        key: u16,
    },
    Flush,
    Settle,
    Reclaim,
    Reopen,
    Format,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        400 => (0u16..600, prop_oneof![20 => 0usize..24_000, 1 => 0usize..150_000])
            .prop_map(|(key, len)| Step::Put { key, len }),
        400 => (0u16..600, 0usize..6000, any::<bool>())
            .prop_map(|(key, len, second)| Step::PutBeside { key, len, second }),
        40 => (0u16..600).prop_map(|key| Step::Delete { key }),
        4 => Just(Step::Flush),
        4 => Just(Step::Settle),
        1 => Just(Step::Reclaim),
        1 => Just(Step::Reopen),
        1 => Just(Step::Format),
    ]
}

struct Rig {
    flash: Flash,
    namespace: NamespaceRecord,
    kv: KvEngine,
    leases: [Option<LeaseId>; 2],
}

impl Rig {
    fn new(options: KvOptions) -> Self {
        Self::on(MediaKind::Ram, options)
    }

    fn on(media: MediaKind, options: KvOptions) -> Self {
        let profile = byway_link::Profile::by_name("cosmos").unwrap().flash;
        let spec = NamespaceSpec { nsid: None, kind: NamespaceKind::Kv, size_bytes: 12 << 20 };
        let mut flash = Flash::create(FlashOptions::new(32 << 20, profile, media), &[spec]).unwrap();
        let namespace = flash.namespace(1).unwrap().clone();
        let format = KvFormat { ring_pages: 4, windows: 2, window_bytes: 64 << 10 };
        let kv = KvEngine::create(&mut flash, &namespace, &format, options).unwrap();
        Self { flash, namespace, kv, leases: [None; 2] }
    }

    fn put_beside(&mut self, key: &Key, value: &[u8], second: bool) {
        let Self { flash, kv, leases, .. } = self;
        let lease = &mut leases[usize::from(second)];
        *lease = lease.or_else(|| kv.open_lease(flash));
        let lease = lease.unwrap();
        if !kv.put_beside(flash, lease, key, value) {
            let done = kv.put_leased(flash, lease, key, value, &mut 0);
            assert!(matches!(done, Ok(()) | Err(KvError::Full)), "{done:?}");
        }
    }

    fn apply(&mut self, step: &Step, n: usize) {
        let key_of = |key: &u16| Key::new(&key.to_be_bytes()).unwrap();
        match step {
            Step::PutBeside { key, len, second } => {
                self.put_beside(&key_of(key), &vec![n as u8; *len], *second);
            }
            step => self.apply_alone(step, n),
        }
    }

    /// A step by the holder of the run lock, which knows of all stores.
    fn apply_alone(&mut self, step: &Step, n: usize) {
        let (flash, kv) = (&mut self.flash, &mut self.kv);
        kv.take_in(flash);
        let key_of = |key: &u16| Key::new(&key.to_be_bytes()).unwrap();
        match step {
            Step::Put { key, len } => {
                let done = kv.put(flash, &key_of(key), &vec![n as u8; *len], StoreHow::default(), &mut 0);
                assert!(matches!(done, Ok(()) | Err(KvError::Full)), "{done:?}");
            }
            Step::Delete { key } => drop(kv.delete(flash, &key_of(key), &mut 0).unwrap()),
            Step::Flush => kv.flush(flash, &mut 0).unwrap(),
            Step::Settle => kv.index.settle_all(&mut kv.log, flash, &mut 0),
            Step::Reclaim => kv.reclaim(flash, &mut 0).unwrap(),
            Step::Reopen => {
                self.kv = KvEngine::open(flash, &self.namespace, kv.options).unwrap().0;
                self.leases = [None; 2];
            }
            Step::Format => {
                kv.format(flash, &mut 0).unwrap();
                self.leases = [None; 2];
            }
            Step::PutBeside { .. } => {}
        }
    }

    /// Values in segments that may be emptied and whose dead records are all noted; each is alive by the notes if
    /// it is by the index.
    fn agree(&mut self) -> usize {
        let kv = &mut self.kv;
        kv.take_in(&mut self.flash);
        let shift = kv.log.layout().segment_shift;
        let mut seen = 0;
        for segment in 0..kv.log.layout().segments as u32 {
            let address = u64::from(segment) << shift;
            let Some(used @ Use::Log { stream, ordinal }) = kv.log.segments().use_of(segment.into()) else {
                continue;
            };
            if !kv.log.segments().knows_dead(address) || !kv.may_be_victim(segment, used) {
                continue;
            }
            let mut job = kv.begin_job(segment, &mut self.flash, &mut 0);
            while let Some(found) = job.scanner.next(&mut kv.log, &mut self.flash, &mut 0) {
                let Found::Record { preamble, position } = found else { continue };
                if preamble.shape.kind() != Kind::Value {
                    continue;
                }
                let at = address | position & (kv.log.layout().segment_bytes() - 1);
                let entry = Entry::new(&preamble.key, preamble.shape, at, preamble.seq);
                let newest = kv.index.get(&preamble.key, &mut self.flash, &mut 0).unwrap();
                let is_newest = newest.is_some_and(|newest| newest == entry);
                let by_notes = kv.is_alive(&entry, &mut self.flash, &mut 0).unwrap();
                assert_eq!(by_notes, is_newest, "stream {stream}, segment {ordinal}: {entry:?}, {newest:?}");
                seen += 1;
            }
        }
        seen
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    /// Whatever was put, deleted, flushed, moved and settled before, and wherever a memtable is on its way to flash.
    #[test]
    fn a_record_is_alive_by_the_notes_exactly_if_it_is_by_the_index(
        steps in proptest::collection::vec(step(), 1500..3000),
        every in 50usize..400,
        memtable_entries in 20usize..400,
    ) {
        let memtable_bytes = memtable_entries * crate::index::memtable::MEMTABLE_ENTRY_BYTES;
        let mut rig = Rig::new(KvOptions { memtable_bytes, ..KvOptions::default() });
        for (n, step) in steps.iter().enumerate() {
            rig.apply(step, n);
            if n % every == 0 {
                rig.agree();
            }
        }
    }
}

#[test]
fn compaction_asks_the_notes_of_nearly_every_record() {
    let options = KvOptions { memtable_bytes: 24 << 10, ..KvOptions::default() };
    let mut rig = Rig::new(options);
    let mut seen = 0;
    for n in 0..6000u32 {
        let key = (n.wrapping_mul(2_654_435_761) >> 20) as u16 % 600;
        rig.apply(&Step::Put { key, len: 15_000 }, n as usize);
        seen += if n % 1000 == 0 { rig.agree() } else { 0 };
    }
    let moved = rig.kv.stats().compaction.moved_records;
    assert!(seen > 500 && moved > 500, "{seen} {moved}");
}

#[test]
fn compaction_asks_the_notes_of_records_stored_by_leases() {
    let mut rig = Rig::new(KvOptions { memtable_bytes: 24 << 10, ..KvOptions::default() });
    let mut seen = 0;
    for n in 0..20_000u32 {
        let key = (n.wrapping_mul(2_654_435_761) >> 20) as u16 % 600;
        rig.apply(&Step::PutBeside { key, len: 5000, second: n % 3 == 0 }, n as usize);
        seen += if n % 2000 == 0 { rig.agree() } else { 0 };
    }
    assert!(seen > 500, "{seen} records of segments whose dead records are noted");
}

#[test]
fn record_is_not_moved_without_a_number_set_aside_for_it() {
    let mut rig = Rig::new(KvOptions::default());
    let last = rig.kv.next_seq.last();
    assert!(matches!(rig.kv.moved_number(), Err(KvError::NoNumberLeft)));
    assert_eq!(rig.kv.next_seq.last(), last);
}

/// Zero bytes are padding where the flash says that they were written.
#[test]
fn a_record_that_was_wiped_is_not_passed_for_padding() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let mut rig = Rig::on(MediaKind::File(path.clone()), KvOptions::default());
    for n in 1..250u16 {
        rig.apply(&Step::Put { key: n, len: 900 + usize::from(n) }, usize::from(250 - n));
    }
    // What comes behind fills the ring, from which the rest would be read.
    (400..600).for_each(|n| rig.apply(&Step::Put { key: n, len: 20_000 }, 251));
    rig.apply(&Step::Flush, 0);
    let image = std::fs::read(&path).unwrap();
    // Where a value lies, if it lies in one piece: every 512th byte of the image hits one.
    let lies_at = |n: u16, at: usize| {
        let is_of = |byte: &&u8| u16::from(**byte) == 250 - n;
        let before = image[..at].iter().rev().take_while(is_of).count();
        let len = before + image[at..].iter().take_while(is_of).count();
        (len == 900 + usize::from(n)).then(|| at - before)
    };
    let find = |n: u16| (0..image.len()).step_by(512).find_map(|at| lies_at(n, at));
    let (key, at) = (200..240).find_map(|n| Some((n, find(n)?))).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    let record = vec![0; 22 + 900 + usize::from(key)];
    std::os::unix::fs::FileExt::write_all_at(&file, &record, at as u64 - 22).unwrap();
    let Rig { flash, kv, .. } = &mut rig;
    let entry = kv.index.get(&Key::new(&key.to_be_bytes()).unwrap(), flash, &mut 0).unwrap().unwrap();
    let mut job = kv.begin_job((entry.address() >> kv.log.layout().segment_shift) as u32, flash, &mut 0);
    assert!(job.is_all_seen());
    while job.scanner.next(&mut kv.log, flash, &mut 0).is_some() {}
    assert!(!job.is_all_seen());
}
