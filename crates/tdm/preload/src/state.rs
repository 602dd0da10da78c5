//! This process: its settings as they were at load, its descriptors, its session.

use std::ffi::c_int;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use byway_tdm_board::{Entry, FileKey, Why};
use byway_tdm_client::{FdTable, Listed, OpenFile, Session, Turn};

/// Descriptors of files that somebody may serve.
pub(crate) static FDS: FdTable = FdTable::new();

/// Where the daemon is: set once at load, if the program is to be served at all.
static SOCKET: OnceLock<PathBuf> = OnceLock::new();

/// Begun by the first file that is opened for writing. Whether there is one is decided once: files that were opened without
/// cannot be followed later.
static SESSION: OnceLock<Option<Session>> = OnceLock::new();

/// The process whose memory this is. A child of vfork has another number.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// Why no file of this process is served from now on.
static BARRED: AtomicU32 = AtomicU32::new(0);

static IS_LOADED: AtomicBool = AtomicBool::new(false);

/// Settings, at load.
pub(crate) fn load(socket: PathBuf) {
    own();
    let _ = SOCKET.set(socket);
    IS_LOADED.store(true, Ordering::Release);
}

/// This memory is this process's own: at load, and in a child of fork.
pub(crate) fn own() {
    OWNER.store(rustix::process::getpid().as_raw_nonzero().get().unsigned_abs(), Ordering::Relaxed);
}

/// Whether this is a child of vfork, whose memory is its parent's.
pub(crate) fn is_borrowed() -> bool {
    rustix::process::getpid().as_raw_nonzero().get().unsigned_abs() != OWNER.load(Ordering::Relaxed)
}

/// The session, begun if need be; none where the program is not to be served, or nobody serves it.
pub(crate) fn session() -> Option<&'static Session> {
    if let Some(session) = SESSION.get() {
        return session.as_ref();
    }
    if !IS_LOADED.load(Ordering::Acquire) || is_borrowed() {
        return None;
    }
    let socket = SOCKET.get()?;
    SESSION.get_or_init(|| Session::begin(socket).ok()).as_ref()
}

/// An open file that is listed.
#[inline]
pub(crate) fn file(fd: c_int) -> Option<OpenFile<'static>> {
    let listed = FDS.get(fd)?;
    let session = SESSION.get()?.as_ref()?;
    // SAFETY: the program is in a call with this descriptor; it is looked at during that call alone.
    let file: BorrowedFd<'static> = unsafe { BorrowedFd::borrow_raw(fd) };
    session.file(file, listed)
}

/// Lists a descriptor that was opened for writing with these flags.
pub(crate) fn attach(fd: c_int, flags: c_int) {
    // A signal handler that interrupted us may find the board locked by its own thread.
    let Some(_turn) = Turn::take() else {
        if let Some(session) = SESSION.get().and_then(Option::as_ref) {
            session.board().leave_out();
        }
        return;
    };
    let Some(session) = session() else { return };
    if is_borrowed() {
        // What this child opens is the program's that it becomes.
        return session.board().leave_out();
    }
    let Some(entry) = entry_of(session, fd) else { return };
    let appends = flags & libc::O_APPEND != 0;
    if !FDS.list(fd, Listed { entry: entry.index(), appends }) {
        entry.bar(Why::BoardFull);
    }
    if let Some(why) = why_barred(flags) {
        entry.bar(why);
    }
}

/// The entry of an open file that is the user's own.
fn entry_of(session: &'static Session, fd: c_int) -> Option<Entry<'static>> {
    // SAFETY: as in `file`.
    let file = unsafe { BorrowedFd::borrow_raw(fd) };
    let found = FileKey::of(file).ok()??;
    if found.owner_uid != rustix::process::geteuid().as_raw() {
        return None;
    }
    session.board().find_or_make(found.key).ok()?
}

fn why_barred(flags: c_int) -> Option<Why> {
    let process = BARRED.load(Ordering::Relaxed);
    if process != 0 {
        return Some(Why::from_number(process as u8));
    }
    if flags & libc::O_DIRECT != 0 {
        return Some(Why::Direct);
    }
    (flags & libc::O_DSYNC != 0).then_some(Why::SyncOnWrite)
}

/// Bars every file of this process, and those that it opens from now on.
pub(crate) fn bar_all(why: Why) {
    BARRED.store(why as u32, Ordering::Relaxed);
    for (fd, _) in FDS.all() {
        bar(fd, why);
    }
}

/// Bars a file, if the descriptor is of one that is listed.
pub(crate) fn bar(fd: c_int, why: Why) {
    if let Some(file) = file(fd) {
        file.bar(why);
    }
}

/// Forgets a descriptor that is about to be closed, unless it is only a vfork child's.
#[inline]
pub(crate) fn forget(fd: c_int) {
    if FDS.get(fd).is_some() && !is_borrowed() {
        FDS.forget(fd);
    }
}

/// Has `to` be the open file that `from` is.
pub(crate) fn copy(from: c_int, to: c_int) {
    let is_known = FDS.get(from).is_some() || FDS.get(to).is_some();
    if to >= 0 && from != to && is_known && !is_borrowed() {
        FDS.copy(from, to);
    }
}

/// The error number of the last call.
pub(crate) fn errno() -> c_int {
    // SAFETY: every thread has one.
    unsafe { *libc::__errno_location() }
}

/// What a call that fails leaves behind.
pub(crate) fn set_errno(error: c_int) {
    // SAFETY: every thread has one.
    unsafe { *libc::__errno_location() = error };
}
