//! Reservations of a namespace: the registered hosts, the holder, and the access that is refused to others (Base 2.1,
//! section 8.1.22).
//!
//! Only the rules: a host's request changes the state or is refused, and returns the notices to send. A fetched command
//! runs to its end before another begins, so no command of a preempted host is under way. Access is checked when a command
//! is executed, also one that waited: for data, for the rest of its value, or in a delegated queue.

mod host;
mod kind;
mod notice;
mod report;
mod request;
mod stored;

use byway_spec::Status;
use byway_spec::base::reservation::Notice;

use crate::error::CommandError;

pub use host::Host;
pub(crate) use host::{Hosts, OTHER_SIZE};
pub use kind::Access;
use kind::{Among, Kind};
pub(crate) use notice::Notices;
pub(crate) use request::{DATA_MAX_BYTES, Request};
pub use stored::PERSISTENT_REGISTRANTS;

/// Registrants of one namespace at most, those that do not outlive a loss of power included.
const MAX_REGISTRANTS: usize = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Registrant {
    host: Host,
    key: u64,
}

/// A reservation and its holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reservation {
    kind: Kind,
    /// The host that acquired it. Any registrant, for a type that all registrants hold.
    holder: Host,
}

/// Registrations of a namespace and the reservation on it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Reservations {
    registrants: Vec<Registrant>,
    held: Option<Reservation>,
    /// Counts changes of registrations.
    generation: u32,
    /// Registrations persist through a loss of power (PTPL).
    persists: bool,
}

/// Notices to send, each to a host.
pub(crate) type HostNotices = Vec<(Host, Notice)>;

impl Reservations {
    /// Whether the namespace is not reserved: then every host has access.
    #[inline]
    pub fn is_free(&self) -> bool {
        self.held.is_none()
    }

    /// Whether a host has this access.
    #[cold]
    pub fn allows(&self, host: Host, access: Access) -> bool {
        let Some(held) = self.held else { return true };
        let is_registrant = self.registrant(host).is_some();
        self.holds(host) || !held.kind.forbids(access, is_registrant)
    }

    /// Whether registrations persist through a loss of power.
    pub fn persists(&self) -> bool {
        self.persists
    }

    /// Decides whether registrations persist through a loss of power.
    ///
    /// # Errors
    /// Capacity Exceeded with more registrants than the image keeps.
    pub fn set_persists(&mut self, persists: bool) -> Result<(), CommandError> {
        self.persists = persists;
        self.check_room()
    }

    /// Hosts that are registered.
    pub fn hosts(&self) -> impl Iterator<Item = Host> {
        self.registrants.iter().map(|registrant| registrant.host)
    }

    /// Ends the registration of a host without an identifier, whose controller was reset.
    pub fn forget(&mut self, host: Host) -> HostNotices {
        if self.registrant(host).is_none() {
            return HostNotices::new();
        }
        self.generation = self.generation.wrapping_add(1);
        self.leave(host)
    }

    /// Executes a host's request; the notices to send.
    ///
    /// # Errors
    /// Reservation Conflict, Invalid Field, Capacity Exceeded. The state may be partly changed then and must be dropped.
    pub fn apply(&mut self, host: Host, request: Request) -> Result<HostNotices, CommandError> {
        match request {
            Request::Register { new, persist } => {
                self.register(host, new)?;
                self.end_registration(persist, HostNotices::new())
            }
            Request::Unregister { key, persist } => {
                self.check_key(host, key)?;
                let notices = self.leave(host);
                self.end_registration(persist, notices)
            }
            Request::Replace { key, new, persist } => {
                self.check_key(host, key)?.key = new;
                self.end_registration(persist, HostNotices::new())
            }
            Request::Acquire { key, kind } => self.acquire(host, key, kind),
            Request::Preempt { key, other, kind } => self.preempt(host, key, other, kind),
            Request::Release { key, kind } => self.release(host, key, kind),
            Request::Clear { key } => self.clear(host, key),
        }
    }

    fn registrant(&self, host: Host) -> Option<&Registrant> {
        self.registrants.iter().find(|registrant| registrant.host == host)
    }

    /// Whether a host holds the namespace.
    fn holds(&self, host: Host) -> bool {
        match self.held {
            None => false,
            Some(Reservation { kind: Kind { among: Among::All, .. }, .. }) => self.registrant(host).is_some(),
            Some(held) => held.holder == host,
        }
    }

    /// The registration of a host, if it has this key. Without a key any is right.
    fn check_key(&mut self, host: Host, key: Option<u64>) -> Result<&mut Registrant, CommandError> {
        let mut mine = self.registrants.iter_mut().filter(|registrant| registrant.host == host);
        mine.find(|registrant| key.is_none_or(|key| key == registrant.key)).ok_or(NOT_REGISTERED)
    }

    fn register(&mut self, host: Host, key: u64) -> Result<(), CommandError> {
        match self.registrant(host) {
            Some(registrant) if registrant.key == key => Ok(()),
            Some(_) => Err(OTHER_KEY),
            None if self.registrants.len() == MAX_REGISTRANTS => Err(TOO_MANY),
            None => {
                self.registrants.push(Registrant { host, key });
                Ok(())
            }
        }
    }

    /// Ends a successful Reservation Register.
    fn end_registration(
        &mut self,
        persist: Option<bool>,
        notices: HostNotices,
    ) -> Result<HostNotices, CommandError> {
        self.generation = self.generation.wrapping_add(1);
        self.set_persists(persist.unwrap_or(self.persists))?;
        Ok(notices)
    }

    fn check_room(&self) -> Result<(), CommandError> {
        let named = self.hosts().filter(|host| host.is_named()).count();
        if self.persists && named > PERSISTENT_REGISTRANTS { Err(TOO_MANY) } else { Ok(()) }
    }

    /// Ends a registration, and a reservation that depends on it.
    fn leave(&mut self, host: Host) -> HostNotices {
        self.registrants.retain(|registrant| registrant.host != host);
        let Some(held) = self.held else { return HostNotices::new() };
        match held.kind.among {
            Among::All if !self.registrants.is_empty() => HostNotices::new(),
            Among::Holder | Among::Registrants if held.holder != host => HostNotices::new(),
            among => {
                self.held = None;
                if among == Among::Holder {
                    HostNotices::new()
                } else {
                    self.notify_others(host, Notice::RESERVATION_RELEASED)
                }
            }
        }
    }

    fn notify_others(&self, but: Host, notice: Notice) -> HostNotices {
        self.hosts().filter(|host| *host != but).map(|host| (host, notice)).collect()
    }

    fn acquire(&mut self, host: Host, key: u64, kind: Kind) -> Result<HostNotices, CommandError> {
        self.check_key(host, Some(key))?;
        match self.held {
            None => self.held = Some(Reservation { kind, holder: host }),
            Some(held) if self.holds(host) && held.kind == kind => {}
            Some(_) => return Err(IS_HELD),
        }
        Ok(HostNotices::new())
    }

    fn preempt(&mut self, host: Host, key: u64, other: u64, kind: Kind) -> Result<HostNotices, CommandError> {
        self.check_key(host, Some(key))?;
        let before = self.held;
        let notices = match before {
            Some(held) if self.is_taken_by(&held, other) => {
                let notices =
                    self.expel(|found| found.host != host && (other == 0 || found.key == other), host);
                self.held = Some(Reservation { kind, holder: host });
                notices
            }
            Some(_) if other == 0 => return Err(NO_KEY_TO_PREEMPT),
            _ if self.registrants.iter().all(|registrant| registrant.key != other) => {
                return Err(NO_SUCH_KEY);
            }
            _ => self.expel(|found| found.key == other, host),
        };
        self.generation = self.generation.wrapping_add(1);
        Ok(self.with_change_of_kind(before, notices, host))
    }

    /// Whether a preemption by the key of others takes the reservation: by the holder's key, or 0 where all hold it.
    fn is_taken_by(&self, held: &Reservation, other: u64) -> bool {
        match held.kind.among {
            Among::All => other == 0,
            Among::Holder | Among::Registrants => {
                self.registrant(held.holder).is_some_and(|holder| holder.key == other)
            }
        }
    }

    /// Ends registrations and notifies their hosts, but not the host that asked for it.
    fn expel(&mut self, goes: impl Fn(&Registrant) -> bool, by: Host) -> HostNotices {
        let gone: Vec<Host> = self.registrants.iter().filter(|r| goes(r)).map(|r| r.host).collect();
        for host in &gone {
            self.leave(*host);
        }
        let others = gone.into_iter().filter(|host| *host != by);
        others.map(|host| (host, Notice::REGISTRATION_PREEMPTED)).collect()
    }

    /// Adds notices for the remaining hosts, if a preemption changed the type of the reservation.
    fn with_change_of_kind(
        &self,
        before: Option<Reservation>,
        mut notices: HostNotices,
        by: Host,
    ) -> HostNotices {
        let (before, now) = (before.map(|held| held.kind), self.held.map(|held| held.kind));
        if before.is_some() && before != now {
            notices.extend(self.notify_others(by, Notice::RESERVATION_RELEASED));
        }
        notices
    }

    fn release(&mut self, host: Host, key: u64, kind: Kind) -> Result<HostNotices, CommandError> {
        self.check_key(host, Some(key))?;
        let Some(held) = self.held else { return Ok(HostNotices::new()) };
        if held.kind != kind {
            return Err(OTHER_TYPE);
        }
        if !self.holds(host) {
            return Ok(HostNotices::new());
        }
        self.held = None;
        match kind.among {
            Among::Holder => Ok(HostNotices::new()),
            Among::Registrants | Among::All => Ok(self.notify_others(host, Notice::RESERVATION_RELEASED)),
        }
    }

    fn clear(&mut self, host: Host, key: u64) -> Result<HostNotices, CommandError> {
        self.check_key(host, Some(key))?;
        let notices = self.notify_others(host, Notice::RESERVATION_PREEMPTED);
        self.registrants.clear();
        self.held = None;
        self.generation = self.generation.wrapping_add(1);
        Ok(notices)
    }
}

const fn conflict(cause: &'static str) -> CommandError {
    CommandError::new(Status::RESERVATION_CONFLICT, cause)
}

/// Refuses a command that conflicts with a reservation.
pub(crate) const RESERVED: CommandError = conflict("the namespace is reserved by another host");
const NOT_REGISTERED: CommandError = conflict("the host is not registered by that key");
const OTHER_KEY: CommandError = conflict("the host is registered by another key");
const IS_HELD: CommandError = conflict("the namespace is reserved already");
const NO_SUCH_KEY: CommandError = conflict("no host is registered by the key to preempt");
const NO_KEY_TO_PREEMPT: CommandError =
    CommandError::invalid_field("a key of 0 preempts a reservation that all registrants hold");
const OTHER_TYPE: CommandError =
    CommandError::invalid_field("the reservation is of another type").at_byte(41);
const TOO_MANY: CommandError =
    CommandError::new(Status::CAPACITY_EXCEEDED, "no more registrations can be kept of this namespace");
