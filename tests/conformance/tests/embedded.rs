//! The suite over the device in this process.

#![allow(clippy::unwrap_used)]

use byway::{CreateOptions, NewNamespace};
use byway_conformance::conformance;
use byway_conformance::scratch::Scratch;
use byway_core::Backend;

/// A device with a namespace of blocks alone, in an image in place of the scratch file.
fn opened(scratch: &Scratch) -> impl Backend + use<> {
    std::fs::remove_file(&scratch.path).unwrap();
    let namespaces = vec![NewNamespace::NVM];
    let options = CreateOptions { namespaces, ..CreateOptions::new(2 * Scratch::BYTES) };
    byway::create(&scratch.path, &options).unwrap();
    byway::embedded::open(&format!("embedded:{}", scratch.path.display())).unwrap().driver().clone()
}

conformance!(embedded, |scratch: &Scratch| opened(scratch));
