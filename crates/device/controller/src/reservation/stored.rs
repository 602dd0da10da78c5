//! Registrations in a namespace's record in the image. Zeroes where they do not persist.
//!
//! ```text
//! 0 version │ 1 type │ 2 holder, FFh for none │ 3 registrants │ 4 generation (4)
//! 8 bit for each registrant whose identifier has 128 bits (2), reserved (6)
//! 16 registrants: host identifier (16), key (8)
//! ```

use byway_flash::ACCESS_STATE_BYTES;
use byway_spec::base::reservation::ReservationType;

use super::kind::Kind;
use super::{Host, Registrant, Reservation, Reservations};

const VERSION: u8 = 1;
const HEAD_BYTES: usize = 16;
const ENTRY_BYTES: usize = 24;
const NO_HOLDER: u8 = 0xff;

/// Registrants of a namespace that persist through a loss of power, at most.
pub const PERSISTENT_REGISTRANTS: usize = (ACCESS_STATE_BYTES - HEAD_BYTES) / ENTRY_BYTES;

impl Reservations {
    /// The bytes for the image. Hosts without an identifier are left out: they do not outlive a reset.
    pub fn to_stored(&self) -> Vec<u8> {
        if !self.persists {
            return Vec::new();
        }
        let named: Vec<&Registrant> =
            self.registrants.iter().filter(|registrant| registrant.host.is_named()).collect();
        let place_of = |host: Host| named.iter().position(|registrant| registrant.host == host);
        // Of a type that all registrants hold, any registrant is the holder.
        let is_left = |held: &Reservation| {
            place_of(held.holder).is_some() || held.kind.is_of_all() && !named.is_empty()
        };
        let held = self.held.filter(is_left);
        let rtype = held.map_or(0, |held| held.kind.rtype().0);
        let holder = held.map_or(NO_HOLDER, |held| place_of(held.holder).unwrap_or(0) as u8);
        let extended = (0..).zip(&named).filter(|(_, registrant)| registrant.host.identifier().1);
        let extended = extended.fold(0_u64, |bits, (place, _)| bits | 1 << place);
        let mut stored = vec![VERSION, rtype, holder, named.len() as u8];
        stored.extend(self.generation.to_le_bytes());
        stored.extend(extended.to_le_bytes());
        for registrant in named {
            stored.extend(registrant.host.identifier().0);
            stored.extend(registrant.key.to_le_bytes());
        }
        stored
    }

    /// The registrations in bytes of the image; none if these are damaged.
    pub fn from_stored(stored: &[u8]) -> Option<Self> {
        let (head, entries) = stored.split_first_chunk::<HEAD_BYTES>()?;
        let [version, rtype, holder, count, a, b, c, d, extended @ ..] = *head;
        if version == 0 {
            return Some(Self::default());
        }
        let (generation, extended) = (u32::from_le_bytes([a, b, c, d]), u64::from_le_bytes(extended));
        let entries = entries.get(..usize::from(count) * ENTRY_BYTES).filter(|_| version == VERSION)?;
        let registrants = (0..).zip(entries.chunks_exact(ENTRY_BYTES)).map(|(place, entry)| {
            let (id, key) = entry.split_at(16);
            let id_bytes = if extended >> place & 1 != 0 { 16 } else { 8 };
            let key = u64::from_le_bytes(key.try_into().ok()?);
            Some(Registrant { host: Host::named(&id[..id_bytes])?, key })
        });
        let registrants = registrants.collect::<Option<Vec<_>>>()?;
        let held = match (rtype, holder) {
            (0, NO_HOLDER) => None,
            (rtype, holder) => {
                let holder = registrants.get(usize::from(holder))?.host;
                Some(Reservation { kind: Kind::of(ReservationType(rtype))?, holder })
            }
        };
        Some(Self { registrants, held, generation, persists: true })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::Request;
    use super::*;
    use crate::id::ControllerId;

    fn host(n: u8) -> Host {
        Host::Extended([n; 16])
    }

    fn registered(hosts: &[Host]) -> Reservations {
        let mut state = Reservations::default();
        for (key, host) in (1..).zip(hosts) {
            state.apply(*host, Request::Register { new: key, persist: Some(true) }).unwrap();
        }
        state
    }

    #[test]
    fn stored_registrations_round_trip() {
        for rtype in ReservationType::ALL {
            let mut state = registered(&[host(1), host(2), Host::Short([3; 8])]);
            let kind = Kind::of(*rtype).unwrap();
            state.apply(host(2), Request::Acquire { key: 2, kind }).unwrap();
            let mut stored = state.to_stored();
            stored.resize(ACCESS_STATE_BYTES, 0);
            assert_eq!(Reservations::from_stored(&stored), Some(state), "{rtype}");
        }
    }

    #[test]
    fn volatile_registrations_and_unnamed_hosts_are_not_stored() {
        let mut state = registered(&[host(1)]);
        state.apply(host(1), Request::Register { new: 1, persist: Some(false) }).unwrap();
        assert!(state.to_stored().is_empty());
        assert_eq!(Reservations::from_stored(&[0; ACCESS_STATE_BYTES]), Some(Reservations::default()));
        let unnamed = Host::Unnamed(ControllerId(3));
        let mut state = registered(&[unnamed, host(1)]);
        let kind = Kind::of(ReservationType::EXCLUSIVE_ACCESS).unwrap();
        state.apply(unnamed, Request::Acquire { key: 1, kind }).unwrap();
        let kept = Reservations::from_stored(&state.to_stored()).unwrap();
        assert!(kept.is_free());
        assert_eq!(kept.hosts().collect::<Vec<_>>(), [host(1)]);
    }

    #[test]
    fn damaged_registrations_are_refused() {
        let good = registered(&[host(1)]).to_stored();
        for (at, value) in [(0, 2), (1, 7), (2, 1), (3, 2)] {
            let mut bad = good.clone();
            bad[at] = value;
            assert_eq!(Reservations::from_stored(&bad), None, "byte {at}");
        }
        assert_eq!(Reservations::from_stored(&good[..7]), None);
    }

    #[test]
    fn as_many_as_the_image_keeps_can_persist() {
        let hosts: Vec<Host> = (1..=PERSISTENT_REGISTRANTS as u8).map(host).collect();
        let mut state = registered(&hosts);
        assert!(state.to_stored().len() <= ACCESS_STATE_BYTES);
        assert!(state.clone().apply(host(99), Request::Register { new: 1, persist: None }).is_err());
        state.apply(host(1), Request::Register { new: 1, persist: Some(false) }).unwrap();
        assert!(state.apply(host(99), Request::Register { new: 1, persist: None }).is_ok());
        assert!(state.set_persists(true).is_err());
    }
}
