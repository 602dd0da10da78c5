//! Reservation types, and the commands that each denies to which hosts (Base 2.1, section 8.1.22).

use byway_spec::base::reservation::ReservationType;

/// A command's access to the data of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// It reads.
    Read,
    /// It changes something, or makes changes durable.
    Write,
    /// It does neither. No reservation refuses it.
    Neither,
}

/// Hosts that have the holder's access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Among {
    /// Only the holder.
    Holder,
    /// Every registrant, as long as the holder is one.
    Registrants,
    /// Every registrant is a holder.
    All,
}

/// A type of reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kind {
    /// Reads of other hosts are refused too, not only writes.
    pub keeps_reads: bool,
    /// Hosts that are not refused.
    pub among: Among,
}

impl Kind {
    /// The rules of a type; none for an unknown type.
    pub fn of(rtype: ReservationType) -> Option<Self> {
        let (keeps_reads, among) = match rtype {
            ReservationType::WRITE_EXCLUSIVE => (false, Among::Holder),
            ReservationType::EXCLUSIVE_ACCESS => (true, Among::Holder),
            ReservationType::WRITE_EXCLUSIVE_REGISTRANTS => (false, Among::Registrants),
            ReservationType::EXCLUSIVE_ACCESS_REGISTRANTS => (true, Among::Registrants),
            ReservationType::WRITE_EXCLUSIVE_ALL => (false, Among::All),
            ReservationType::EXCLUSIVE_ACCESS_ALL => (true, Among::All),
            _ => return None,
        };
        Some(Self { keeps_reads, among })
    }

    /// Its type on the wire.
    pub fn rtype(self) -> ReservationType {
        match (self.among, self.keeps_reads) {
            (Among::Holder, false) => ReservationType::WRITE_EXCLUSIVE,
            (Among::Holder, true) => ReservationType::EXCLUSIVE_ACCESS,
            (Among::Registrants, false) => ReservationType::WRITE_EXCLUSIVE_REGISTRANTS,
            (Among::Registrants, true) => ReservationType::EXCLUSIVE_ACCESS_REGISTRANTS,
            (Among::All, false) => ReservationType::WRITE_EXCLUSIVE_ALL,
            (Among::All, true) => ReservationType::EXCLUSIVE_ACCESS_ALL,
        }
    }

    /// Whether every registrant is a holder.
    pub const fn is_of_all(self) -> bool {
        matches!(self.among, Among::All)
    }

    /// Whether it refuses an access of a host that does not hold the namespace.
    pub const fn forbids(self, access: Access, is_registrant: bool) -> bool {
        let admits_registrants = !matches!(self.among, Among::Holder);
        match access {
            Access::Neither => false,
            Access::Read if !self.keeps_reads => false,
            Access::Read | Access::Write => !(is_registrant && admits_registrants),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reservation_types_round_trip_through_kinds() {
        for rtype in ReservationType::ALL {
            assert_eq!(Kind::of(*rtype).map(Kind::rtype), Some(*rtype));
        }
        assert_eq!(Kind::of(ReservationType(0)), None);
        assert_eq!(Kind::of(ReservationType(7)), None);
    }
}
