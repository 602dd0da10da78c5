//! How well a controller reaches each namespace (ANA): what it says of that, by its log page and by events.

use std::collections::BTreeMap;
use std::time::Duration;

use byway_core::{AdminCommand, Buffer, PLAIN_LOG_BYTES_MAX, Payload, Result};
use byway_spec::Command as Entry;
use byway_spec::base::admin::AdminOpcode;
use byway_spec::base::ana::{AnaGroup, AnaHeader, AnaLog, AnaState, CMIC_ANA};
use byway_spec::base::event::Event;
use byway_spec::base::feature::{AsyncEvents, FeatureId};
use byway_spec::base::identify::Controller;
use byway_spec::base::log::LogPage;

use crate::connection::Order;
use crate::facts::Bare;
use crate::order::plain;

/// Most of a log page that is read: some ten thousand namespaces.
const LOG_BYTES_MAX: usize = 64 << 10;

/// How a controller reports the ANA states of its namespaces.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AnaFacts {
    /// Length of the log page, at most.
    log_bytes: usize,
    /// How long a namespace may be between two states (ANATT).
    pub transition: Duration,
    /// It sends an event when they change.
    pub events: bool,
}

/// The states of namespaces, by their identifiers. An unlisted one counts as optimized.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct States(BTreeMap<u32, AnaState>);

impl AnaFacts {
    /// As Identify Controller has them, of a log page that one command of `transfer_bytes` reads; none of a controller without
    /// ANA reporting.
    pub fn of(controller: &Controller, transfer_bytes: u64) -> Option<Self> {
        if controller.cmic & CMIC_ANA == 0 {
            return None;
        }
        let namespaces = if controller.mnan > 0 { controller.mnan } else { controller.nn };
        let groups = (controller.nanagrpid as usize).saturating_mul(size_of::<AnaGroup>());
        let nsids = (namespaces as usize).saturating_mul(size_of::<u32>());
        let log_bytes = size_of::<AnaHeader>().saturating_add(groups).saturating_add(nsids);
        Some(Self {
            log_bytes: log_bytes.min(log_bytes_max(controller, transfer_bytes)),
            transition: Duration::from_secs(controller.anatt.into()),
            events: controller.oaes & AsyncEvents::new().with_ana(true).into_bits() != 0,
        })
    }

    /// Enables events for changes, and reads the current states.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn begin(&self, controller: &Bare<'_>) -> Result<States> {
        if self.events {
            let feature = AdminCommand::SetFeature {
                feature: FeatureId::ASYNC_EVENTS.0,
                save: false,
                nsid: None,
                cdw11: AsyncEvents::new().with_ana(true).into_bits(),
                cdw12: 0,
                data: Payload::Empty,
            };
            controller.admin(feature).map_err(|error| error.doing("enable events of paths"))?;
        }
        let log = controller.admin(self.question()?).map_err(|error| error.doing("ask for paths"))?;
        Ok(log.buffer.map(|page| States::of(page.as_slice())).unwrap_or_default())
    }

    /// Asks for the log page.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn question(&self) -> Result<AdminCommand> {
        let into = Buffer::zeroed(self.log_bytes)?;
        let log = LogPage::ANA.0;
        Ok(AdminCommand::GetLog { log, csi: 0, nsid: None, retain_event: false, offset_bytes: 0, into })
    }
}

/// Most of the log page that one command reads: lengths over 16 KiB are of controllers with extended data (LPA bit 2).
fn log_bytes_max(controller: &Controller, transfer_bytes: u64) -> usize {
    let most = match controller.lpa & Controller::LPA_EXTENDED_DATA {
        0 => PLAIN_LOG_BYTES_MAX,
        _ => LOG_BYTES_MAX,
    };
    usize::try_from(transfer_bytes).map_or(most, |bytes| bytes.min(most))
}

/// An Asynchronous Event Request.
pub(crate) fn event_request() -> Order {
    plain(Entry::new(AdminOpcode::ASYNC_EVENT_REQUEST.0, 0, 0))
}

/// Whether an event is that of changed states.
pub(crate) fn is_of_states(event: u32) -> bool {
    Event::from_bits(event).log() == LogPage::ANA
}

impl States {
    /// As a log page has them.
    pub fn of(page: &[u8]) -> Self {
        let groups = AnaLog::of(page).into_iter().flatten();
        Self(groups.flat_map(|(state, nsids)| nsids.map(move |nsid| (nsid, state))).collect())
    }

    /// The state of a namespace; of all of them, the worst.
    pub fn state(&self, nsid: u32) -> AnaState {
        const ALL: u32 = u32::MAX;
        let listed = match nsid {
            ALL => self.0.values().copied().max_by_key(|state| state.0),
            nsid => self.0.get(&nsid).copied(),
        };
        listed.unwrap_or(AnaState::OPTIMIZED)
    }

    /// A command met this state of a namespace.
    pub fn met(&mut self, nsid: u32, state: AnaState) {
        self.0.insert(nsid, state);
    }

    /// Whether a namespace is between two states.
    pub fn is_changing(&self) -> bool {
        self.0.values().any(|state| *state == AnaState::CHANGE)
    }

    /// Each listed namespace with its state.
    pub fn iter(&self) -> impl Iterator<Item = (u32, AnaState)> {
        self.0.iter().map(|(nsid, state)| (*nsid, *state))
    }
}
