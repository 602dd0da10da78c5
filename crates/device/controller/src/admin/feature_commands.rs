//! Get Features and Set Features (Base 2.1, sections 5.1.11 and 5.1.25).
//!
//! Save is refused, and *saved* reads as *default*.

use byway_spec::base::command::NSID_ALL;
use byway_spec::base::feature::{
    Arbitration, AsyncEvents, ErrorRecovery, FeatureCdw10, FeatureId, FeatureSelect, HostBehavior,
    InterruptCoalescing, NumberOfQueues, TemperatureThreshold, Timestamp, VolatileWriteCache, WriteAtomicity,
};
use byway_spec::kv::KvConfiguration;
use byway_spec::vendor::Methods;
use byway_spec::{Command, Status};

use super::context::Context;
use super::feature::{EVENTS, Features, GRANTED_QUEUES, capabilities};
use super::reservation::identifier_bytes;
use super::transfers::{ANNOUNCED, EnabledTransfers, FABRIC_METHODS};
use super::{AdminState, feature_data, health, reservation};
use crate::error::CommandError;
use crate::limits::COMMAND_SETS;
use crate::outcome::Outcome;
use crate::subsystem::Subsystem;

impl AdminState {
    pub(super) fn get_features(
        &mut self,
        cx: &mut Context<'_, '_>,
        command: &Command,
    ) -> Result<Outcome, CommandError> {
        let cdw10 = FeatureCdw10::from_bits(command.cdw10);
        let capabilities = capabilities(cdw10.fid(), cx.is_fabric).ok_or(UNKNOWN_FEATURE)?;
        if capabilities.per_namespace() && cdw10.sel() != FeatureSelect::CAPABILITIES {
            cx.subsystem.attached(command.nsid, cx.id)?;
            check_path(cx, cdw10.fid(), command.nsid)?;
        }
        match cdw10.sel() {
            FeatureSelect::CURRENT => self.current_value(cx, cdw10.fid(), command),
            FeatureSelect::DEFAULT | FeatureSelect::SAVED => self.default_value(cx, cdw10.fid(), command),
            FeatureSelect::CAPABILITIES => Ok(Outcome::with(capabilities.into_bits())),
            _ => Err(CommandError::invalid_field("no such value of a feature").at_byte(41)),
        }
    }

    fn current_value(
        &mut self,
        cx: &mut Context<'_, '_>,
        fid: FeatureId,
        command: &Command,
    ) -> Result<Outcome, CommandError> {
        match fid {
            FeatureId::TIMESTAMP => self.get_timestamp(cx, command),
            FeatureId::HOST_BEHAVIOR => self.get_host_behavior(cx, command),
            FeatureId::ASYNC_EVENTS => Ok(Outcome::with(self.events.wanted().into_bits())),
            FeatureId::KEEP_ALIVE => Ok(Outcome::with(self.keep_alive.timeout_ms())),
            FeatureId::METHODS => Ok(Outcome::with(self.transfers.0.into_bits())),
            FeatureId::KEY_VALUE => {
                let (namespace, _) = cx.subsystem.attached(command.nsid, cx.id)?;
                Ok(Outcome::with(namespace.kv()?.configuration().into_bits()))
            }
            FeatureId::WINDOW => feature_data::bound_window(cx, command),
            FeatureId::HOST_IDENTIFIER => reservation::get_host_identifier(cx, command),
            FeatureId::RESERVATION_NOTIFICATION => {
                Ok(Outcome::with(cx.subsystem.notices.mask(cx.id, command.nsid).into_bits()))
            }
            FeatureId::RESERVATION_PERSISTENCE => {
                Ok(Outcome::with(u32::from(cx.subsystem.persists(command.nsid))))
            }
            _ => Ok(Outcome::with(self.features.value(fid, command)?)),
        }
    }

    fn default_value(
        &mut self,
        cx: &mut Context<'_, '_>,
        fid: FeatureId,
        command: &Command,
    ) -> Result<Outcome, CommandError> {
        match fid {
            FeatureId::TIMESTAMP => cx.send(command, &[0; size_of::<Timestamp>()]),
            FeatureId::HOST_BEHAVIOR => cx.send(command, &[0; size_of::<HostBehavior>()]),
            FeatureId::HOST_IDENTIFIER => cx.send(command, &[0; 16][..identifier_bytes(command)]),
            _ => Ok(Outcome::with(Features::default().value(fid, command)?)),
        }
    }

    pub(super) fn set_features(
        &mut self,
        cx: &mut Context<'_, '_>,
        command: &Command,
    ) -> Result<Outcome, CommandError> {
        let cdw10 = FeatureCdw10::from_bits(command.cdw10);
        let capabilities = capabilities(cdw10.fid(), cx.is_fabric).ok_or(UNKNOWN_FEATURE)?;
        if cdw10.sv() {
            return Err(CommandError::new(Status::FEATURE_NOT_SAVEABLE, "no feature is saveable").at_byte(43));
        }
        if !capabilities.per_namespace() && !matches!(command.nsid, 0 | NSID_ALL) {
            return Err(CommandError::new(Status::FEATURE_NOT_PER_NAMESPACE, "not a feature of a namespace")
                .at_byte(4));
        }
        check_path(cx, cdw10.fid(), command.nsid)?;
        let cdw11 = command.cdw11;
        match cdw10.fid() {
            FeatureId::ARBITRATION => self.features.set_arbitration(Arbitration::from_bits(cdw11)),
            FeatureId::POWER_MANAGEMENT => self.features.set_power(cdw11)?,
            FeatureId::TEMPERATURE_THRESHOLD => self.set_threshold(cx.subsystem, cdw11)?,
            FeatureId::ERROR_RECOVERY => self.set_error_recovery(cx, command)?,
            FeatureId::VOLATILE_WRITE_CACHE => check_write_cache(cdw11)?,
            FeatureId::NUMBER_OF_QUEUES => return negotiate_queues(cx, cdw11),
            FeatureId::INTERRUPT_COALESCING => {
                self.features.set_coalescing(InterruptCoalescing::from_bits(cdw11))
            }
            FeatureId::INTERRUPT_VECTOR => self.features.set_vector(cdw11)?,
            FeatureId::WRITE_ATOMICITY => self.features.set_atomicity(WriteAtomicity::from_bits(cdw11)),
            FeatureId::ASYNC_EVENTS => self.set_events(cx.subsystem, cdw11),
            FeatureId::TIMESTAMP => self.set_timestamp(cx, command)?,
            FeatureId::KEEP_ALIVE => self.keep_alive.set(cdw11, self.now_ps)?,
            FeatureId::HOST_BEHAVIOR => self.set_host_behavior(cx, command)?,
            FeatureId::IO_COMMAND_SET_PROFILE => {
                self.features.set_command_sets(cdw11)?;
                return Ok(Outcome::with(COMMAND_SETS as u32));
            }
            FeatureId::KEY_VALUE => set_key_value(cx, command)?,
            FeatureId::METHODS => self.enable_methods(cx, cdw11)?,
            FeatureId::HOST_IDENTIFIER => reservation::set_host_identifier(cx, command)?,
            FeatureId::RESERVATION_NOTIFICATION => reservation::set_notice_mask(cx, command)?,
            FeatureId::RESERVATION_PERSISTENCE => return reservation::set_persistence(cx, command),
            FeatureId::WINDOW => return feature_data::bind_window(cx, command),
            _ => return Err(UNKNOWN_FEATURE),
        }
        Ok(Outcome::OK)
    }

    fn set_threshold(&mut self, subsystem: &Subsystem, cdw11: u32) -> Result<(), CommandError> {
        self.features.set_threshold(TemperatureThreshold::from_bits(cdw11))?;
        self.raise_warnings(subsystem);
        Ok(())
    }

    fn set_events(&mut self, subsystem: &Subsystem, cdw11: u32) {
        self.events.want(AsyncEvents::from_bits(cdw11 & EVENTS.into_bits()));
        self.raise_warnings(subsystem);
    }

    /// Raises the event of each critical warning that the host wants to know.
    fn raise_warnings(&mut self, subsystem: &Subsystem) {
        self.events.raise_warnings(health::critical_warning(subsystem, self.features.thresholds()));
    }

    fn set_error_recovery(
        &mut self,
        cx: &mut Context<'_, '_>,
        command: &Command,
    ) -> Result<(), CommandError> {
        let value = ErrorRecovery::from_bits(command.cdw11);
        if value.dulbe() {
            return Err(
                CommandError::invalid_field("deallocated blocks read as zeroes, not as errors").at_byte(46)
            );
        }
        if command.nsid != NSID_ALL {
            cx.subsystem.attached(command.nsid, cx.id)?;
        }
        self.features.set_error_recovery(command.nsid, value)
    }

    fn enable_methods(&mut self, cx: &Context<'_, '_>, cdw11: u32) -> Result<(), CommandError> {
        let announced = if cx.is_fabric { FABRIC_METHODS } else { ANNOUNCED };
        if cdw11 & !announced.into_bits() != 0 {
            return Err(CommandError::invalid_field("a transfer method that was not announced").at_byte(44));
        }
        self.transfers = EnabledTransfers(Methods::from_bits(cdw11));
        Ok(())
    }
}

/// Features that are what a namespace holds are out of reach with it (Base 2.1, section 8.1.1).
fn check_path(cx: &Context<'_, '_>, fid: FeatureId, nsid: u32) -> Result<(), CommandError> {
    match fid {
        FeatureId::ERROR_RECOVERY
        | FeatureId::RESERVATION_NOTIFICATION
        | FeatureId::RESERVATION_PERSISTENCE => cx.subsystem.paths.check(cx.id, nsid),
        _ => Ok(()),
    }
}

/// Linux asks before it creates queues; afterwards it is too late (Base 2.1, section 5.1.25.2.1).
fn negotiate_queues(cx: &Context<'_, '_>, cdw11: u32) -> Result<Outcome, CommandError> {
    let asked = NumberOfQueues::from_bits(cdw11);
    if asked.nsq_z() == u16::MAX || asked.ncq_z() == u16::MAX {
        return Err(CommandError::invalid_field("65536 queues cannot be asked for").at_byte(44));
    }
    if cx.queues.has_io_queues() {
        return Err(CommandError::new(Status::COMMAND_SEQUENCE_ERROR, "I/O queues were created already"));
    }
    Ok(Outcome::with(GRANTED_QUEUES.into_bits()))
}

fn set_key_value(cx: &mut Context<'_, '_>, command: &Command) -> Result<(), CommandError> {
    let value = KvConfiguration::new().with_ednek(KvConfiguration::from_bits(command.cdw11).ednek());
    let (namespace, _) = cx.subsystem.attached(command.nsid, cx.id)?;
    namespace.kv()?.set_configuration(value);
    Ok(())
}

/// The cache is the operating system's, under the image; Flush writes it back, and it cannot be switched off.
fn check_write_cache(cdw11: u32) -> Result<(), CommandError> {
    if VolatileWriteCache::from_bits(cdw11).wce() {
        return Ok(());
    }
    Err(CommandError::new(Status::FEATURE_NOT_CHANGEABLE, "the write cache cannot be disabled").at_byte(44))
}

const UNKNOWN_FEATURE: CommandError = CommandError::invalid_field("no such feature").at_byte(40);
