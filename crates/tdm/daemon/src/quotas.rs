//! Quotas of users.

use std::collections::BTreeMap;

use crate::table::{Found, SLOTS, SlotNumber};

/// Partitions of a region that root's daemon divides.
const USERS: u32 = 8;

/// Slots reserved for each user: half of all together. The others go to the first user that asks.
const RESERVED_SLOTS: u32 = SLOTS / USERS / 2;

/// Users of this daemon: only root's serves others.
pub(crate) fn users() -> u32 {
    if rustix::process::geteuid().is_root() { USERS } else { 1 }
}

/// A free slot within a user's quota.
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
    let taken: u32 = had.values().map(|count| RESERVED_SLOTS.min(*count)).sum();
    let kept = ((users - 1) * RESERVED_SLOTS).saturating_sub(taken);
    let may_take = mine < RESERVED_SLOTS || free.len() > kept as usize;
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

    /// Takes all slots that a user gets; returns their number.
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
    fn greedy_user_leaves_every_other_user_its_quota() {
        let mut slots = empty();
        let first = take_all(&mut slots, 0, USERS);
        assert_eq!(first, SLOTS - (USERS - 1) * RESERVED_SLOTS);
        for uid in 1..USERS {
            assert_eq!(take_all(&mut slots, uid, USERS), RESERVED_SLOTS);
        }
    }

    #[test]
    fn single_user_daemon_reserves_no_slots() {
        assert_eq!(take_all(&mut empty(), 7, 1), SLOTS);
    }

    #[test]
    fn damaged_slots_do_not_reduce_other_users_quotas() {
        let mut slots = empty();
        slots[..100].iter_mut().for_each(|(_, found)| *found = Found::Damaged);
        assert_eq!(take_all(&mut slots, 0, USERS), SLOTS - 100 - (USERS - 1) * RESERVED_SLOTS);
    }
}
