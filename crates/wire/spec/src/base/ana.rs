//! Asymmetric Namespace Access (Base 2.1, sections 5.1.12.1.13 and 8.1.1): how well a controller reaches each group of
//! namespaces.

use super::status::Status;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

open_enum! {
    /// ANA state of a group, as one controller has it.
    pub struct AnaState(u8) {
        OPTIMIZED = 0x1 "optimized",
        NON_OPTIMIZED = 0x2 "non-optimized",
        INACCESSIBLE = 0x3 "inaccessible",
        PERSISTENT_LOSS = 0x4 "persistent-loss",
        CHANGE = 0xf "change",
    }
}

impl AnaState {
    /// What commands to namespaces of the group fail with; none where they are executed.
    #[must_use]
    pub const fn refusal(self) -> Option<Status> {
        match self {
            Self::INACCESSIBLE => Some(Status::ANA_INACCESSIBLE),
            Self::PERSISTENT_LOSS => Some(Status::ANA_PERSISTENT_LOSS),
            Self::CHANGE => Some(Status::ANA_TRANSITION),
            _ => None,
        }
    }

    /// The ANA state that a command's status reports; `None` if it reports none.
    #[must_use]
    pub fn of_status(status: Status) -> Option<Self> {
        let states = [Self::INACCESSIBLE, Self::PERSISTENT_LOSS, Self::CHANGE];
        states.into_iter().find(|state| state.refusal().is_some_and(|refusal| status.is(refusal)))
    }
}

/// Log specific parameter of the ANA log page: groups alone, without their namespaces (RGO).
pub const GROUPS_ONLY: u8 = 1;

/// Identify Controller CMIC: the controller reports ANA.
pub const CMIC_ANA: u8 = 1 << 3;

/// Header of the ANA log page (0Ch).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct AnaHeader {
    /// Counts changes of the page.
    pub change_count: u64,
    /// Group descriptors that follow.
    pub groups: u16,
    /// Reserved.
    pub reserved_10: [u8; 6],
}

/// Descriptor of an ANA group, followed by the identifiers of its namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct AnaGroup {
    /// ANA group identifier.
    pub group: u32,
    /// Namespace identifiers that follow.
    pub nsids: u32,
    /// Counts changes of this descriptor.
    pub change_count: u64,
    /// The state.
    pub state: AnaState,
    /// Reserved.
    pub reserved_17: [u8; 15],
}

assert_size! {
    AnaHeader = 16;
    AnaGroup = 32;
}

/// An ANA log page as a host has read it: as much of it as makes sense.
#[derive(Debug, Clone, Copy)]
pub struct AnaLog<'a> {
    groups: u16,
    rest: &'a [u8],
}

impl<'a> AnaLog<'a> {
    /// Reads the beginning of a page; none of a page that is shorter than that.
    #[must_use]
    pub fn of(page: &'a [u8]) -> Option<Self> {
        let (header, rest) = AnaHeader::read_from_prefix(page).ok()?;
        Some(Self { groups: header.groups, rest })
    }
}

impl<'a> Iterator for AnaLog<'a> {
    type Item = (AnaState, Nsids<'a>);

    /// The next group; ends where the page does, whatever it says.
    fn next(&mut self) -> Option<Self::Item> {
        self.groups = self.groups.checked_sub(1)?;
        let (group, rest) = AnaGroup::read_from_prefix(self.rest).ok()?;
        let bytes = usize::try_from(group.nsids).ok()?.checked_mul(size_of::<u32>())?;
        let (nsids, rest) = rest.split_at_checked(bytes)?;
        self.rest = rest;
        Some((group.state, Nsids(nsids)))
    }
}

/// Namespaces of a group, of a log page.
#[derive(Debug, Clone, Copy)]
pub struct Nsids<'a>(&'a [u8]);

impl Iterator for Nsids<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let (nsid, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*nsid))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec;
    use std::vec::Vec;

    use super::*;

    fn page(groups: &[(u32, AnaState, &[u32])]) -> Vec<u8> {
        let header = AnaHeader { groups: groups.len() as u16, ..AnaHeader::default() };
        let mut page = header.as_bytes().to_vec();
        for (group, state, nsids) in groups {
            let count = nsids.len() as u32;
            let group = AnaGroup { group: *group, nsids: count, state: *state, ..AnaGroup::default() };
            page.extend_from_slice(group.as_bytes());
            page.extend(nsids.iter().flat_map(|nsid| nsid.to_le_bytes()));
        }
        page
    }

    #[test]
    fn every_namespace_is_found_with_the_state_of_its_group() {
        let page = page(&[
            (1, AnaState::OPTIMIZED, &[1, 7]),
            (9, AnaState::CHANGE, &[]),
            (3, AnaState::INACCESSIBLE, &[2]),
        ]);
        let states: Vec<(AnaState, Vec<u32>)> =
            AnaLog::of(&page).into_iter().flatten().map(|(state, nsids)| (state, nsids.collect())).collect();
        let wanted = vec![
            (AnaState::OPTIMIZED, vec![1, 7]),
            (AnaState::CHANGE, vec![]),
            (AnaState::INACCESSIBLE, vec![2]),
        ];
        assert_eq!(states, wanted);
    }

    #[test]
    fn page_with_a_count_beyond_its_end_yields_only_what_it_holds() {
        let whole = page(&[(1, AnaState::OPTIMIZED, &[1, 7]), (2, AnaState::CHANGE, &[3])]);
        for cut in 0..whole.len() {
            let groups = AnaLog::of(&whole[..cut]).map_or(0, Iterator::count);
            assert_eq!(groups, usize::from(cut >= 16 + 32 + 8), "{cut}");
        }
        let mut endless = whole;
        endless[16 + 4..16 + 8].fill(0xff);
        assert_eq!(AnaLog::of(&endless).map_or(9, Iterator::count), 0);
    }

    #[test]
    fn unserved_ana_state_has_its_own_status() {
        for state in AnaState::ALL {
            let state_of_status = state.refusal().map(|status| AnaState::of_status(status.with_dnr()));
            assert!(
                state_of_status.is_none_or(|state_of_status| state_of_status == Some(*state)),
                "{state:?}"
            );
        }
        assert_eq!(AnaState::INACCESSIBLE.refusal(), Some(Status::new(3, 2)));
        assert_eq!(AnaState::of_status(Status::INTERNAL_PATH_ERROR), None);
    }
}
