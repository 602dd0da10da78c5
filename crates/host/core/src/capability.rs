//! What a backend and its device can do: asked, never guessed.

use std::fmt;

use byway_link::Method;
use byway_spec::base::feature::FeatureId;
use byway_spec::vendor::{self, VendorArea};

use crate::admin::AdminCommand;
use crate::command::{KvCommand, NvmCommand};
use crate::error::{Error, ErrorKind, Result};

/// Most commands outstanding on a queue, whatever serves it: a ring has at most 65,536 entries, of which one stays free.
pub const DEPTH_MAX: u32 = 65_535;

/// A set of transfer methods.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Methods(u16);

impl Methods {
    /// No method.
    pub const NONE: Self = Self(0);

    /// The set with `method` in it.
    #[must_use]
    pub fn with(self, method: Method) -> Self {
        Self(self.0 | 1 << method as u16)
    }

    /// Whether `method` is in the set.
    #[must_use]
    #[inline]
    pub fn contains(self, method: Method) -> bool {
        self.0 & (1 << method as u16) != 0
    }

    /// The methods of the set, in the order of [`Method::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Method> {
        Method::ALL.into_iter().filter(move |method| self.contains(*method))
    }

    /// Refuses a method that is not in the set, naming those that are.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`].
    pub fn require(self, method: Method) -> Result<()> {
        if self.contains(method) {
            return Ok(());
        }
        let said = format!("transfer method {method} is not announced by the device; it has {self}");
        Err(Error::host(ErrorKind::Unsupported, said))
    }
}

impl FromIterator<Method> for Methods {
    fn from_iter<I: IntoIterator<Item = Method>>(methods: I) -> Self {
        methods.into_iter().fold(Self::NONE, Self::with)
    }
}

/// The names, separated by commas.
impl fmt::Display for Methods {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, method) in self.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(out, "{separator}{}", method.name())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Methods {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Methods({self})")
    }
}

/// Limits of a device, as it announced them. 0 stands for "not at all", except where a field says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of one command's data, `u64::MAX` if the device sets none.
    pub transfer_bytes: u64,
    /// Most queues that can be open at once.
    pub queues: u16,
    /// Most entries of one queue's ring.
    pub ring_entries: u32,
    /// Most commands outstanding at once on one queue: the deepest that a queue can be; 0 where that is not known.
    pub queue_depth: u32,
    /// Longest payload of `inline`, in bytes.
    pub inline_bytes: u32,
    /// Longest payload of `piggyback` and of the tails of `prp+tail`, in bytes.
    pub piggyback_bytes: u32,
    /// Longest result that can stand in the completion queue behind its completion, in bytes; 0 where none can.
    pub inline_read_bytes: u32,
    /// Most unfinished payloads of `piggyback-pt`.
    pub piggyback_pt_unfinished: u16,
    /// Longest payload of a bulk store, in bytes.
    pub bulk_bytes: u32,
    /// Longest result of Scan and Retrieve Many, in bytes.
    pub result_bytes: u32,
    /// Most keys of one Retrieve Many.
    pub retrieve_many_keys: u32,
    /// Longest payload of an atomic Store Many, in bytes.
    pub store_many_bytes: u32,
    /// Longest bound of Scan and Delete Range that the backend carries, in bytes.
    pub range_bound_bytes: u32,
    /// Bytes of one queue's window in device memory, for `cxl`.
    pub window_bytes: u32,
    /// Bytes of device memory that can be stored into as a byte interface.
    pub byte_memory_bytes: u64,
}

impl Limits {
    /// The same with the limits of commands on ranges and on many keys that a device announced; `bound_bytes` is the longest
    /// bound that the backend carries.
    #[must_use]
    pub fn with_kv(self, area: &VendorArea, bound_bytes: u32) -> Self {
        Self {
            result_bytes: area.result_max_bytes.min(vendor::RESULT_MAX_BYTES as u32),
            retrieve_many_keys: area.retrieve_many_max,
            store_many_bytes: area.store_many_max_bytes,
            range_bound_bytes: bound_bytes,
            ..self
        }
    }

    /// Most commands outstanding on one queue; [`DEPTH_MAX`] where the device's limit is not known.
    #[must_use]
    pub const fn depth_max(&self) -> u32 {
        match self.queue_depth {
            0 => DEPTH_MAX,
            most => most,
        }
    }
}

/// What a backend and its device can do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Transfer methods that the device announced and the backend can carry.
    pub methods: Methods,
    /// Limits of the device.
    pub limits: Limits,
    /// Whether raw I/O commands can be passed through.
    pub raw_commands: bool,
    /// Whether admin commands can be sent.
    pub admin_commands: bool,
    /// Whether many pairs can be stored by one command.
    pub bulk_store: bool,
    /// Which commands on ranges and on many keys its key-value namespaces take.
    pub kv: KvCommands,
    /// Whether a command that was sent can be cancelled.
    pub cancel: bool,
    /// Which commands of the NVM command set its block namespaces take, beside Read and Write.
    pub nvm: NvmCommands,
    /// Limits of commands of the NVM command set that move no data.
    pub nvm_limits: NvmLimits,
    /// What admin commands may ask for.
    pub admin: AdminOptions,
    /// What a command's memory must begin and end on, in bytes: 1 where any memory will do.
    pub memory_align_bytes: u32,
    /// Whether a queue has an event descriptor for completions.
    pub event: bool,
    /// Whether commands go on while the program does something else. Where not, `submit` or taking completions does
    /// their work.
    pub overlaps: bool,
}

/// A device whose results are shorter than this is taken for one without Scan and Retrieve Many.
const RESULT_LEAST_BYTES: u32 = 512;

/// Commands on ranges of keys and on many keys, which Byway devices may have (vendor commands).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "named as the commands are")]
#[non_exhaustive]
pub struct KvCommands {
    pub scan: bool,
    pub retrieve_many: bool,
    pub store_many_atomic: bool,
    pub delete_range: bool,
}

impl KvCommands {
    /// Those that a device announced in its vendor area.
    #[must_use]
    pub fn of(area: &VendorArea) -> Self {
        let methods = if area.is_known() { area.methods } else { vendor::Methods::new() };
        let has_results = area.result_max_bytes >= RESULT_LEAST_BYTES;
        Self {
            scan: methods.scan() && has_results,
            retrieve_many: methods.retrieve_many() && has_results && area.retrieve_many_max > 0,
            store_many_atomic: methods.store_many() && methods.bulk() && area.store_many_max_bytes > 0,
            delete_range: methods.delete_range(),
        }
    }

    /// The same without Retrieve Many, for a way that cannot carry its data in both directions.
    #[must_use]
    pub fn without_retrieve_many(self) -> Self {
        Self { retrieve_many: false, ..self }
    }

    /// The transfer methods and extensions that a host enables to use them.
    #[must_use]
    pub fn methods(self) -> vendor::Methods {
        vendor::Methods::new()
            .with_scan(self.scan)
            .with_retrieve_many(self.retrieve_many)
            .with_store_many(self.store_many_atomic)
            .with_delete_range(self.delete_range)
    }

    /// Those that both can do.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            scan: self.scan && other.scan,
            retrieve_many: self.retrieve_many && other.retrieve_many,
            store_many_atomic: self.store_many_atomic && other.store_many_atomic,
            delete_range: self.delete_range && other.delete_range,
        }
    }

    /// Refuses a command that the device did not announce. Those of the Key Value Command Set are mandatory.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`].
    #[inline]
    pub fn require(&self, command: &KvCommand) -> Result<()> {
        let (can, name, field) = match command {
            KvCommand::Scan { .. } => (self.scan, "Scan", "vendor area, methods bit 8"),
            KvCommand::RetrieveMany { .. } => {
                (self.retrieve_many, "Retrieve Many", "vendor area, methods bit 9")
            }
            KvCommand::BulkStore { atomic: true, .. } => {
                (self.store_many_atomic, "atomic Store Many", "vendor area, methods bit 10")
            }
            KvCommand::DeleteRange { .. } => {
                (self.delete_range, "Delete Range", "vendor area, methods bit 11")
            }
            _ => return Ok(()),
        };
        if can { Ok(()) } else { Err(not_announced(name, field)) }
    }
}

/// Commands of the NVM command set that not every backend can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "named as the commands are")]
pub struct NvmCommands {
    pub flush: bool,
    pub write_zeroes: bool,
    pub deallocate: bool,
    pub compare: bool,
    pub verify: bool,
    pub copy: bool,
    pub compare_and_write: bool,
}

impl NvmCommands {
    /// All that is done command by command: what are two fused ones is left out.
    pub const SINGLE: Self = Self {
        flush: true,
        write_zeroes: true,
        deallocate: true,
        compare: true,
        verify: true,
        copy: true,
        compare_and_write: false,
    };

    /// Those that both can do.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            flush: self.flush && other.flush,
            write_zeroes: self.write_zeroes && other.write_zeroes,
            deallocate: self.deallocate && other.deallocate,
            compare: self.compare && other.compare,
            verify: self.verify && other.verify,
            copy: self.copy && other.copy,
            compare_and_write: self.compare_and_write && other.compare_and_write,
        }
    }

    /// Refuses a command that the device did not announce, and names its field. Read, Write and Flush are mandatory.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`].
    #[inline]
    pub fn require(&self, command: &NvmCommand) -> Result<()> {
        let (can, name, field) = match command {
            NvmCommand::Read { .. }
            | NvmCommand::ReadVectored { .. }
            | NvmCommand::Write { .. }
            | NvmCommand::Flush { .. } => return Ok(()),
            NvmCommand::Compare { .. } => (self.compare, "Compare", "ONCS bit 0"),
            NvmCommand::Deallocate { .. } => (self.deallocate, "Dataset Management", "ONCS bit 2"),
            NvmCommand::WriteZeroes { .. } => (self.write_zeroes, "Write Zeroes", "ONCS bit 3"),
            NvmCommand::Verify { .. } => (self.verify, "Verify", "ONCS bit 7"),
            NvmCommand::Copy { .. } => (self.copy, "Copy with descriptor format 0", "ONCS bit 8, CDFS bit 0"),
            NvmCommand::CompareAndWrite { .. } => {
                (self.compare_and_write, "the fused Compare and Write", "FUSES bit 0")
            }
        };
        if can { Ok(()) } else { Err(not_announced(name, field)) }
    }
}

/// Limits of commands of the NVM command set that move no data of the host's, 0 for none (Identify Controller of that set).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NvmLimits {
    /// Most bytes of a Verify (VSL).
    pub verify_bytes: u64,
    /// Most bytes of a Write Zeroes (WZSL).
    pub write_zeroes_bytes: u64,
    /// Most ranges of a Dataset Management (DMRL).
    pub deallocate_ranges: u8,
    /// Most blocks of one of its ranges (DMRSL).
    pub deallocate_range_blocks: u32,
    /// Most blocks of all of them (DMSL).
    pub deallocate_blocks: u64,
}

impl NvmLimits {
    /// The lower of each two limits: what both take.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            verify_bytes: lower(self.verify_bytes, other.verify_bytes),
            write_zeroes_bytes: lower(self.write_zeroes_bytes, other.write_zeroes_bytes),
            deallocate_ranges: lower(self.deallocate_ranges, other.deallocate_ranges),
            deallocate_range_blocks: lower(self.deallocate_range_blocks, other.deallocate_range_blocks),
            deallocate_blocks: lower(self.deallocate_blocks, other.deallocate_blocks),
        }
    }

    /// Refuses a command over a limit, of a namespace with blocks of `block_bytes`.
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`], with the limit and its field.
    pub fn check(&self, command: &NvmCommand, block_bytes: u32) -> Result<()> {
        let bytes = |blocks: u32| u64::from(blocks) * u64::from(block_bytes);
        match command {
            NvmCommand::Verify { blocks, .. } => {
                within(bytes(*blocks), self.verify_bytes, "bytes of a Verify", "VSL")
            }
            NvmCommand::WriteZeroes { blocks, .. } => {
                within(bytes(*blocks), self.write_zeroes_bytes, "bytes of a Write Zeroes", "WZSL")
            }
            NvmCommand::Deallocate { ranges, .. } => {
                let (count, most) = (ranges.count.into(), self.deallocate_ranges.into());
                within(count, most, "ranges of a Dataset Management", "DMRL")?;
                let (longest, most) = (ranges.longest.into(), self.deallocate_range_blocks.into());
                within(longest, most, "blocks of one range", "DMRSL")?;
                within(ranges.blocks, self.deallocate_blocks, "blocks of a Dataset Management", "DMSL")
            }
            _ => Ok(()),
        }
    }
}

/// The lower of two limits, of which 0 is none.
fn lower<T: Ord + Default>(one: T, other: T) -> T {
    let none = T::default();
    if one == none || other == none { one.max(other) } else { one.min(other) }
}

fn within(has: u64, most: u64, what: &str, field: &str) -> Result<()> {
    if most == 0 || has <= most {
        return Ok(());
    }
    Err(Error::host(
        ErrorKind::TooLarge,
        format!("the device takes at most {most} {what} ({field}), not {has}"),
    ))
}

/// What admin commands may ask for beyond what every controller has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AdminOptions {
    /// Format NVM (OACS bit 1).
    pub format: bool,
    /// Values of features that are saved, and default, saved and supported ones (ONCS bit 4).
    pub save_and_select: bool,
    /// The Timestamp feature (ONCS bit 6).
    pub timestamp: bool,
    /// Log pages from an offset on, and more than 16 KiB of them (LPA bit 2).
    pub extended_logs: bool,
}

impl AdminOptions {
    byway_sys::setters! {
        /// Format NVM (OACS bit 1).
        format: bool;
        /// Saved values of features, and the select field of Get Features (ONCS bit 4).
        save_and_select: bool;
        /// The Timestamp feature (ONCS bit 6).
        timestamp: bool;
        /// Log pages from an offset on, and more than 16 KiB of them (LPA bit 2).
        extended_logs: bool;
    }

    /// What both can do.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            format: self.format && other.format,
            save_and_select: self.save_and_select && other.save_and_select,
            timestamp: self.timestamp && other.timestamp,
            extended_logs: self.extended_logs && other.extended_logs,
        }
    }

    /// Refuses a command that the controller did not announce, naming the field that says so. What is passed through is not
    /// looked into.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`].
    pub fn require(&self, command: &AdminCommand) -> Result<()> {
        const TIMESTAMP: u8 = FeatureId::TIMESTAMP.0;
        let (can, name, field) = match command {
            AdminCommand::Format { .. } => (self.format, "Format NVM", "OACS bit 1"),
            AdminCommand::GetFeature { feature: TIMESTAMP, .. }
            | AdminCommand::SetFeature { feature: TIMESTAMP, .. }
                if !self.timestamp =>
            {
                (false, "the Timestamp feature", "ONCS bit 6")
            }
            AdminCommand::GetFeature { select: 1.., .. } => {
                (self.save_and_select, "the select field of Get Features", "ONCS bit 4")
            }
            AdminCommand::SetFeature { save: true, .. } => {
                (self.save_and_select, "the save field of Set Features", "ONCS bit 4")
            }
            AdminCommand::GetLog { offset_bytes: 1.., .. } => {
                (self.extended_logs, "a log page from an offset on", "LPA bit 2")
            }
            AdminCommand::GetLog { into, .. } if into.len() > PLAIN_LOG_BYTES_MAX => {
                (self.extended_logs, "more than 16 KiB of a log page", "LPA bit 2")
            }
            _ => return Ok(()),
        };
        if can { Ok(()) } else { Err(not_announced(name, field)) }
    }
}

/// Most bytes of a log page that a controller gives at once without extended data: NUMD of 12 bits (Base 1.2, section 5.10).
pub const PLAIN_LOG_BYTES_MAX: usize = 16 << 10;

#[cold]
pub(crate) fn not_announced(name: &str, field: &str) -> Error {
    Error::host(ErrorKind::Unsupported, format!("the device did not announce {name} ({field})"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn nvm_limits_of_two_devices_are_the_lower_and_0_is_none() {
        let one = NvmLimits {
            verify_bytes: 4096,
            write_zeroes_bytes: 0,
            deallocate_ranges: 8,
            ..NvmLimits::default()
        };
        let other = NvmLimits { verify_bytes: 8192, write_zeroes_bytes: 512, deallocate_ranges: 2, ..one };
        let both = NvmLimits { verify_bytes: 4096, ..other };
        assert_eq!((one.and(other), other.and(one)), (both, both));
        assert_eq!(one.and(NvmLimits::default()), one);
    }

    #[test]
    fn a_method_that_is_not_announced_is_refused_by_naming_those_that_are() {
        let methods = Methods::NONE.with(Method::Prp).with(Method::Inline);
        assert!(methods.require(Method::Inline).is_ok());
        let said = methods.require(Method::Cxl).unwrap_err().to_string();
        assert_eq!(said, "transfer method cxl is not announced by the device; it has prp, inline");
    }
}
