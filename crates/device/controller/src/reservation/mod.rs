//! Reservations of a namespace: which hosts are registered, which of them holds it, and what that keeps from others
//! (Base 2.1, section 8.1.22).
//!
//! The rules and nothing else: a request by a host changes the state or is refused, and says whom to tell. A command
//! that was fetched runs to its end before another begins, so when a host is preempted nothing of it is under way;
//! whatever waits (pieces of a value, a command in a lane) is looked at again when it is executed. Whoever lets commands
//! wait for data looks again when the data is there.

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

/// A reservation that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Held {
    kind: Kind,
    /// Who made it. Of a type that all registrants hold, any of them is as good.
    holder: Host,
}

/// Registrations of a namespace and the reservation on it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Reservations {
    registrants: Vec<Registrant>,
    held: Option<Held>,
    /// Counts changes of registrations.
    generation: u32,
    /// Registrations persist through a loss of power (PTPL).
    persists: bool,
}

/// Whom to tell of what.
pub(crate) type Told = Vec<(Host, Notice)>;

impl Reservations {
    /// Whether nobody holds the namespace: then nobody is kept from anything.
    #[inline]
    pub fn is_free(&self) -> bool {
        self.held.is_none()
    }

    /// Whether a host may do this.
    #[cold]
    pub fn allows(&self, host: Host, access: Access) -> bool {
        let Some(held) = self.held else { return true };
        let is_registrant = self.registrant(host).is_some();
        self.holds(host) || !held.kind.keeps_back(access, is_registrant)
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

    /// A host that had no name is no more: what it registered ends.
    pub fn forget(&mut self, host: Host) -> Told {
        if self.registrant(host).is_none() {
            return Told::new();
        }
        self.generation = self.generation.wrapping_add(1);
        self.leave(host)
    }

    /// Does what a host asks for; says whom to tell.
    ///
    /// # Errors
    /// Reservation Conflict, Invalid Field, Capacity Exceeded. The state may be half changed then: it is to be dropped.
    pub fn apply(&mut self, host: Host, request: Request) -> Result<Told, CommandError> {
        match request {
            Request::Register { new, persist } => {
                self.register(host, new)?;
                self.end_registration(persist, Told::new())
            }
            Request::Unregister { key, persist } => {
                self.check_key(host, key)?;
                let told = self.leave(host);
                self.end_registration(persist, told)
            }
            Request::Replace { key, new, persist } => {
                self.check_key(host, key)?.key = new;
                self.end_registration(persist, Told::new())
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
            Some(Held { kind: Kind { among: Among::All, .. }, .. }) => self.registrant(host).is_some(),
            Some(held) => held.holder == host,
        }
    }

    /// The registration of a host that says it has this key; none is right where it is not asked.
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

    /// What every Reservation Register that succeeds ends with.
    fn end_registration(&mut self, persist: Option<bool>, told: Told) -> Result<Told, CommandError> {
        self.generation = self.generation.wrapping_add(1);
        self.set_persists(persist.unwrap_or(self.persists))?;
        Ok(told)
    }

    fn check_room(&self) -> Result<(), CommandError> {
        let named = self.hosts().filter(|host| host.is_named()).count();
        if self.persists && named > PERSISTENT_REGISTRANTS { Err(TOO_MANY) } else { Ok(()) }
    }

    /// Ends a registration, with what hangs on it.
    fn leave(&mut self, host: Host) -> Told {
        self.registrants.retain(|registrant| registrant.host != host);
        let Some(held) = self.held else { return Told::new() };
        match held.kind.among {
            Among::All if !self.registrants.is_empty() => Told::new(),
            Among::Holder | Among::Registrants if held.holder != host => Told::new(),
            among => {
                self.held = None;
                if among == Among::Holder {
                    Told::new()
                } else {
                    self.tell_others(host, Notice::RESERVATION_RELEASED)
                }
            }
        }
    }

    fn tell_others(&self, but: Host, notice: Notice) -> Told {
        self.hosts().filter(|host| *host != but).map(|host| (host, notice)).collect()
    }

    fn acquire(&mut self, host: Host, key: u64, kind: Kind) -> Result<Told, CommandError> {
        self.check_key(host, Some(key))?;
        match self.held {
            None => self.held = Some(Held { kind, holder: host }),
            Some(held) if self.holds(host) && held.kind == kind => {}
            Some(_) => return Err(IS_HELD),
        }
        Ok(Told::new())
    }

    fn preempt(&mut self, host: Host, key: u64, other: u64, kind: Kind) -> Result<Told, CommandError> {
        self.check_key(host, Some(key))?;
        let before = self.held;
        let told = match before {
            Some(held) if self.is_taken_by(&held, other) => {
                let told = self.expel(|found| found.host != host && (other == 0 || found.key == other), host);
                self.held = Some(Held { kind, holder: host });
                told
            }
            Some(_) if other == 0 => return Err(NOBODY_NAMED),
            _ if self.registrants.iter().all(|registrant| registrant.key != other) => {
                return Err(NO_SUCH_KEY);
            }
            _ => self.expel(|found| found.key == other, host),
        };
        self.generation = self.generation.wrapping_add(1);
        Ok(self.with_change_of_kind(before, told, host))
    }

    /// Whether a preemption by the key of others takes the reservation: by the holder's key, or 0 where all hold it.
    fn is_taken_by(&self, held: &Held, other: u64) -> bool {
        match held.kind.among {
            Among::All => other == 0,
            Among::Holder | Among::Registrants => {
                self.registrant(held.holder).is_some_and(|holder| holder.key == other)
            }
        }
    }

    /// Ends registrations; those who lose theirs are told, but not the host that asked for it.
    fn expel(&mut self, goes: impl Fn(&Registrant) -> bool, by: Host) -> Told {
        let gone: Vec<Host> = self.registrants.iter().filter(|r| goes(r)).map(|r| r.host).collect();
        for host in &gone {
            self.leave(*host);
        }
        let others = gone.into_iter().filter(|host| *host != by);
        others.map(|host| (host, Notice::REGISTRATION_PREEMPTED)).collect()
    }

    /// Tells those who are left that the reservation is one of another type, if one was taken.
    fn with_change_of_kind(&self, before: Option<Held>, mut told: Told, by: Host) -> Told {
        let (before, now) = (before.map(|held| held.kind), self.held.map(|held| held.kind));
        if before.is_some() && before != now {
            told.extend(self.tell_others(by, Notice::RESERVATION_RELEASED));
        }
        told
    }

    fn release(&mut self, host: Host, key: u64, kind: Kind) -> Result<Told, CommandError> {
        self.check_key(host, Some(key))?;
        let Some(held) = self.held else { return Ok(Told::new()) };
        if held.kind != kind {
            return Err(OTHER_TYPE);
        }
        if !self.holds(host) {
            return Ok(Told::new());
        }
        self.held = None;
        match kind.among {
            Among::Holder => Ok(Told::new()),
            Among::Registrants | Among::All => Ok(self.tell_others(host, Notice::RESERVATION_RELEASED)),
        }
    }

    fn clear(&mut self, host: Host, key: u64) -> Result<Told, CommandError> {
        self.check_key(host, Some(key))?;
        let told = self.tell_others(host, Notice::RESERVATION_PREEMPTED);
        self.registrants.clear();
        self.held = None;
        self.generation = self.generation.wrapping_add(1);
        Ok(told)
    }
}

const fn conflict(cause: &'static str) -> CommandError {
    CommandError::new(Status::RESERVATION_CONFLICT, cause)
}

/// What is answered to commands that a reservation keeps back.
pub(crate) const KEPT_BACK: CommandError = conflict("the namespace is reserved by another host");
const NOT_REGISTERED: CommandError = conflict("the host is not registered by that key");
const OTHER_KEY: CommandError = conflict("the host is registered by another key");
const IS_HELD: CommandError = conflict("the namespace is reserved already");
const NO_SUCH_KEY: CommandError = conflict("nobody is registered by the key to preempt");
const NOBODY_NAMED: CommandError =
    CommandError::invalid_field("a key of 0 preempts a reservation that all registrants hold");
const OTHER_TYPE: CommandError =
    CommandError::invalid_field("the reservation is of another type").at_byte(41);
const TOO_MANY: CommandError =
    CommandError::new(Status::CAPACITY_EXCEEDED, "no more registrations can be kept of this namespace");
