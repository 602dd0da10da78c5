//! The daemon's table of assignments: slots in device memory that only the daemon maps.
//!
//! | bytes of a slot | |
//! |---|---|
//! | 0–7 | state: zero if free, else a checksum of all that follows with its lowest bit set |
//! | 8–15 | identity of the ring's use |
//! | 16–39 | the file: device, inode, birth time |
//! | 40–55 | offset in the user's partition, and length |
//! | 56–59, 60–63 | the user; length of the path |
//! | 64–79 | identity of the boot |
//! | 80–87 | until when a recovery may write the file, in ns since 1970; not in the checksum |
//! | 88–95 | content: a ring, or a resident file |
//! | 128–4223 | the path |

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use byway_sys::checksum::{crc32c, crc32c_append};
use byway_tdm_engine::log::RingPlace;
use byway_tdm_engine::table::FileKey;
use byway_tdm_region::{Memory, MemoryError, Point};

/// A slot's content, before its state.
pub const WRITTEN: Point = Point("a slot of the table, before it counts");
/// A slot's state, before its ring is used.
pub const PUBLISHED: Point = Point("that a slot counts, before its ring is used");
/// A free state, before the ring is used for another file.
pub const FREED: Point = Point("that a slot is free, before its ring is another's");

/// The time until which a recovery may write a file, before it does.
pub const RECOVERING: Point = Point("until when a recovery may write a file, before it does");

/// The flushes and fences of the table.
pub const POINTS: [Point; 4] = [WRITTEN, PUBLISHED, FREED, RECOVERING];

const SLOT_BYTES: u64 = 8192;
const HEAD_BYTES: usize = 96;
const RECOVERS_UNTIL_AT: u64 = 80;
const KIND_AT: usize = 88;
const RESIDENT: u64 = 1;
const PATH_AT: u64 = 128;
const PATH_MAX_BYTES: usize = 4096;

/// Slots: files that are absorbed or DAX-resident at a time.
pub const SLOTS: u32 = 256;

/// Bytes of a table.
pub const TABLE_BYTES: u64 = SLOT_BYTES * SLOTS as u64;

/// Identity of a boot.
pub type BootId = [u8; 16];

/// Content of a file's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A redo log.
    Ring,
    /// The file.
    Resident,
}

/// Content of a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// The file.
    pub key: FileKey,
    /// Its place in the user's partition.
    pub ring: RingPlace,
    /// Its user.
    pub uid: u32,
    /// Its path when it was assigned.
    pub path: PathBuf,
    /// The boot.
    pub boot: BootId,
    /// Content of the place.
    pub kind: Kind,
}

/// Number of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotNumber(pub u32);

/// State of a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// Free.
    Free,
    /// Assigned to a file.
    Used(Assignment),
    /// Damaged.
    Damaged,
}

/// The table.
#[derive(Debug)]
pub struct Table<'m, M>(&'m M);

impl<'m, M: Memory> Table<'m, M> {
    /// The table at the start of this memory, which is long enough.
    pub const fn new(memory: &'m M) -> Self {
        Self(memory)
    }

    /// All slots.
    ///
    /// # Errors
    /// What the memory says.
    pub fn slots(&self) -> Result<Vec<(SlotNumber, Found)>, MemoryError> {
        (0..SLOTS).map(SlotNumber).map(|slot| Ok((slot, self.get(slot)?))).collect()
    }

    /// The content of a slot.
    ///
    /// # Errors
    /// What the memory says.
    pub fn get(&self, slot: SlotNumber) -> Result<Found, MemoryError> {
        let at = at(slot);
        let state = self.0.load(at)?;
        if state == 0 {
            return Ok(Found::Free);
        }
        let mut head = [0; HEAD_BYTES];
        self.0.read(at, &mut head)?;
        head[RECOVERS_UNTIL_AT as usize..KIND_AT].fill(0);
        let path_len = half(&head, 60) as usize;
        if path_len > PATH_MAX_BYTES {
            return Ok(Found::Damaged);
        }
        let mut path = vec![0; path_len];
        self.0.read(at + PATH_AT, &mut path)?;
        if state != state_of(&head, &path) {
            return Ok(Found::Damaged);
        }
        let mut boot = [0; 16];
        boot.copy_from_slice(&head[64..80]);
        Ok(Found::Used(Assignment {
            key: FileKey { device: word(&head, 16), inode: word(&head, 24), born_ns: word(&head, 32) },
            ring: RingPlace { at: word(&head, 40), len_bytes: word(&head, 48), identity: word(&head, 8) },
            uid: half(&head, 56),
            path: PathBuf::from(OsStr::from_bytes(&path)),
            boot,
            kind: if word(&head, KIND_AT) == RESIDENT { Kind::Resident } else { Kind::Ring },
        }))
    }

    /// Assigns a free slot. Durable when this returns.
    ///
    /// # Errors
    /// What the memory says.
    pub fn put(&self, slot: SlotNumber, what: &Assignment) -> Result<(), MemoryError> {
        let path = path_bytes(&what.path);
        let mut head = [0; HEAD_BYTES];
        let words = [
            (8, what.ring.identity),
            (16, what.key.device),
            (24, what.key.inode),
            (32, what.key.born_ns),
            (40, what.ring.at),
            (48, what.ring.len_bytes),
        ];
        for (at, value) in words {
            head[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        head[56..60].copy_from_slice(&what.uid.to_le_bytes());
        head[60..64].copy_from_slice(&(path.len() as u32).to_le_bytes());
        head[64..80].copy_from_slice(&what.boot);
        let kind = if what.kind == Kind::Resident { RESIDENT } else { 0 };
        head[KIND_AT..].copy_from_slice(&kind.to_le_bytes());
        let at = at(slot);
        self.0.write(at + 8, &head[8..])?;
        self.0.write(at + PATH_AT, path)?;
        self.0.flush(at, PATH_AT + path.len() as u64, WRITTEN)?;
        self.0.fence(WRITTEN);
        self.set_state(slot, state_of(&head, path), PUBLISHED)
    }

    /// Frees a slot. Durable when this returns.
    ///
    /// # Errors
    /// What the memory says.
    pub fn free(&self, slot: SlotNumber) -> Result<(), MemoryError> {
        self.set_state(slot, 0, FREED)
    }

    /// The time until which a recovery may write the file, in ns since 1970; zero if none began.
    ///
    /// # Errors
    /// What the memory says.
    pub fn recovers_until_ns(&self, slot: SlotNumber) -> Result<u64, MemoryError> {
        self.0.load(at(slot) + RECOVERS_UNTIL_AT)
    }

    /// Stores that time. Durable when this returns.
    ///
    /// # Errors
    /// What the memory says.
    pub fn set_recovers_until_ns(&self, slot: SlotNumber, until_ns: u64) -> Result<(), MemoryError> {
        let at = at(slot) + RECOVERS_UNTIL_AT;
        self.0.store(at, until_ns)?;
        self.0.flush(at, 8, RECOVERING)?;
        self.0.fence(RECOVERING);
        Ok(())
    }

    fn set_state(&self, slot: SlotNumber, state: u64, point: Point) -> Result<(), MemoryError> {
        self.0.store(at(slot), state)?;
        self.0.flush(at(slot), 8, point)?;
        self.0.fence(point);
        Ok(())
    }
}

/// A path that is too long is cut: recovery then needs the user.
fn path_bytes(path: &Path) -> &[u8] {
    let bytes = path.as_os_str().as_bytes();
    &bytes[..bytes.len().min(PATH_MAX_BYTES)]
}

const fn at(slot: SlotNumber) -> u64 {
    slot.0 as u64 * SLOT_BYTES
}

fn state_of(head: &[u8; HEAD_BYTES], path: &[u8]) -> u64 {
    let sum = crc32c_append(crc32c(&head[8..]), path);
    u64::from(sum) << 8 | 1
}

fn half(head: &[u8; HEAD_BYTES], at: usize) -> u32 {
    u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]])
}

fn word(head: &[u8; HEAD_BYTES], at: usize) -> u64 {
    u64::from(half(head, at)) | u64::from(half(head, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::rc::Rc;

    use byway_forgetful::{ForgetfulMemory, LeftOut, Power, Random};

    use super::*;

    fn assignment(path: &str) -> Assignment {
        Assignment {
            key: FileKey { device: 1, inode: 2, born_ns: 3 },
            ring: RingPlace { at: 4096, len_bytes: 8192, identity: 77 },
            uid: 1000,
            path: path.into(),
            boot: [9; 16],
            kind: if path.len() > 8 { Kind::Resident } else { Kind::Ring },
        }
    }

    fn memory(words: Vec<u64>, event: u64, left_out: Option<LeftOut>) -> (ForgetfulMemory, Rc<Power>) {
        let power = Rc::new(Power::until(event));
        (ForgetfulMemory::new(words, Rc::clone(&power), left_out), power)
    }

    /// Assigns, frees and assigns a slot, with power loss at an event. Returns the state found and those allowed.
    fn cut_at(event: u64, seed: u64, left_out: Option<LeftOut>) -> Option<(Found, Vec<Found>)> {
        let (memory, power) = memory(vec![0; SLOT_BYTES as usize / 8], event, left_out);
        let (first, second) = (assignment("/the/first"), assignment("/the/second/one"));
        let table = Table::new(&memory);
        let slot = SlotNumber(0);
        let states = [Found::Free, Found::Used(first), Found::Free, Found::Used(second)];
        for pair in states.windows(2) {
            match &pair[1] {
                Found::Used(what) => table.put(slot, what).unwrap(),
                _ => table.free(slot).unwrap(),
            }
            if power.is_off() {
                let words = memory.after_a_cut(&mut Random::new(seed));
                let (after, _) = self::memory(words, u64::MAX, None);
                return Some((Table::new(&after).get(slot).unwrap(), pair.to_vec()));
            }
        }
        None
    }

    fn every_cut(left_out: Option<LeftOut>) -> Result<(), String> {
        for event in 0.. {
            for seed in 0..40 {
                let Some((found, may)) = cut_at(event, seed, left_out) else { return Ok(()) };
                if !may.contains(&found) {
                    return Err(format!("event {event}: {found:?} and not one of {may:?}"));
                }
            }
        }
        Ok(())
    }

    #[test]
    fn slot_is_old_or_new_after_power_loss() {
        every_cut(None).unwrap();
    }

    #[test]
    fn slot_content_not_durable_before_its_state_is_lost() {
        for left_out in [LeftOut::Flush(WRITTEN), LeftOut::Fence(WRITTEN)] {
            assert!(every_cut(Some(left_out)).is_err(), "{left_out:?}");
        }
    }

    #[test]
    fn slot_changes_are_durable_and_lost_without_flushes() {
        let after = |left_out, seed| {
            let (memory, _) = memory(vec![0; SLOT_BYTES as usize / 8], u64::MAX, left_out);
            let table = Table::new(&memory);
            table.put(SlotNumber(0), &assignment("/a")).unwrap();
            let put = memory.after_a_cut(&mut Random::new(seed));
            table.free(SlotNumber(0)).unwrap();
            [put, memory.after_a_cut(&mut Random::new(seed))].map(|words| {
                let (after, _) = self::memory(words, u64::MAX, None);
                Table::new(&after).get(SlotNumber(0)).unwrap()
            })
        };
        let kept = [Found::Used(assignment("/a")), Found::Free];
        let is_kept = |left_out| (0..20).all(|seed| after(left_out, seed) == kept);
        assert!(is_kept(None));
        for point in [PUBLISHED, FREED] {
            assert!(!is_kept(Some(LeftOut::Flush(point))), "{point}");
            assert!(!is_kept(Some(LeftOut::Fence(point))), "{point}");
        }
    }

    #[test]
    fn recovery_announcement_is_durable_and_lost_without_flushes() {
        let is_kept = |left_out| {
            (0..20).all(|seed| {
                let (memory, _) = memory(vec![0; SLOT_BYTES as usize / 8], u64::MAX, left_out);
                Table::new(&memory).set_recovers_until_ns(SlotNumber(0), 7).unwrap();
                let words = memory.after_a_cut(&mut Random::new(seed));
                let (after, _) = self::memory(words, u64::MAX, None);
                Table::new(&after).recovers_until_ns(SlotNumber(0)).unwrap() == 7
            })
        };
        assert!(is_kept(None));
        assert!(!is_kept(Some(LeftOut::Flush(RECOVERING))) && !is_kept(Some(LeftOut::Fence(RECOVERING))));
    }

    #[test]
    fn broken_slot_is_reported_damaged() {
        let (memory, _) = memory(vec![0; SLOT_BYTES as usize / 8], u64::MAX, None);
        let table = Table::new(&memory);
        table.put(SlotNumber(0), &assignment("/a")).unwrap();
        memory.write(20, &[1]).unwrap();
        assert_eq!(table.get(SlotNumber(0)).unwrap(), Found::Damaged);
        memory.store(56, u64::MAX).unwrap();
        assert_eq!(table.get(SlotNumber(0)).unwrap(), Found::Damaged);
    }
}
