//! The discovery controller of one connection. It has no device; its log lists the subsystems that its host may connect to, and an
//! event reports changes.

use std::collections::VecDeque;

use byway_fabrics::{Change, DiscoveryLog, Nqn, Properties, PropertyAccess, PropertyError};
use byway_spec::base::admin::AdminOpcode;
use byway_spec::base::event::Event;
use byway_spec::base::feature::{FeatureCdw10, FeatureId};
use byway_spec::base::identify::{self, Cns, IdentifyCdw10, ascii_field};
use byway_spec::base::log::{LogCdw10, LogPage};
use byway_spec::base::register::{Cap, Crto, Vs};
use byway_spec::{Command, Completion, Status};
use zerocopy::{FromZeros, IntoBytes};

use crate::directory::Directory;
use crate::endpoints::Endpoints;
use crate::options::ADMIN_ENTRIES_MAX;

/// Outstanding Asynchronous Event Requests.
const REQUESTS: usize = 4;

/// Bytes of one Get Log Page, at most.
const LOG_BYTES_MAX: u32 = 1 << 20;

/// Silence limit of a host without a keep alive timeout: it reads the log once and leaves.
const SILENCE_MAX_MS: u32 = 120_000;

/// Discovery log page change, in OAES and in the feature that enables events.
const LOG_CHANGES: u32 = 1 << 31;

/// The outcome of a command.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// Success with data.
    Data(Vec<u8>),
    /// Success with DW0.
    Done(u32),
    /// Completed later by an event.
    Later,
    /// Failure.
    Failed(Status),
}

/// A discovery controller.
#[derive(Debug)]
pub struct DiscoveryController {
    id: u16,
    host: Nqn,
    endpoints: Endpoints,
    properties: Properties,
    log: DiscoveryLog,
    requests: VecDeque<u16>,
    keep_alive_ms: u32,
    events: u32,
    /// The log changed since the host read it, and the host enabled events.
    has_changed: bool,
    /// A change was reported, and the host has not read the log since.
    is_reported: bool,
}

impl DiscoveryController {
    /// A controller for `host`, connected at `endpoints`.
    pub fn new(id: u16, host: Nqn, endpoints: Endpoints, directory: &Directory, keep_alive_ms: u32) -> Self {
        let cap = Cap::new()
            .with_mqes_z(ADMIN_ENTRIES_MAX - 1)
            .with_cqr(true)
            .with_to(20)
            .with_css(Cap::CSS_NVM | Cap::CSS_IO_SETS);
        let mut controller = Self {
            id,
            host,
            endpoints,
            properties: Properties::new(cap, Crto::new()),
            log: DiscoveryLog::default(),
            requests: VecDeque::new(),
            keep_alive_ms,
            events: 0,
            has_changed: false,
            is_reported: false,
        };
        controller.update(directory);
        controller
    }

    /// Silence limit of its host in milliseconds.
    pub fn silence_max_ms(&self) -> u32 {
        if self.keep_alive_ms > 0 { self.keep_alive_ms } else { SILENCE_MAX_MS }
    }

    /// Updates the log from a changed directory.
    pub fn update(&mut self, directory: &Directory) {
        if directory.generation() == self.log.generation() {
            return;
        }
        let listing = directory.listing();
        let is_new = self.log.set(listing.generation(), listing.entries(&self.host, &self.endpoints));
        self.has_changed |= is_new && self.events & LOG_CHANGES != 0;
    }

    /// The completion that reports a change, if there is one and a request is outstanding.
    pub fn take_event(&mut self) -> Option<Completion> {
        if !self.has_changed || self.is_reported {
            return None;
        }
        let cid = self.requests.pop_front()?;
        (self.has_changed, self.is_reported) = (false, true);
        let event = u64::from(Event::DISCOVERY_CHANGED.into_bits());
        Some(Completion::new(0, 0, cid, Status::SUCCESS).with_result(event))
    }

    /// Property Get.
    pub fn property(&self, property: PropertyAccess) -> u64 {
        self.properties.get(property)
    }

    /// Property Set.
    ///
    /// # Errors
    /// The property cannot be written.
    pub fn set_property(&mut self, property: PropertyAccess, value: u64) -> Result<(), PropertyError> {
        match self.properties.set(property, value)? {
            Change::Enable => self.properties.set_ready(),
            Change::Shutdown => {
                self.keep_alive_ms = 0;
                self.properties.set_shut_down();
            }
            Change::Reset => self.reset(),
            _ => {}
        }
        Ok(())
    }

    fn reset(&mut self) {
        self.requests.clear();
        self.events = 0;
        (self.has_changed, self.is_reported) = (false, false);
    }

    /// Executes an admin command.
    pub fn execute(&mut self, command: &Command) -> Answer {
        if !self.properties.csts().rdy() {
            return Answer::Failed(Status::COMMAND_SEQUENCE_ERROR);
        }
        match AdminOpcode(command.opcode()) {
            AdminOpcode::IDENTIFY => self.identify(command),
            AdminOpcode::GET_LOG_PAGE => self.log_page(command),
            AdminOpcode::KEEP_ALIVE => Answer::Done(0),
            AdminOpcode::ASYNC_EVENT_REQUEST if self.requests.len() < REQUESTS => {
                self.requests.push_back(command.cid());
                Answer::Later
            }
            AdminOpcode::ASYNC_EVENT_REQUEST => Answer::Failed(Status::EVENT_REQUEST_LIMIT_EXCEEDED),
            AdminOpcode::GET_FEATURES => self.feature(command),
            AdminOpcode::SET_FEATURES => self.set_feature(command),
            _ => Answer::Failed(Status::INVALID_OPCODE.with_dnr()),
        }
    }

    fn identify(&self, command: &Command) -> Answer {
        if IdentifyCdw10::from_bits(command.cdw10).cns() != Cns::CONTROLLER {
            return Answer::Failed(Status::INVALID_FIELD.with_dnr());
        }
        let mut data = Box::new(identify::Controller::new_zeroed());
        self.describe(&mut data);
        Answer::Data(data.as_bytes().to_vec())
    }

    fn describe(&self, data: &mut identify::Controller) {
        const DISCOVERY: u8 = 2;
        data.fr = ascii_field(env!("CARGO_PKG_VERSION"));
        data.mn = ascii_field("Byway discovery");
        data.cntlid = self.id;
        data.ver = Vs::V2_1.into_bits();
        data.cntrltype = DISCOVERY;
        // Discovery log page changes; parts of log pages.
        data.oaes = LOG_CHANGES;
        data.lpa = 1 << 2;
        data.ctratt = 1 | 1 << 6;
        data.kas = 10;
        data.aerl_z = (REQUESTS - 1) as u8;
        data.maxcmd = ADMIN_ENTRIES_MAX;
        data.sqes = 0x66;
        data.cqes = 0x44;
        data.sgls = identify::Sgls::new().with_supported(1).with_offset(true).with_transport(true);
        data.ioccsz = 4;
        data.iorcsz = 1;
        data.msdbd = 1;
        data.subnqn = Nqn::discovery().to_field();
    }

    /// Get Log Page at any offset (Base 2.1, section 5.1.12): NUMD in CDW10 and 11, the offset in CDW12 and 13.
    fn log_page(&mut self, command: &Command) -> Answer {
        let cdw10 = LogCdw10::from_bits(command.cdw10);
        if cdw10.lid() != LogPage::DISCOVERY {
            return Answer::Failed(Status::INVALID_LOG_PAGE.with_dnr());
        }
        let dwords = u64::from(command.cdw10 >> 16 | (command.cdw11 & 0xffff) << 16) + 1;
        let offset = u64::from(command.cdw12) | u64::from(command.cdw13) << 32;
        let bytes = dwords * 4;
        if bytes > u64::from(LOG_BYTES_MAX) || bytes > u64::from(command.sgl1().length_bytes) {
            return Answer::Failed(Status::DATA_SGL_LENGTH_INVALID.with_dnr());
        }
        if offset % 4 != 0 {
            return Answer::Failed(Status::INVALID_FIELD.with_dnr());
        }
        if !cdw10.rae() {
            // Without RAE, reading the log clears the event.
            (self.has_changed, self.is_reported) = (false, false);
        }
        Answer::Data(self.log.read(offset, bytes as usize))
    }

    fn feature(&self, command: &Command) -> Answer {
        match FeatureCdw10::from_bits(command.cdw10).fid() {
            FeatureId::ASYNC_EVENTS => Answer::Done(self.events),
            FeatureId::KEEP_ALIVE => Answer::Done(self.keep_alive_ms),
            _ => Answer::Failed(Status::INVALID_FIELD.with_dnr()),
        }
    }

    fn set_feature(&mut self, command: &Command) -> Answer {
        match FeatureCdw10::from_bits(command.cdw10).fid() {
            FeatureId::ASYNC_EVENTS => self.events = command.cdw11,
            FeatureId::KEEP_ALIVE => self.keep_alive_ms = command.cdw11,
            _ => return Answer::Failed(Status::INVALID_FIELD.with_dnr()),
        }
        Answer::Done(0)
    }
}
