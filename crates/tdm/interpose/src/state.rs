//! State of this process: socket, descriptors, session.

use std::cell::Cell;
use std::ffi::c_int;
use std::ops::Deref;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};

use byway_tdm_engine::client::{FdTable, Listed, OpenFile, PassCall, ReentrancyGuard, Session};
use byway_tdm_engine::table::{Entry, EntryIndex, FileKey, Level, Reason};

use crate::cancellation::CancellationGuard;
use crate::hooks::below;
use crate::path::sync_all;
use crate::place;

/// Descriptors whose files may be served.
pub(crate) static FDS: FdTable = FdTable::new();

/// The daemon's socket, set at load if the program is to be served.
static SOCKET: OnceLock<PathBuf> = OnceLock::new();

/// The session, begun when the first file is opened for writing. Decided once: files opened without a session cannot be followed later.
static SESSION: OnceLock<Option<Session>> = OnceLock::new();

/// Process that owns this memory: differs in a vfork child.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// Reason why no file of this process is served any more.
static BARRED: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// This thread ran as a vfork child that changed descriptors.
    static HAS_STRAYED: Cell<bool> = const { Cell::new(false) };
}

/// Whether any thread did; checked first, as the thread-local costs more.
static HAVE_STRAYED: AtomicBool = AtomicBool::new(false);

static IS_LOADED: AtomicBool = AtomicBool::new(false);

/// The program is confined (seccomp): this library makes no system calls of its own.
static IS_CONFINED: AtomicBool = AtomicBool::new(false);

/// Sets the socket, at load.
pub(crate) fn load(socket: PathBuf) {
    own();
    let _ = SOCKET.set(socket);
    IS_LOADED.store(true, Ordering::Release);
}

/// Takes this memory over, at load and in a forked child.
pub(crate) fn own() {
    OWNER.store(rustix::process::getpid().as_raw_nonzero().get().unsigned_abs(), Ordering::Relaxed);
    SESSION.get().and_then(Option::as_ref).inspect(|session| session.own());
}

/// Whether this is a vfork child, which shares its parent's memory.
pub(crate) fn is_borrowed() -> bool {
    rustix::process::getpid().as_raw_nonzero().get().unsigned_abs() != OWNER.load(Ordering::Relaxed)
}

/// The session, begun if needed. `None` if the program is not served.
pub(crate) fn session() -> Option<&'static Session> {
    if IS_CONFINED.load(Ordering::Acquire) {
        return None;
    }
    if let Some(session) = SESSION.get() {
        return session.as_ref();
    }
    if !IS_LOADED.load(Ordering::Acquire) || is_borrowed() {
        return None;
    }
    let socket = SOCKET.get()?;
    let session = SESSION.get_or_init(|| Session::begin(socket).ok()).as_ref();
    // After storing the session: a thread that bars all files first bars and then loads the session.
    fence(Ordering::SeqCst);
    if barred().is_some_and(Reason::is_out_of_sight) {
        session.inspect(|session| session.file_table().hide());
    }
    session
}

/// Whether any file may be DAX-resident.
#[inline]
pub(crate) fn may_have_resident_files() -> bool {
    SESSION
        .get()
        .and_then(Option::as_ref)
        .is_some_and(|session| session.file_table().may_have_resident_files())
}

/// A descriptor of this process for an entry's file.
pub(crate) fn descriptor_of(entry: EntryIndex) -> Option<c_int> {
    FDS.all().find(|(_, listed)| listed.entry == entry).map(|(fd, _)| fd)
}

/// A listed open file, with cancellation disabled.
#[derive(Debug)]
pub(crate) struct Served {
    file: OpenFile<'static>,
    _guard: CancellationGuard,
}

impl Deref for Served {
    type Target = OpenFile<'static>;

    #[inline]
    fn deref(&self) -> &OpenFile<'static> {
        &self.file
    }
}

/// A call on a listed open file at PASS.
#[inline(always)]
pub(crate) fn pass_call(listed: Listed) -> Option<PassCall<'static>> {
    if HAVE_STRAYED.load(Ordering::Relaxed) {
        return None;
    }
    SESSION.get()?.as_ref()?.pass_call(listed, place::own())
}

/// A listed open file, with cancellation disabled.
#[inline]
pub(crate) fn file(fd: c_int) -> Option<Served> {
    Some(served(seen(fd)?))
}

/// A listed open file, with cancellation enabled: take no lock.
#[inline]
pub(crate) fn seen(fd: c_int) -> Option<OpenFile<'static>> {
    let listed = FDS.get(fd)?;
    if HAVE_STRAYED.load(Ordering::Relaxed) && has_strayed() {
        return file_of_stray(fd, listed);
    }
    open_file(fd, listed)
}

/// As above, with cancellation disabled.
#[inline]
pub(crate) fn served(file: OpenFile<'static>) -> Served {
    Served { file, _guard: CancellationGuard::new() }
}

/// Whether an open file is at PASS, which is all that most reads need.
#[inline]
pub(crate) fn is_at_pass(listed: Listed) -> bool {
    let is_known = !HAVE_STRAYED.load(Ordering::Relaxed);
    let entry = SESSION.get().and_then(|session| session.as_ref()?.file_table().entry(listed.entry));
    is_known && entry.is_some_and(|entry| entry.level() == Level::Pass)
}

/// In a vfork child that changed descriptors the parent's list does not apply.
#[cold]
fn file_of_stray(fd: c_int, listed: Listed) -> Option<OpenFile<'static>> {
    let file = open_file(fd, listed);
    if !is_borrowed() {
        HAS_STRAYED.set(false);
        return file;
    }
    // The number may be another file's in the parent.
    served(file?).bar(Reason::HandedOn, sync_all);
    None
}

#[inline]
fn open_file(fd: c_int, listed: Listed) -> Option<OpenFile<'static>> {
    let session = SESSION.get()?.as_ref()?;
    // SAFETY: the program is in a call with this descriptor; it is looked at during that call alone.
    let file: BorrowedFd<'static> = unsafe { BorrowedFd::borrow_raw(fd) };
    match session.file(file, listed) {
        None => listed_anew(session, file, listed),
        found => found,
    }
}

/// An open file whose entry was reclaimed, as if closed everywhere: lists it again.
#[cold]
fn listed_anew(
    session: &'static Session,
    file: BorrowedFd<'static>,
    was: Listed,
) -> Option<OpenFile<'static>> {
    let Some(_guard) = ReentrancyGuard::take() else {
        leave_out(session, file.as_raw_fd());
        return None;
    };
    let listed = Listed { entry: entry_of(session, file.as_raw_fd())?.index(), ..was };
    FDS.list(file.as_raw_fd(), listed);
    session.file(file, listed)
}

/// Out of line: reading the thread-local takes a call.
#[cold]
#[inline(never)]
fn has_strayed() -> bool {
    HAS_STRAYED.get()
}

/// This thread is a vfork child with other descriptors than its parent.
fn stray() {
    HAVE_STRAYED.store(true, Ordering::Relaxed);
    HAS_STRAYED.set(true);
}

/// A served file that is open for reading, or was opened unseen.
#[cold]
pub(crate) fn found(fd: c_int) -> Option<Served> {
    let is_asked = !IS_CONFINED.load(Ordering::Acquire) && fd >= 0 && !is_borrowed();
    let session = SESSION.get()?.as_ref().filter(|_| is_asked)?;
    // SAFETY: as above.
    let key = FileKey::of(unsafe { BorrowedFd::borrow_raw(fd) }).ok()??.key;
    let entry = session.file_table().find(key).filter(|entry| entry.level() != Level::Pass)?;
    let listed = Listed { entry: entry.index(), appends: false, writes_only: false };
    open_file(fd, listed).map(served)
}

/// Lists a descriptor opened for writing with these flags.
pub(crate) fn attach(fd: c_int, flags: c_int) {
    let _guard = CancellationGuard::new();
    if let Some((listed, why)) = listed(fd, flags)
        && let Some(file) = open_file(fd, listed)
    {
        file.bar(why, below(fd));
    }
}

/// Makes the entry; returns the reason if the file is to be barred.
fn listed(fd: c_int, flags: c_int) -> Option<(Listed, Reason)> {
    // In a signal handler, which may have interrupted the holder of the table's lock.
    let Some(_guard) = ReentrancyGuard::take() else {
        leave_out(SESSION.get()?.as_ref()?, fd);
        return None;
    };
    let session = session()?;
    if is_borrowed() {
        // A vfork child's descriptors are for the program that it executes.
        stray();
        leave_out(session, fd);
        return None;
    }
    let entry = entry_of(session, fd)?;
    let appends = flags & libc::O_APPEND != 0;
    let writes_only = flags & libc::O_ACCMODE == libc::O_WRONLY;
    let listed = Listed { entry: entry.index(), appends, writes_only };
    if let Some(file) = open_file(fd, listed) {
        file.opened();
    }
    let is_listed = FDS.list(fd, listed);
    let why = why_barred(fd, flags).or_else(|| (!is_listed).then_some(Reason::TableFull));
    Some((listed, why?))
}

/// Entry of an open file of the session's user.
fn entry_of(session: &'static Session, fd: c_int) -> Option<Entry<'static>> {
    session.file_table().find_or_make(key_of(session, fd)?).ok()?
}

/// Adds an open file to the filter, as the table's lock cannot be taken here.
fn leave_out(session: &Session, fd: c_int) {
    if IS_CONFINED.load(Ordering::Acquire) {
        return;
    }
    if let Some(key) = key_of(session, fd) {
        session.file_table().leave_out(key);
    }
}

/// The file of a descriptor, if the user owns it. Counts files that can have no entry.
fn key_of(session: &Session, fd: c_int) -> Option<FileKey> {
    // SAFETY: as in `open_file`.
    let file = unsafe { BorrowedFd::borrow_raw(fd) };
    let why = match FileKey::of(file).ok()? {
        Some(found) if found.owner_uid == session.uid() => return Some(found.key),
        Some(_) => Reason::OtherOwner,
        None if FileKey::is_unborn(file) => Reason::NoBirthTime,
        None => return None,
    };
    session.file_table().count_unserved(why);
    None
}

fn why_barred(fd: c_int, flags: c_int) -> Option<Reason> {
    let process = barred();
    if process.is_some() {
        return process;
    }
    if flags & libc::O_DIRECT != 0 {
        return Some(Reason::Direct);
    }
    if flags & libc::O_DSYNC != 0 {
        return Some(Reason::SyncOnWrite);
    }
    is_standard(fd).then_some(Reason::Stdio)
}

/// Why all files of this process are barred, if they are.
fn barred() -> Option<Reason> {
    match BARRED.load(Ordering::SeqCst) {
        0 => None,
        why => Some(Reason::from_number(why as u8)),
    }
}

/// Bars all files of this process, also those opened later.
pub(crate) fn bar_all(why: Reason) {
    let number = u32::from(why.number());
    let was = BARRED.swap(number, Ordering::SeqCst);
    if was != number && why.is_out_of_sight() {
        fence(Ordering::SeqCst);
        SESSION.get().and_then(Option::as_ref).inspect(|session| session.file_table().hide());
    }
    for (fd, _) in FDS.all() {
        bar(fd, why);
    }
}

/// Demotes all files of this process before it is confined.
pub(crate) fn confine() {
    bar_all(Reason::Sandboxed);
    IS_CONFINED.store(true, Ordering::Release);
    for (fd, _) in FDS.all() {
        FDS.forget(fd);
    }
}

/// Bars the file of a listed descriptor.
pub(crate) fn bar(fd: c_int, why: Reason) {
    if let Some(file) = file(fd) {
        file.bar(why, below(fd));
    }
}

/// Excludes the file of a listed descriptor from promotion.
pub(crate) fn exclude(fd: c_int, why: Reason) {
    if let Some(file) = seen(fd) {
        file.entry().resident_state().exclude(why);
    }
}

/// Standard streams, which the C library writes by itself.
fn is_standard(fd: c_int) -> bool {
    (0..=libc::STDERR_FILENO).contains(&fd)
}

/// Removes a descriptor that is about to be closed from the list, and returns its entry; not for a vfork child.
#[inline]
pub(crate) fn forget(fd: c_int) -> Option<Listed> {
    let listed = FDS.get(fd)?;
    if is_borrowed() {
        stray();
        return None;
    }
    if let Some(file) = open_file(fd, listed).filter(OpenFile::is_resident) {
        // Opens by name go to the kernel from here on. A failed demotion is repeated by the daemon.
        let file = served(file);
        let _ = file.demote(Reason::Closed, below(fd));
    }
    FDS.forget(fd);
    Some(listed)
}

/// Lists a descriptor again whose close failed.
pub(crate) fn remember(fd: c_int, was: Option<Listed>) {
    if let Some(listed) = was {
        FDS.list(fd, listed);
    }
}

/// Lists `to` as a duplicate of `from`.
pub(crate) fn copy(from: c_int, to: c_int) {
    let is_known = FDS.get(from).is_some() || FDS.get(to).is_some();
    if to < 0 || from == to || !is_known {
        return;
    }
    if is_borrowed() {
        // For the program that the vfork child executes.
        bar(from, Reason::HandedOn);
        return stray();
    }
    FDS.copy(from, to);
    if is_standard(to) {
        bar(to, Reason::Stdio);
    } else if FDS.get(to) != FDS.get(from) {
        bar(from, Reason::TableFull);
    }
}

/// errno.
pub(crate) fn errno() -> c_int {
    // SAFETY: every thread has one.
    unsafe { *libc::__errno_location() }
}

/// Sets errno.
pub(crate) fn set_errno(error: c_int) {
    // SAFETY: every thread has one.
    unsafe { *libc::__errno_location() = error };
}
