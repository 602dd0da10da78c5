//! A PCIe device of this machine, handed to this process by the kernel's `vfio-pci`, behind an IOMMU.
//!
//! Registers and doorbells are loads and stores of BAR 0. The device sees what was mapped for it and nothing else; any memory of
//! the process can be, and stays in place while it is. Interrupts are eventfds, armed when a thread first sleeps on one.
//!
//! Nothing of the system is changed for it: the device must be bound to `vfio-pci` before, and what is missing for that is
//! said with the commands that bring it about.

mod bus;
mod found;
mod function;
mod interrupts;
mod memory;

pub use bus::VfioBus;
pub use found::{Bound, bound};
pub use function::{PciAddress, WrongAddress};
