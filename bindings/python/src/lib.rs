//! Byway for Python: the public crate as the native module of the package `byway`.
//!
//! Each file is one noun of the package. Three rules hold everywhere:
//!
//! * **The GIL is never held while this module waits**: not for a device, not for a lock ([`turnstile`]). So the holder
//!   of a lock may take the GIL without a deadlock.
//! * **Memory that a command may touch stays**: the command holds it ([`memory::Keep`]) until its completion is taken,
//!   whatever becomes of the Python objects. If that never comes, it is never freed ([`command_queue`]).
//! * **Calls on closed objects raise an error** ([`held`]): no object is bound to another's lifetime.
//!
//! UNSAFETY: `unsafe` is in [`buffer`] and [`memory`] alone, where Python's buffer protocol hands out addresses.

use pyo3::prelude::*;

mod admin;
mod admin_queue;
mod buffer;
mod command;
mod command_queue;
mod completion;
mod compute;
mod create;
mod device;
mod errors;
mod facts;
mod held;
mod image;
mod interruptible;
mod keys;
mod kv;
mod ledger;
mod memory;
mod nvm;
mod query;
mod queue;
mod ranges;
mod turnstile;

/// The native part of `byway`.
#[pymodule]
mod _byway {
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }

    #[pymodule_export]
    use crate::admin::Answer;
    #[pymodule_export]
    use crate::admin_queue::AdminQueue;
    #[pymodule_export]
    use crate::buffer::Buffer;
    #[pymodule_export]
    use crate::command::Command;
    #[pymodule_export]
    use crate::completion::Completion;
    #[pymodule_export]
    use crate::compute::{LocalMemory, Programs};
    #[pymodule_export]
    use crate::create::{NewNamespace, create};
    #[pymodule_export]
    use crate::device::{Device, open_uri, uri_of_file, with_options};
    #[pymodule_export]
    use crate::facts::{Capabilities, Chosen, Found, Identity, KvStats, Limits, Namespace, scan};
    #[pymodule_export]
    use crate::image::{Checked, Finding, check, resize, snapshot};
    #[pymodule_export]
    use crate::keys::{Items, Keys};
    #[pymodule_export]
    use crate::kv::Kv;
    #[pymodule_export]
    use crate::ledger::{Ledger, LedgerRow};
    #[pymodule_export]
    use crate::nvm::Nvm;
    #[pymodule_export]
    use crate::queue::Queue;
    #[pymodule_export]
    use crate::ranges::{Batch, Cursor, Scan};
}
