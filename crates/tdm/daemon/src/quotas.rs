//! What one user may have of what all users of a daemon have together.

use std::collections::BTreeMap;

use crate::table::{Found, SLOTS, SlotNumber};

/// Users that a daemon of root has room for: one slice for each that comes.
const USERS: u32 = 8;

/// Slots that are kept for each of them until he has as many, half of all together. The others are his who comes first.
const KEPT_SLOTS: u32 = SLOTS / USERS / 2;

/// Users that this daemon has room for: but root's, each serves its own.
pub(crate) fn users() -> u32 {
    if rustix::process::geteuid().is_root() { USERS } else { 1 }
}

/// The slot that a user may take, of all that there are: none that is kept for one of the other users.
pub(crate) fn free_slot(slots: &[(SlotNumber, Found)], uid: u32, users: u32) -> Option<SlotNumber> {
    let mut had = BTreeMap::<u32, u32>::new();
    let mut free = Vec::new();
    for (slot, found) in slots {
        match found {
            Found::Free => free.push(*slot),
            Found::Used(was) => *had.entry(was.uid).or_default() += 1,
            Found::Damaged => {}
        }
    }
    let mine = had.remove(&uid).unwrap_or(0);
    let taken: u32 = had.values().map(|count| KEPT_SLOTS.min(*count)).sum();
    let kept = ((users - 1) * KEPT_SLOTS).saturating_sub(taken);
    let may_take = mine < KEPT_SLOTS || free.len() > kept as usize;
    free.first().copied().filter(|_| may_take)
}

#[cfg(test)]
mod tests {
    use byway_tdm_engine::log::RingPlace;
    use byway_tdm_engine::table::FileKey;

    use super::*;
    use crate::table::{Assignment, Kind};

    fn of_user(uid: u32) -> Found {
        let key = FileKey { device: 1, inode: 1, born_ns: 1 };
        let ring = RingPlace { at: 0, len_bytes: 4096, identity: 1 };
        Found::Used(Assignment { key, ring, uid, path: "/a".into(), boot: [0; 16], kind: Kind::Ring })
    }

    /// Has a user take slots until there is none for him; how many that were.
    fn take_all(slots: &mut [(SlotNumber, Found)], uid: u32, users: u32) -> u32 {
        let mut count = 0;
        while let Some(slot) = free_slot(slots, uid, users) {
            slots[slot.0 as usize].1 = of_user(uid);
            count += 1;
        }
        count
    }

    fn empty() -> Vec<(SlotNumber, Found)> {
        (0..SLOTS).map(|slot| (SlotNumber(slot), Found::Free)).collect()
    }

    #[test]
    fn a_user_who_takes_all_that_he_may_leaves_every_other_one_his_share() {
        let mut slots = empty();
        let first = take_all(&mut slots, 0, USERS);
        assert_eq!(first, SLOTS - (USERS - 1) * KEPT_SLOTS);
        for uid in 1..USERS {
            assert_eq!(take_all(&mut slots, uid, USERS), KEPT_SLOTS);
        }
    }

    #[test]
    fn a_daemon_of_one_user_keeps_nothing_for_others() {
        assert_eq!(take_all(&mut empty(), 7, 1), SLOTS);
    }

    #[test]
    fn a_user_whose_logs_are_broken_takes_nothing_that_is_kept_for_others() {
        let mut slots = empty();
        slots[..100].iter_mut().for_each(|(_, found)| *found = Found::Damaged);
        assert_eq!(take_all(&mut slots, 0, USERS), SLOTS - 100 - (USERS - 1) * KEPT_SLOTS);
    }
}
