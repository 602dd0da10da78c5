//! Reservation Report (Base 2.1, section 7.8): registrants with their controllers, and the holder.

use byway_spec::base::reservation::{
    EXTENDED_HEAD_BYTES, HOLDS, NO_CONTROLLER, RegisteredController, RegisteredControllerExtended,
    ReservationStatus,
};
use zerocopy::IntoBytes;

use super::{Registrant, Reservations};
use crate::id::ControllerId;

impl Reservations {
    /// The data of a report. `controllers` are those that a host has the namespace by.
    pub fn report(&self, extended: bool, controllers: impl Fn(&super::Host) -> Vec<ControllerId>) -> Vec<u8> {
        let mut listed = Vec::new();
        for registrant in &self.registrants {
            let mine = controllers(&registrant.host);
            listed.extend(mine.iter().map(|id| (id.0, registrant)));
            if mine.is_empty() {
                listed.push((NO_CONTROLLER, registrant));
            }
        }
        let head = ReservationStatus {
            gen_count: self.generation.to_le_bytes(),
            rtype: self.held.map_or_else(Default::default, |held| held.kind.rtype()),
            regctl: (listed.len() as u16).to_le_bytes(),
            ptpls: u8::from(self.persists),
            ..ReservationStatus::default()
        };
        let mut page = head.as_bytes().to_vec();
        if extended {
            page.resize(EXTENDED_HEAD_BYTES, 0);
        }
        for (cntlid, registrant) in listed {
            self.list(&mut page, extended, cntlid, registrant);
        }
        page
    }

    fn list(&self, page: &mut Vec<u8>, extended: bool, cntlid: u16, registrant: &Registrant) {
        let rcsts = if self.holds(registrant.host) { HOLDS } else { 0 };
        let (hostid, _) = registrant.host.identifier();
        let rkey = registrant.key;
        if extended {
            let entry = RegisteredControllerExtended { cntlid, rcsts, rkey, hostid, ..Default::default() };
            page.extend_from_slice(entry.as_bytes());
        } else {
            let [a, b, c, d, e, f, g, h, ..] = hostid;
            let hostid = [a, b, c, d, e, f, g, h];
            let entry = RegisteredController { cntlid, rcsts, rkey, hostid, ..Default::default() };
            page.extend_from_slice(entry.as_bytes());
        }
    }
}
