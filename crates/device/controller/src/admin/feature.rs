//! Get Features and Set Features (Base 2.1, sections 5.1.11 and 5.1.25).
//!
//! Nothing is saved across resets: Save is refused, and *saved* reads as *default*.

use byway_spec::base::command::NSID_ALL;
use byway_spec::base::event::Event;
use byway_spec::base::feature::{
    Arbitration, AsyncEvents, CommandSetProfile, ErrorRecovery, FeatureCapabilities, FeatureCdw10, FeatureId,
    FeatureSelect, HostBehavior, InterruptCoalescing, InterruptVector, NumberOfQueues, TemperatureThreshold,
    Timestamp, VolatileWriteCache, WriteAtomicity,
};
use byway_spec::kv::KvConfiguration;
use byway_spec::vendor::Methods;
use byway_spec::{Command, Status};
use zerocopy::FromZeros;

use super::health::{self, Thresholds};
use super::identify::COMMAND_SETS;
use super::queues::INTERRUPT_VECTORS;
use super::reservation::identifier_bytes;
use super::transfers::{ANNOUNCED, EnabledTransfers, FABRIC_METHODS};
use crate::controller::Controller;
use crate::error::CommandError;
use crate::namespace::Outcome;
use crate::port::Port;
use crate::queue::MAX_IO_QUEUES;
use crate::subsystem::{MAX_NAMESPACES, Subsystem};

/// Events the host may want (Identify Controller OAES, and the critical warnings).
pub(super) const EVENTS: AsyncEvents =
    AsyncEvents::new().with_smart(0b1_1111).with_namespace_changed(true).with_ana(true);

/// Current values that are not kept elsewhere.
#[derive(Debug)]
pub(super) struct Features {
    arbitration: Arbitration,
    workload_hint: u32,
    /// Temperatures at which to warn.
    pub thresholds: Thresholds,
    /// Of each namespace.
    error_recovery: [ErrorRecovery; MAX_NAMESPACES as usize],
    coalescing: InterruptCoalescing,
    vectors: [InterruptVector; INTERRUPT_VECTORS as usize],
    atomicity: WriteAtomicity,
    command_sets: CommandSetProfile,
    /// What the host last set, and when.
    pub timestamp: (Timestamp, u64),
    /// What the host can cope with.
    pub behavior: Box<HostBehavior>,
}

impl Default for Features {
    fn default() -> Self {
        let mut vectors = [InterruptVector::new(); INTERRUPT_VECTORS as usize];
        for (iv, vector) in (0..).zip(&mut vectors) {
            vector.set_iv(iv);
        }
        Self {
            arbitration: Arbitration::new(),
            workload_hint: 0,
            thresholds: Thresholds::default(),
            error_recovery: [ErrorRecovery::new(); MAX_NAMESPACES as usize],
            coalescing: InterruptCoalescing::new(),
            vectors,
            atomicity: WriteAtomicity::new(),
            command_sets: CommandSetProfile::new(),
            timestamp: (Timestamp::default(), 0),
            behavior: Box::new(HostBehavior::new_zeroed()),
        }
    }
}

impl Features {
    /// The value of a feature that lives here; `cdw11` selects among several.
    fn value(&self, fid: FeatureId, command: &Command) -> Result<u32, CommandError> {
        Ok(match fid {
            FeatureId::ARBITRATION => self.arbitration.into_bits(),
            FeatureId::POWER_MANAGEMENT => self.workload_hint,
            FeatureId::TEMPERATURE_THRESHOLD => {
                self.thresholds.get(TemperatureThreshold::from_bits(command.cdw11))?.into_bits()
            }
            FeatureId::ERROR_RECOVERY => {
                self.error_recovery.get(place_of(command.nsid)?).map_or(0, |e| e.into_bits())
            }
            FeatureId::VOLATILE_WRITE_CACHE => VolatileWriteCache::new().with_wce(true).into_bits(),
            FeatureId::NUMBER_OF_QUEUES => GRANTED_QUEUES.into_bits(),
            FeatureId::INTERRUPT_COALESCING => self.coalescing.into_bits(),
            FeatureId::INTERRUPT_VECTOR => {
                let iv = InterruptVector::from_bits(command.cdw11).iv();
                self.vectors.get(usize::from(iv)).ok_or(NO_VECTOR)?.into_bits()
            }
            FeatureId::WRITE_ATOMICITY => self.atomicity.into_bits(),
            FeatureId::IO_COMMAND_SET_PROFILE => self.command_sets.into_bits(),
            _ => 0,
        })
    }
}

/// As many as there are, whatever was asked for.
const GRANTED_QUEUES: NumberOfQueues =
    NumberOfQueues::new().with_nsq_z(MAX_IO_QUEUES - 1).with_ncq_z(MAX_IO_QUEUES - 1);

/// What can be done with a feature; `None` where it is not supported.
pub(super) fn capabilities(fid: FeatureId) -> Option<FeatureCapabilities> {
    let (changeable, per_namespace) = match fid {
        FeatureId::ARBITRATION
        | FeatureId::POWER_MANAGEMENT
        | FeatureId::TEMPERATURE_THRESHOLD
        | FeatureId::NUMBER_OF_QUEUES
        | FeatureId::INTERRUPT_COALESCING
        | FeatureId::INTERRUPT_VECTOR
        | FeatureId::WRITE_ATOMICITY
        | FeatureId::ASYNC_EVENTS
        | FeatureId::TIMESTAMP
        | FeatureId::KEEP_ALIVE
        | FeatureId::HOST_BEHAVIOR
        | FeatureId::IO_COMMAND_SET_PROFILE
        | FeatureId::HOST_IDENTIFIER
        | FeatureId::METHODS => (true, false),
        FeatureId::VOLATILE_WRITE_CACHE => (false, false),
        FeatureId::ERROR_RECOVERY
        | FeatureId::KEY_VALUE
        | FeatureId::RESERVATION_NOTIFICATION
        | FeatureId::RESERVATION_PERSISTENCE
        | FeatureId::WINDOW => (true, true),
        _ => return None,
    };
    Some(FeatureCapabilities::new().with_changeable(changeable).with_per_namespace(per_namespace))
}

impl Controller {
    pub(super) fn get_features(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        command: &Command,
    ) -> Result<Outcome, CommandError> {
        let cdw10 = FeatureCdw10::from_bits(command.cdw10);
        let capabilities = capabilities(cdw10.fid()).ok_or(UNKNOWN_FEATURE)?;
        if capabilities.per_namespace() && cdw10.sel() != FeatureSelect::CAPABILITIES {
            subsystem.attached(command.nsid, self.id)?;
            self.check_path(subsystem, cdw10.fid(), command.nsid)?;
        }
        match cdw10.sel() {
            FeatureSelect::CURRENT => self.current_value(subsystem, port, cdw10.fid(), command),
            FeatureSelect::DEFAULT | FeatureSelect::SAVED => self.default_value(port, cdw10.fid(), command),
            FeatureSelect::CAPABILITIES => Ok(Outcome::with(capabilities.into_bits())),
            _ => Err(CommandError::invalid_field("no such value of a feature").at_byte(41)),
        }
    }

    fn current_value(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        fid: FeatureId,
        command: &Command,
    ) -> Result<Outcome, CommandError> {
        match fid {
            FeatureId::TIMESTAMP => self.get_timestamp(port, command),
            FeatureId::HOST_BEHAVIOR => self.get_host_behavior(port, command),
            FeatureId::ASYNC_EVENTS => Ok(Outcome::with(self.admin.events.wanted.into_bits())),
            FeatureId::KEEP_ALIVE => Ok(Outcome::with(self.admin.keep_alive.timeout_ms())),
            FeatureId::METHODS => Ok(Outcome::with(self.admin.transfers.0.into_bits())),
            FeatureId::KEY_VALUE => {
                let (namespace, _) = subsystem.attached(command.nsid, self.id)?;
                Ok(Outcome::with(namespace.kv()?.configuration().into_bits()))
            }
            FeatureId::WINDOW => self.bound_window(subsystem, command),
            FeatureId::HOST_IDENTIFIER => self.get_host_identifier(subsystem, port, command),
            FeatureId::RESERVATION_NOTIFICATION => {
                Ok(Outcome::with(subsystem.notices.mask(self.id, command.nsid).into_bits()))
            }
            FeatureId::RESERVATION_PERSISTENCE => {
                Ok(Outcome::with(u32::from(subsystem.persists(command.nsid))))
            }
            _ => Ok(Outcome::with(self.admin.features.value(fid, command)?)),
        }
    }

    fn default_value(
        &mut self,
        port: &mut Port<'_>,
        fid: FeatureId,
        command: &Command,
    ) -> Result<Outcome, CommandError> {
        match fid {
            FeatureId::TIMESTAMP => self.send(port, command, &[0; size_of::<Timestamp>()]),
            FeatureId::HOST_BEHAVIOR => self.send(port, command, &[0; size_of::<HostBehavior>()]),
            FeatureId::HOST_IDENTIFIER => self.send(port, command, &[0; 16][..identifier_bytes(command)]),
            _ => Ok(Outcome::with(Features::default().value(fid, command)?)),
        }
    }

    pub(super) fn set_features(
        &mut self,
        subsystem: &mut Subsystem,
        port: &mut Port<'_>,
        command: &Command,
    ) -> Result<Outcome, CommandError> {
        let cdw10 = FeatureCdw10::from_bits(command.cdw10);
        let capabilities = capabilities(cdw10.fid()).ok_or(UNKNOWN_FEATURE)?;
        if cdw10.sv() {
            return Err(CommandError::new(Status::FEATURE_NOT_SAVEABLE, "no feature is saveable").at_byte(43));
        }
        if !capabilities.per_namespace() && !matches!(command.nsid, 0 | NSID_ALL) {
            return Err(CommandError::new(Status::FEATURE_NOT_PER_NAMESPACE, "not a feature of a namespace")
                .at_byte(4));
        }
        self.check_path(subsystem, cdw10.fid(), command.nsid)?;
        let cdw11 = command.cdw11;
        match cdw10.fid() {
            FeatureId::ARBITRATION => self.admin.features.arbitration = Arbitration::from_bits(cdw11),
            FeatureId::POWER_MANAGEMENT => self.set_power(cdw11)?,
            FeatureId::TEMPERATURE_THRESHOLD => self.set_threshold(subsystem, cdw11)?,
            FeatureId::ERROR_RECOVERY => self.set_error_recovery(subsystem, command)?,
            FeatureId::VOLATILE_WRITE_CACHE => check_write_cache(cdw11)?,
            FeatureId::NUMBER_OF_QUEUES => return self.negotiate_queues(cdw11),
            FeatureId::INTERRUPT_COALESCING => {
                self.admin.features.coalescing = InterruptCoalescing::from_bits(cdw11)
            }
            FeatureId::INTERRUPT_VECTOR => self.set_vector(cdw11)?,
            FeatureId::WRITE_ATOMICITY => self.admin.features.atomicity = WriteAtomicity::from_bits(cdw11),
            FeatureId::ASYNC_EVENTS => self.set_events(subsystem, cdw11),
            FeatureId::TIMESTAMP => self.set_timestamp(port, command)?,
            FeatureId::KEEP_ALIVE => self.admin.keep_alive.set(cdw11, self.admin.now_ps)?,
            FeatureId::HOST_BEHAVIOR => self.set_host_behavior(port, command)?,
            FeatureId::IO_COMMAND_SET_PROFILE => return self.set_command_sets(cdw11),
            FeatureId::KEY_VALUE => self.set_key_value(subsystem, command)?,
            FeatureId::METHODS => self.enable_methods(cdw11)?,
            FeatureId::HOST_IDENTIFIER => self.set_host_identifier(subsystem, port, command)?,
            FeatureId::RESERVATION_NOTIFICATION => self.set_notice_mask(subsystem, command)?,
            FeatureId::RESERVATION_PERSISTENCE => return self.set_persistence(subsystem, command),
            FeatureId::WINDOW if self.capsules.is_none() => return self.bind_window(subsystem, command),
            _ => return Err(UNKNOWN_FEATURE),
        }
        Ok(Outcome::OK)
    }

    /// Features that are what a namespace holds are out of reach with it (Base 2.1, section 8.1.1).
    fn check_path(&self, subsystem: &Subsystem, fid: FeatureId, nsid: u32) -> Result<(), CommandError> {
        match fid {
            FeatureId::ERROR_RECOVERY
            | FeatureId::RESERVATION_NOTIFICATION
            | FeatureId::RESERVATION_PERSISTENCE => subsystem.paths.check(self.id, nsid),
            _ => Ok(()),
        }
    }

    /// One power state: 0. The workload hint is kept for whoever asks.
    fn set_power(&mut self, cdw11: u32) -> Result<(), CommandError> {
        if cdw11 & 0x1f != 0 {
            return Err(CommandError::invalid_field("no such power state").at_byte(44));
        }
        self.admin.features.workload_hint = cdw11 & 0xe0;
        Ok(())
    }

    fn set_threshold(&mut self, subsystem: &Subsystem, cdw11: u32) -> Result<(), CommandError> {
        self.admin.features.thresholds.set(TemperatureThreshold::from_bits(cdw11))?;
        self.raise_warnings(subsystem);
        Ok(())
    }

    fn set_events(&mut self, subsystem: &Subsystem, cdw11: u32) {
        self.admin.events.wanted = AsyncEvents::from_bits(cdw11 & EVENTS.into_bits());
        self.raise_warnings(subsystem);
    }

    /// Raises the event of each critical warning that stands and that the host wants to hear of.
    fn raise_warnings(&mut self, subsystem: &Subsystem) {
        let warnings = health::critical_warning(subsystem, &self.admin.features.thresholds);
        let wanted = warnings & self.admin.events.wanted.smart();
        self.admin.events.warned = warnings;
        for (bit, event) in [
            (health::WARN_SPARE, Event::SPARE),
            (health::WARN_TEMPERATURE, Event::TEMPERATURE),
            (health::WARN_RELIABILITY, Event::RELIABILITY),
            (health::WARN_READ_ONLY, Event::RELIABILITY),
        ] {
            if wanted & bit != 0 {
                self.admin.events.raise(event);
            }
        }
    }

    /// As [`Self::raise_warnings`], where one stands that did not the last time.
    pub(super) fn raise_new_warnings(&mut self, subsystem: &Subsystem) {
        let warnings = health::critical_warning(subsystem, &self.admin.features.thresholds);
        if warnings & !self.admin.events.warned != 0 {
            self.raise_warnings(subsystem);
        }
        self.admin.events.warned = warnings;
    }

    fn set_error_recovery(
        &mut self,
        subsystem: &mut Subsystem,
        command: &Command,
    ) -> Result<(), CommandError> {
        let value = ErrorRecovery::from_bits(command.cdw11);
        if value.dulbe() {
            return Err(
                CommandError::invalid_field("deallocated blocks read as zeroes, not as errors").at_byte(46)
            );
        }
        if command.nsid == NSID_ALL {
            self.admin.features.error_recovery.fill(value);
            return Ok(());
        }
        subsystem.attached(command.nsid, self.id)?;
        if let Some(slot) = self.admin.features.error_recovery.get_mut(place_of(command.nsid)?) {
            *slot = value;
        }
        Ok(())
    }

    /// Linux asks before it creates queues; afterwards it is too late (Base 2.1, section 5.1.25.2.1).
    fn negotiate_queues(&mut self, cdw11: u32) -> Result<Outcome, CommandError> {
        let asked = NumberOfQueues::from_bits(cdw11);
        if asked.nsq_z() == u16::MAX || asked.ncq_z() == u16::MAX {
            return Err(CommandError::invalid_field("65536 queues cannot be asked for").at_byte(44));
        }
        if self.has_io_queues() {
            return Err(CommandError::new(Status::COMMAND_SEQUENCE_ERROR, "I/O queues were created already"));
        }
        Ok(Outcome::with(GRANTED_QUEUES.into_bits()))
    }

    fn set_vector(&mut self, cdw11: u32) -> Result<(), CommandError> {
        let value = InterruptVector::from_bits(cdw11);
        let slot = self.admin.features.vectors.get_mut(usize::from(value.iv())).ok_or(NO_VECTOR)?;
        *slot = InterruptVector::new().with_iv(value.iv()).with_cd(value.cd());
        Ok(())
    }

    fn set_command_sets(&mut self, cdw11: u32) -> Result<Outcome, CommandError> {
        let value = CommandSetProfile::from_bits(cdw11);
        if value.iosci() != 0 {
            let cause = "that combination of command sets is empty";
            return Err(CommandError::new(Status::COMMAND_SET_COMBINATION_REJECTED, cause).at_byte(44));
        }
        self.admin.features.command_sets = value;
        Ok(Outcome::with(COMMAND_SETS as u32))
    }

    fn set_key_value(&mut self, subsystem: &mut Subsystem, command: &Command) -> Result<(), CommandError> {
        let value = KvConfiguration::new().with_ednek(KvConfiguration::from_bits(command.cdw11).ednek());
        let (namespace, _) = subsystem.attached(command.nsid, self.id)?;
        namespace.kv()?.set_configuration(value);
        Ok(())
    }

    fn enable_methods(&mut self, cdw11: u32) -> Result<(), CommandError> {
        let announced = if self.capsules.is_some() { FABRIC_METHODS } else { ANNOUNCED };
        if cdw11 & !announced.into_bits() != 0 {
            return Err(CommandError::invalid_field("a transfer method that was not announced").at_byte(44));
        }
        self.admin.transfers = EnabledTransfers(Methods::from_bits(cdw11));
        Ok(())
    }
}

/// Where the values of namespace `nsid` stand.
fn place_of(nsid: u32) -> Result<usize, CommandError> {
    match nsid {
        1..=MAX_NAMESPACES => Ok(nsid as usize - 1),
        _ => Err(CommandError::new(Status::INVALID_NAMESPACE, "no such namespace").at_byte(4)),
    }
}

/// The cache is the operating system's, under the image; Flush writes it back, and it cannot be switched off.
fn check_write_cache(cdw11: u32) -> Result<(), CommandError> {
    if VolatileWriteCache::from_bits(cdw11).wce() {
        return Ok(());
    }
    Err(CommandError::new(Status::FEATURE_NOT_CHANGEABLE, "the write cache cannot be disabled").at_byte(44))
}

const UNKNOWN_FEATURE: CommandError = CommandError::invalid_field("no such feature").at_byte(40);
const NO_VECTOR: CommandError = CommandError::invalid_field("no such interrupt vector").at_byte(44);
