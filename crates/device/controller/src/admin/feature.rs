//! Features of a controller (Base 2.1, section 5.1.25): which there are, and their current values.
//!
//! Nothing is saved across resets.

use byway_spec::base::command::NSID_ALL;
use byway_spec::base::feature::{
    Arbitration, AsyncEvents, CommandSetProfile, ErrorRecovery, FeatureCapabilities, FeatureId, HostBehavior,
    InterruptCoalescing, InterruptVector, NumberOfQueues, TemperatureThreshold, Timestamp,
    VolatileWriteCache, WriteAtomicity,
};
use byway_spec::{Command, Status};
use zerocopy::FromZeros;

use super::health::Thresholds;
use crate::error::CommandError;
use crate::limits::{INTERRUPT_VECTORS, MAX_IO_QUEUES, MAX_NAMESPACES};

/// Events the host may want: critical warnings, Identify Controller OAES, and with LPA bit 3 that of controller-initiated
/// telemetry, of which there is none.
pub(super) const EVENTS: AsyncEvents =
    AsyncEvents::new().with_smart(0b1_1111).with_namespace_changed(true).with_telemetry(true).with_ana(true);

const PS_PER_MS: u64 = 1_000_000_000;

/// Timestamp attributes, bit 0: the clock may have stopped since it was set. Time does not pass while the device does
/// not run.
const MAY_HAVE_STOPPED: u8 = 1;

/// Timestamp attributes, bits 3:1: set by the host.
const SET_BY_HOST: u8 = 1 << 1;

/// Current values of the features that no other part keeps.
#[derive(Debug)]
pub(super) struct Features {
    arbitration: Arbitration,
    workload_hint: u32,
    /// Temperatures at which to warn.
    thresholds: Thresholds,
    /// By namespace.
    error_recovery: [ErrorRecovery; MAX_NAMESPACES as usize],
    coalescing: InterruptCoalescing,
    vectors: [InterruptVector; INTERRUPT_VECTORS as usize],
    atomicity: WriteAtomicity,
    command_sets: CommandSetProfile,
    /// The timestamp that the host last set, in milliseconds, and when by modelled time.
    timestamp: SetTimestamp,
    /// Host Behavior Support as the host last set it.
    behavior: Box<HostBehavior>,
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
            timestamp: SetTimestamp::default(),
            behavior: Box::new(HostBehavior::new_zeroed()),
        }
    }
}

impl Features {
    /// The value of a feature that is kept here; CDW11 selects among several.
    pub fn value(&self, fid: FeatureId, command: &Command) -> Result<u32, CommandError> {
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

    pub fn set_arbitration(&mut self, arbitration: Arbitration) {
        self.arbitration = arbitration;
    }

    /// There is one power state: 0. The workload hint is kept and not used.
    pub fn set_power(&mut self, cdw11: u32) -> Result<(), CommandError> {
        if cdw11 & 0x1f != 0 {
            return Err(CommandError::invalid_field("no such power state").at_byte(44));
        }
        self.workload_hint = cdw11 & 0xe0;
        Ok(())
    }

    /// Temperatures at which to warn.
    pub fn thresholds(&self) -> &Thresholds {
        &self.thresholds
    }

    pub fn set_threshold(&mut self, to: TemperatureThreshold) -> Result<(), CommandError> {
        self.thresholds.set(to)
    }

    /// Sets the error recovery of one namespace, or of all.
    pub fn set_error_recovery(&mut self, nsid: u32, value: ErrorRecovery) -> Result<(), CommandError> {
        if nsid == NSID_ALL {
            self.error_recovery.fill(value);
        } else if let Some(slot) = self.error_recovery.get_mut(place_of(nsid)?) {
            *slot = value;
        }
        Ok(())
    }

    pub fn set_coalescing(&mut self, coalescing: InterruptCoalescing) {
        self.coalescing = coalescing;
    }

    pub fn set_vector(&mut self, cdw11: u32) -> Result<(), CommandError> {
        let value = InterruptVector::from_bits(cdw11);
        let slot = self.vectors.get_mut(usize::from(value.iv())).ok_or(NO_VECTOR)?;
        *slot = InterruptVector::new().with_iv(value.iv()).with_cd(value.cd());
        Ok(())
    }

    pub fn set_atomicity(&mut self, atomicity: WriteAtomicity) {
        self.atomicity = atomicity;
    }

    pub fn set_command_sets(&mut self, cdw11: u32) -> Result<(), CommandError> {
        let value = CommandSetProfile::from_bits(cdw11);
        if value.iosci() != 0 {
            let cause = "that combination of command sets is empty";
            return Err(CommandError::new(Status::COMMAND_SET_COMBINATION_REJECTED, cause).at_byte(44));
        }
        self.command_sets = value;
        Ok(())
    }

    /// The timestamp at modelled time `now_ps`.
    pub fn timestamp(&self, now_ps: u64) -> Timestamp {
        let SetTimestamp { ms, attributes, at_ps } = self.timestamp;
        let [a, b, c, d, e, f, ..] = (ms + now_ps.saturating_sub(at_ps) / PS_PER_MS).to_le_bytes();
        Timestamp { ms: [a, b, c, d, e, f], attributes: attributes | MAY_HAVE_STOPPED, reserved: 0 }
    }

    /// The host sets the timestamp.
    pub fn set_timestamp(&mut self, ms: u64, now_ps: u64) {
        self.timestamp = SetTimestamp { ms, attributes: SET_BY_HOST, at_ps: now_ps };
    }

    /// Host Behavior Support as the host last set it.
    pub fn behavior(&self) -> &HostBehavior {
        &self.behavior
    }

    pub fn set_behavior(&mut self, behavior: HostBehavior) {
        *self.behavior = behavior;
    }
}

/// The timestamp as it was last set.
#[derive(Debug, Clone, Copy, Default)]
struct SetTimestamp {
    ms: u64,
    attributes: u8,
    at_ps: u64,
}

/// Queues granted: all that there are, regardless of the number asked for.
pub(super) const GRANTED_QUEUES: NumberOfQueues =
    NumberOfQueues::new().with_nsq_z(MAX_IO_QUEUES - 1).with_ncq_z(MAX_IO_QUEUES - 1);

/// Capabilities of a feature; `None` where it is not supported. Over fabrics no window of device memory can be bound.
pub(super) fn capabilities(fid: FeatureId, is_fabric: bool) -> Option<FeatureCapabilities> {
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
        | FeatureId::RESERVATION_PERSISTENCE => (true, true),
        FeatureId::WINDOW if !is_fabric => (true, true),
        _ => return None,
    };
    Some(FeatureCapabilities::new().with_changeable(changeable).with_per_namespace(per_namespace))
}

/// Index of the values of namespace `nsid`.
fn place_of(nsid: u32) -> Result<usize, CommandError> {
    match nsid {
        1..=MAX_NAMESPACES => Ok(nsid as usize - 1),
        _ => Err(CommandError::new(Status::INVALID_NAMESPACE, "no such namespace").at_byte(4)),
    }
}

const NO_VECTOR: CommandError = CommandError::invalid_field("no such interrupt vector").at_byte(44);
