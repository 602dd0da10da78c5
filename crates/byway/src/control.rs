//! Requests from other processes to the one that has an image open.
//!
//! The socket has no file: its name in Linux's abstract name space follows from the image's device and inode, so it is there
//! as long as the image is open, and whoever names the image finds it. Requests are taken from the same user and from
//! root. The file that a snapshot goes to is made by who asks for it and handed over.

use std::fs::File;
use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use byway_core::{Error, ErrorKind, Result};
use byway_in_process::Handle;
use byway_sys::handover;

use crate::snapshot::{SnapshotReport, copy_in_use};

/// The thread that takes requests for one device. It ends with the device.
#[derive(Debug)]
pub(crate) struct Control {
    stop: Arc<AtomicBool>,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

impl Control {
    /// Takes requests for the image at `path` from here on; `None` where the system allows no socket or thread.
    pub(crate) fn start(path: &Path, handle: Handle) -> Option<Self> {
        let address = address_of(path).ok()?;
        let listener = UnixListener::bind_addr(&address).ok()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let serve = move || serve(&listener, &handle, &stopped);
        let thread = std::thread::Builder::new().name("byway-control".into()).spawn(serve).ok()?;
        Some(Self { stop, address, thread: Some(thread) })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // A connection wakes the thread; where none can be made, it is gone already.
        let _ = UnixStream::connect_addr(&self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn address_of(path: &Path) -> std::io::Result<SocketAddr> {
    let found = std::fs::metadata(path)?;
    SocketAddr::from_abstract_name(format!("byway-{:x}-{:x}", found.dev(), found.ino()))
}

fn serve(listener: &UnixListener, handle: &Handle, stop: &AtomicBool) {
    for stream in listener.incoming() {
        if stop.load(Ordering::Acquire) {
            return;
        }
        if let Ok(stream) = stream {
            // Who asked and went away needs no answer.
            let _ = answer(&stream, handle);
        }
    }
}

fn answer(mut stream: &UnixStream, handle: &Handle) -> std::io::Result<()> {
    if !handover::is_allowed(stream)? {
        return stream.write_all(b"error the image belongs to another user\n");
    }
    let Some(to) = handover::receive(stream)? else {
        return stream.write_all(b"error the request names no file\n");
    };
    match copy_in_use(handle, File::from(to)) {
        Ok(report) => writeln!(stream, "done {} {}", report.pause_ns, report.copied_bytes),
        Err(error) => writeln!(stream, "error {error}"),
    }
}

/// Asks the process that has the image at `image` open to copy it into a file.
pub(crate) fn ask_for_snapshot(image: &Path, to: &File) -> Result<SnapshotReport> {
    let nobody = |_| {
        let said = format!("{} is open in a process that takes no requests", image.display());
        Error::host(ErrorKind::Busy, said)
    };
    let system = |e| Error::kernel("ask for a snapshot", e);
    let mut stream = address_of(image).and_then(|at| UnixStream::connect_addr(&at)).map_err(nobody)?;
    handover::send(&stream, to).map_err(system)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(system)?;
    parse(answer.trim()).ok_or_else(|| {
        let said = answer.trim().trim_start_matches("error ");
        Error::host(ErrorKind::System, format!("the process that has {} open: {said}", image.display()))
    })
}

fn parse(answer: &str) -> Option<SnapshotReport> {
    let (pause_ns, copied_bytes) = answer.strip_prefix("done ")?.split_once(' ')?;
    Some(SnapshotReport { pause_ns: pause_ns.parse().ok()?, copied_bytes: copied_bytes.parse().ok()? })
}
