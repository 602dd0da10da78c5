//! The suite over the device in this process, run by each executor, with and without waiting commands.

#![allow(clippy::unwrap_used)]

use byway::{CreateOptions, NewNamespace};
use byway_conformance::conformance;
use byway_conformance::scratch::Scratch;
use byway_core::{Backend, ErrorKind};

/// A device with a namespace of blocks alone, in an image in place of the scratch file.
fn opened(scratch: &Scratch, options: &str) -> impl Backend + use<> {
    std::fs::remove_file(&scratch.path).unwrap();
    let namespaces = vec![NewNamespace::NVM];
    let create = CreateOptions::new(2 * Scratch::BYTES).namespaces(namespaces);
    byway::create(&scratch.path, &create).unwrap();
    let uri = format!("embedded:{}{options}", scratch.path.display());
    loop {
        match byway::embedded::open(&uri) {
            // A child that another test forks has the image's lock until it becomes another program.
            Err(busy) if busy.kind() == ErrorKind::Busy => std::thread::yield_now(),
            opened => return opened.unwrap().driver().clone(),
        }
    }
}

conformance!(embedded, |scratch: &Scratch| opened(scratch, ""));
conformance!(embedded_thread, |scratch: &Scratch| opened(scratch, "?run=thread"));
conformance!(embedded_media, |scratch: &Scratch| opened(scratch, "?flush=media"));
conformance!(embedded_virtual, |scratch: &Scratch| opened(scratch, "?clock=virtual"));
conformance!(embedded_paced, |scratch: &Scratch| opened(scratch, "?clock=paced"));
