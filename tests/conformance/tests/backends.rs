//! The suite over every backend there is.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use byway_backends::{Nil, Psync, Target, TargetOptions, Threads, ThreadsOptions};
use byway_conformance::conformance;
use byway_conformance::scratch::Scratch;

fn file(scratch: &Scratch) -> Arc<Target> {
    Arc::new(Target::open(&scratch.path, TargetOptions::default()).unwrap())
}

fn direct(scratch: &Scratch) -> Arc<Target> {
    let options = TargetOptions { direct: true, ..TargetOptions::default() };
    Arc::new(Target::open(&scratch.path, options).unwrap())
}

fn threads(target: Arc<Target>) -> Threads {
    Threads::new(target, ThreadsOptions::default()).unwrap()
}

conformance!(nil, |_: &Scratch| Nil::new(Scratch::BYTES).unwrap());
conformance!(psync, |scratch: &Scratch| Psync::new(file(scratch)));
conformance!(psync_direct, |scratch: &Scratch| Psync::new(direct(scratch)));
conformance!(threads, |scratch: &Scratch| threads(file(scratch)));
conformance!(threads_direct, |scratch: &Scratch| threads(direct(scratch)));
// The type that every URI opens.
conformance!(by_uri, |scratch: &Scratch| byway::open(scratch.path.to_str().unwrap()).unwrap());
