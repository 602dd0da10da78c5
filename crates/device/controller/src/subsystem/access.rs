//! Access of hosts to namespaces: by attached controllers, by reservations, and by the state of the path.

use byway_flash::{Flash, FlashError};
use byway_spec::Status;
use byway_spec::base::reservation::NotificationMask;

use super::sanitize::IN_PROGRESS;
use super::{NO_NAMESPACE, Paths, Slot, Subsystem};
use crate::error::CommandError;
use crate::id::ControllerId;
use crate::limits::MAX_NAMESPACES;
use crate::namespace::{Namespace, write_error};
use crate::reservation::{Access, Host, HostNotices, Hosts, RESERVED, Request, Reservations};

impl Slot {
    /// Updates the controllers whose commands need no check of the reservation and of the path.
    pub(super) fn note_access(&mut self, hosts: &Hosts, paths: &Paths) {
        self.version.change();
        self.free = self.served.clone();
        for id in paths.closed(self.namespace.record().nsid) {
            self.free.remove(id);
        }
        if !self.reservations.is_free() {
            let open = std::mem::take(&mut self.free);
            let allowed =
                |id: &ControllerId, host| open.contains(*id) && self.reservations.allows(host, Access::Write);
            hosts.iter().filter(|(id, host)| allowed(id, *host)).for_each(|(id, _)| self.free.insert(id));
        }
    }
}

impl Subsystem {
    /// As [`Subsystem::attached`], for a command with this access: the only check of the reservation and of the path for I/O
    /// commands.
    ///
    /// # Errors
    /// As there, Reservation Conflict, and the path related statuses.
    #[inline]
    pub fn admit(
        &mut self,
        nsid: u32,
        id: ControllerId,
        access: Access,
    ) -> Result<(&mut Namespace, &mut Flash), CommandError> {
        if self.flash.is_following() {
            self.follow(nsid)?;
        }
        let index = (nsid as usize).wrapping_sub(1);
        match self.slots.get_mut(index) {
            Some(Some(slot)) if slot.served.contains(id) => {
                if !slot.free.contains(id) {
                    self.paths.check(id, nsid)?;
                    if !slot.reservations.allows(self.hosts.of(id), access) {
                        return Err(RESERVED);
                    }
                }
                Ok((&mut slot.namespace, &mut self.flash))
            }
            _ if self.sanitizing.is_some() => Err(IN_PROGRESS),
            _ => Err(NO_NAMESPACE),
        }
    }

    /// As [`Subsystem::admit`] for a read by shared reference. `None` where only that decides, or the flash must know of each
    /// read at once.
    #[inline]
    pub(crate) fn admit_to_read(&self, nsid: u32, id: ControllerId) -> Option<(&Namespace, &Flash)> {
        let slot = self.slots.get((nsid as usize).wrapping_sub(1))?.as_ref()?;
        let is_free = slot.free.contains(id) && !self.flash.follows_reads();
        is_free.then_some((&slot.namespace, &self.flash))
    }

    /// Checks that the host of controller `id` has this access to namespace `nsid`, attached to it or not.
    ///
    /// # Errors
    /// Reservation Conflict, and the path related statuses.
    pub(crate) fn check_access(
        &self,
        nsid: u32,
        id: ControllerId,
        access: Access,
    ) -> Result<(), CommandError> {
        self.paths.check(id, nsid)?;
        let host = self.hosts.of(id);
        let is_reserved = self.slot(nsid).is_some_and(|slot| !slot.reservations.allows(host, access));
        if is_reserved { Err(RESERVED) } else { Ok(()) }
    }

    /// The same for every namespace.
    pub(crate) fn check_access_to_all(&self, id: ControllerId, access: Access) -> Result<(), CommandError> {
        self.namespaces().try_for_each(|(nsid, _)| self.check_access(nsid, id, access))
    }

    /// The same for every namespace that is attached to controller `id`.
    pub(crate) fn check_access_to_attached(
        &self,
        id: ControllerId,
        access: Access,
    ) -> Result<(), CommandError> {
        let mut mine = self.namespaces().filter(|(nsid, _)| self.is_attached(*nsid, id));
        mine.try_for_each(|(nsid, _)| self.check_access(nsid, id, access))
    }

    /// The host of controller `id`.
    #[must_use]
    pub fn host(&self, id: ControllerId) -> Host {
        self.hosts.of(id)
    }

    /// Gives controller `id` a host, as Connect or the Host Identifier feature names it, until it is reset. The
    /// registrations of a host without an identifier end.
    ///
    /// # Errors
    /// Host Identifier Inconsistent Format where identifiers of the other size are in use.
    pub fn set_host(&mut self, id: ControllerId, host: Host) -> Result<(), CommandError> {
        self.hosts.set(id, host)?;
        self.forget_unnamed(id);
        for slot in self.slots.iter_mut().flatten() {
            slot.note_access(&self.hosts, &self.paths);
        }
        Ok(())
    }

    /// Controller `id` was reset: its host has no identifier until it sets one, and its notices are dropped.
    pub(crate) fn forget_host(&mut self, id: ControllerId) {
        // Setting no identifier cannot fail: it introduces no second size of identifiers.
        let _ = self.set_host(id, Host::Unnamed(id));
        self.notices.reset(id);
    }

    fn forget_unnamed(&mut self, id: ControllerId) {
        for nsid in 1..=MAX_NAMESPACES {
            let Some(Some(slot)) = self.slot_mut(nsid) else { continue };
            let notices = slot.reservations.forget(Host::Unnamed(id));
            self.notify(nsid, &notices);
        }
    }

    /// Changes the reservations of a namespace as the host of controller `id` asks.
    ///
    /// # Errors
    /// Reservation Conflict and what else the rules say; what the flash says of what is to outlive a loss of power. Then
    /// nothing changed.
    pub(crate) fn reserve(
        &mut self,
        nsid: u32,
        id: ControllerId,
        request: Request,
    ) -> Result<(), CommandError> {
        let host = self.hosts.of(id);
        let mut next = self.slot(nsid).ok_or(NO_NAMESPACE)?.reservations.clone();
        let notices = next.apply(host, request)?;
        self.replace_reservations(nsid, next)?;
        self.notify(nsid, &notices);
        Ok(())
    }

    /// Decides whether the registrations of a namespace persist through a loss of power.
    ///
    /// # Errors
    /// Capacity Exceeded; what the flash says.
    pub(crate) fn set_persists(&mut self, nsid: u32, persists: bool) -> Result<(), CommandError> {
        let mut next = self.slot(nsid).ok_or(NO_NAMESPACE)?.reservations.clone();
        next.set_persists(persists)?;
        self.replace_reservations(nsid, next)
    }

    /// Whether the registrations of a namespace persist through a loss of power.
    pub(crate) fn persists(&self, nsid: u32) -> bool {
        self.slot(nsid).is_some_and(|slot| slot.reservations.persists())
    }

    fn replace_reservations(&mut self, nsid: u32, next: Reservations) -> Result<(), CommandError> {
        if next.persists() && (self.is_exported(nsid) || self.is_volatile(nsid)) {
            return Err(NOT_KEPT);
        }
        let stored = next.to_stored();
        let before = self.slot(nsid).map(|slot| slot.reservations.to_stored());
        if before.is_some_and(|before| before != stored) {
            self.flash.set_access_state(nsid, &stored).map_err(write_error)?;
        }
        let Self { slots, hosts, paths, .. } = self;
        if let Some(Some(slot)) = slots.get_mut(nsid as usize - 1) {
            slot.reservations = next;
            slot.note_access(hosts, paths);
        }
        Ok(())
    }

    /// Ends every registration with a namespace that is to be deleted.
    pub(super) fn clear_reservations(&mut self, nsid: u32) -> Result<(), FlashError> {
        match self.persists(nsid) {
            true => self.flash.set_access_state(nsid, &[]),
            false => Ok(()),
        }
    }

    /// Sends notices to hosts, over each of their controllers that has the namespace.
    fn notify(&mut self, nsid: u32, notices: &HostNotices) {
        for (host, notice) in notices {
            for id in self.controllers_of(nsid, *host) {
                self.notices.notify(id, nsid, *notice);
            }
        }
    }

    fn controllers_of(&self, nsid: u32, host: Host) -> Vec<ControllerId> {
        self.controllers().filter(|id| self.hosts.of(*id) == host && self.is_attached(nsid, *id)).collect()
    }

    /// The data of Reservation Report, as the host of controller `id` asks for it.
    ///
    /// # Errors
    /// Host Identifier Inconsistent Format where an identifier does not fit the form.
    pub(crate) fn report_reservations(
        &self,
        nsid: u32,
        extended: bool,
        id: ControllerId,
    ) -> Result<Vec<u8>, CommandError> {
        let reservations = &self.slot(nsid).ok_or(NO_NAMESPACE)?.reservations;
        let form = if extended { Host::Extended([0; 16]) } else { Host::Short([0; 8]) };
        let fits = |host: Host| extended || !host.is_named_otherwise(form);
        if self.hosts.of(id).is_named_otherwise(form) || !reservations.hosts().all(fits) {
            return Err(OTHER_FORM);
        }
        Ok(reservations.report(extended, |host| self.controllers_of(nsid, *host)))
    }

    /// Sets the notices that controller `id` masks for namespace `nsid`, or for every namespace if none is given.
    pub(crate) fn set_notice_mask(&mut self, id: ControllerId, nsid: Option<u32>, mask: NotificationMask) {
        let mine: Vec<u32> = self.namespaces().map(|(nsid, _)| nsid).collect();
        for found in mine.into_iter().filter(|found| nsid.is_none_or(|nsid| nsid == *found)) {
            self.notices.set_mask(id, found, mask);
        }
    }
}

const NOT_KEPT: CommandError =
    CommandError::invalid_field("registrations of exported namespaces do not persist through power loss");
const OTHER_FORM: CommandError =
    CommandError::new(Status::HOST_ID_INCONSISTENT, "host identifiers are not of the size of this report")
        .at_byte(44);
