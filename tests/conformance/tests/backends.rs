//! The suite over every backend there is.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use byway_backends::{
    IoUring, IoUringOptions, Libaio, Nil, PosixAio, Psync, Ram, RamDisk, Target, TargetOptions, Threads,
    ThreadsOptions,
};
use byway_conformance::conformance;
use byway_conformance::scratch::Scratch;

fn file(scratch: &Scratch) -> Arc<Target> {
    Arc::new(Target::open(&scratch.path, TargetOptions::default()).unwrap())
}

fn direct(scratch: &Scratch) -> Arc<Target> {
    let options = TargetOptions::default().direct(true);
    Arc::new(Target::open(&scratch.path, options).unwrap())
}

fn threads(target: Arc<Target>) -> Threads {
    Threads::new(target, ThreadsOptions::default()).unwrap()
}

fn uring(target: Arc<Target>, options: IoUringOptions) -> IoUring {
    IoUring::new(target, options).unwrap()
}

conformance!(nil, |_: &Scratch| Nil::new(Scratch::BYTES).unwrap());
conformance!(psync, |scratch: &Scratch| Psync::new(file(scratch)));
conformance!(psync_direct, |scratch: &Scratch| Psync::new(direct(scratch)));
conformance!(threads, |scratch: &Scratch| threads(file(scratch)));
conformance!(threads_direct, |scratch: &Scratch| threads(direct(scratch)));
conformance!(libaio, |scratch: &Scratch| Libaio::new(file(scratch)).unwrap());
conformance!(libaio_direct, |scratch: &Scratch| Libaio::new(direct(scratch)).unwrap());
conformance!(posix_aio, |scratch: &Scratch| PosixAio::new(file(scratch)));
conformance!(posix_aio_direct, |scratch: &Scratch| PosixAio::new(direct(scratch)));
conformance!(ram, |_: &Scratch| Ram::new(Arc::new(RamDisk::new(Scratch::BYTES).unwrap())));
conformance!(threads_over_ram, |_: &Scratch| {
    let disk = Arc::new(RamDisk::new(Scratch::BYTES).unwrap());
    Threads::new(disk, ThreadsOptions::of(3)).unwrap()
});
// The type that every URI opens.
conformance!(by_uri, |scratch: &Scratch| byway::open(scratch.path.to_str().unwrap()).unwrap());
conformance!(io_uring, |scratch: &Scratch| uring(file(scratch), IoUringOptions::default()));
conformance!(io_uring_direct, |scratch: &Scratch| uring(direct(scratch), IoUringOptions::default()));
conformance!(io_uring_unregistered_file, |scratch: &Scratch| {
    uring(file(scratch), IoUringOptions::default().registered_file(false))
});
conformance!(io_uring_registered_buffers, |scratch: &Scratch| {
    uring(direct(scratch), IoUringOptions::default().registered_buffers(64))
});
conformance!(io_uring_sqpoll, |scratch: &Scratch| {
    uring(file(scratch), IoUringOptions::default().sqpoll(Duration::from_millis(2)))
});
conformance!(io_uring_one_thread, |scratch: &Scratch| {
    uring(direct(scratch), IoUringOptions::default().one_thread(true))
});
