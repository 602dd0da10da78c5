//! The carrier of commands to a device, which waits for the answer.

use std::io;

use byway_core::Memory;
use byway_sys::{NvmeAnswer, NvmeCommand, NvmeNode};

/// Carries commands to an NVMe device and waits for the answer: the kernel, or a fake in tests.
pub trait Passage: Send + Sync + 'static {
    /// Carries a command with its data, and waits.
    ///
    /// # Errors
    /// Where the command was not carried, or given up. A device's refusal is a status.
    fn pass(&self, command: &NvmeCommand, memory: &mut Memory) -> io::Result<NvmeAnswer>;

    /// Resets the controller.
    ///
    /// # Errors
    /// As the system says.
    fn reset(&self) -> io::Result<()>;
}

impl Passage for NvmeNode {
    fn pass(&self, command: &NvmeCommand, memory: &mut Memory) -> io::Result<NvmeAnswer> {
        self.pass(command, memory)
    }

    fn reset(&self) -> io::Result<()> {
        self.reset()
    }
}
