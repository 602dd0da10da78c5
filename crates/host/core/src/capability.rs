//! What a backend and its device can do: asked, never guessed.

use std::fmt;

use byway_link::Method;

use crate::error::{Error, ErrorKind, Result};

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
    /// Most commands outstanding at once on one queue: the deepest that a queue can be.
    pub queue_depth: u32,
    /// Longest payload of `inline`, in bytes.
    pub inline_bytes: u32,
    /// Longest payload of `piggyback` and of the tails of `prp+tail`, in bytes.
    pub piggyback_bytes: u32,
    /// Most unfinished payloads of `piggyback-pt`.
    pub piggyback_pt_unfinished: u16,
    /// Longest payload of a bulk store, in bytes.
    pub bulk_bytes: u32,
    /// Bytes of one queue's window in device memory, for `cxl`.
    pub window_bytes: u32,
    /// Bytes of device memory that can be stored into as a byte interface.
    pub byte_memory_bytes: u64,
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
    /// Whether a command that was sent can be cancelled.
    pub cancel: bool,
    /// Which commands of the NVM command set its block namespaces take, beside Read and Write.
    pub nvm: NvmCommands,
    /// What a command's memory must begin and end on, in bytes: 1 where any memory will do.
    pub memory_align_bytes: u32,
    /// Whether a queue has a descriptor that tells of completions.
    pub event: bool,
    /// Whether commands go on while the program does something else. Where not, `submit` or taking completions does
    /// their work.
    pub overlaps: bool,
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
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_method_that_is_not_announced_is_refused_by_naming_those_that_are() {
        let methods = Methods::NONE.with(Method::Prp).with(Method::Inline);
        assert!(methods.require(Method::Inline).is_ok());
        let said = methods.require(Method::Cxl).unwrap_err().to_string();
        assert_eq!(said, "transfer method cxl is not announced by the device; it has prp, inline");
    }
}
