//! This process: its settings as they were at load, its descriptors, its session.

use std::cell::Cell;
use std::ffi::c_int;
use std::ops::Deref;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};

use byway_tdm_engine::client::{FdTable, Listed, OpenFile, Passing, Session, Turn};
use byway_tdm_engine::table::{Entry, EntryIndex, FileKey, Level, Why};

use crate::calm::Calm;
use crate::hooks::below;
use crate::path::sync_all;
use crate::place;

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

thread_local! {
    /// This thread was a child of vfork that closed or made descriptors, and may be so still.
    static HAS_STRAYED: Cell<bool> = const { Cell::new(false) };
}

/// Some thread was that once: until then none is asked, which would cost every call.
static HAVE_STRAYED: AtomicBool = AtomicBool::new(false);

static IS_LOADED: AtomicBool = AtomicBool::new(false);

/// The program has told the kernel which calls it makes: from then on each is the one that it would have been without this library, and no other.
static IS_CONFINED: AtomicBool = AtomicBool::new(false);

/// Settings, at load.
pub(crate) fn load(socket: PathBuf) {
    own();
    let _ = SOCKET.set(socket);
    IS_LOADED.store(true, Ordering::Release);
}

/// This memory is this process's own: at load, and in a child of fork.
pub(crate) fn own() {
    OWNER.store(rustix::process::getpid().as_raw_nonzero().get().unsigned_abs(), Ordering::Relaxed);
    SESSION.get().and_then(Option::as_ref).inspect(|session| session.own());
}

/// Whether this is a child of vfork, whose memory is its parent's.
pub(crate) fn is_borrowed() -> bool {
    rustix::process::getpid().as_raw_nonzero().get().unsigned_abs() != OWNER.load(Ordering::Relaxed)
}

/// The session, begun if need be; none where the program is not to be served, or nobody serves it.
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
    // Behind that: whoever bars all files looks for a session in the other order.
    fence(Ordering::SeqCst);
    if barred().is_some_and(Why::is_out_of_sight) {
        session.inspect(|session| session.board().hide());
    }
    session
}

/// Whether any file may have device memory as its home.
#[inline]
pub(crate) fn has_houses() -> bool {
    SESSION.get().and_then(Option::as_ref).is_some_and(|session| session.board().has_houses())
}

/// A descriptor of this process of a file that is on the board.
pub(crate) fn descriptor_of(entry: EntryIndex) -> Option<c_int> {
    FDS.all().find(|(_, listed)| listed.entry == entry).map(|(fd, _)| fd)
}

/// An open file that is listed, in the hands of a thread that is not cancelled meanwhile.
#[derive(Debug)]
pub(crate) struct Served {
    file: OpenFile<'static>,
    _calm: Calm,
}

impl Deref for Served {
    type Target = OpenFile<'static>;

    #[inline]
    fn deref(&self) -> &OpenFile<'static> {
        &self.file
    }
}

/// A call of an open file that is listed, and that the kernel alone serves.
#[inline(always)]
pub(crate) fn passing(listed: Listed) -> Option<Passing<'static>> {
    if HAVE_STRAYED.load(Ordering::Relaxed) {
        return None;
    }
    SESSION.get()?.as_ref()?.passing(listed, place::own())
}

/// An open file that is listed.
#[inline]
pub(crate) fn file(fd: c_int) -> Option<Served> {
    Some(served(seen(fd)?))
}

/// An open file that is listed, in the hands of a thread that may be cancelled: nothing is to be locked.
#[inline]
pub(crate) fn seen(fd: c_int) -> Option<OpenFile<'static>> {
    let listed = FDS.get(fd)?;
    if HAVE_STRAYED.load(Ordering::Relaxed) && has_strayed() {
        return file_of_stray(fd, listed);
    }
    open_file(fd, listed)
}

/// The same, not to be cancelled from now on.
#[inline]
pub(crate) fn served(file: OpenFile<'static>) -> Served {
    Served { file, _calm: Calm::new() }
}

/// Whether the kernel alone serves an open file: all that most reads are to know.
#[inline]
pub(crate) fn is_at_pass(listed: Listed) -> bool {
    let is_known = !HAVE_STRAYED.load(Ordering::Relaxed);
    let entry = SESSION.get().and_then(|session| session.as_ref()?.board().entry(listed.entry));
    is_known && entry.is_some_and(|entry| entry.level() == Level::Pass)
}

/// A child of vfork closed or made descriptors, which its parent's list does not have: what a number is of is not known.
#[cold]
fn file_of_stray(fd: c_int, listed: Listed) -> Option<OpenFile<'static>> {
    let file = open_file(fd, listed);
    if !is_borrowed() {
        HAS_STRAYED.set(false);
        return file;
    }
    // Its parent's file is under a number that may be another's here.
    served(file?).bar(Why::HandedOn, sync_all);
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

/// An open file whose entry was given back, as if nobody had it open.
#[cold]
fn listed_anew(
    session: &'static Session,
    file: BorrowedFd<'static>,
    was: Listed,
) -> Option<OpenFile<'static>> {
    let Some(_turn) = Turn::take() else {
        leave_out(session, file.as_raw_fd());
        return None;
    };
    let listed = Listed { entry: entry_of(session, file.as_raw_fd())?.index(), ..was };
    FDS.list(file.as_raw_fd(), listed);
    session.file(file, listed)
}

/// By itself: where a thread's own words are is asked for by a call.
#[cold]
#[inline(never)]
fn has_strayed() -> bool {
    HAS_STRAYED.get()
}

/// From now on this thread is a child of vfork whose descriptors are not its parent's.
fn stray() {
    HAVE_STRAYED.store(true, Ordering::Relaxed);
    HAS_STRAYED.set(true);
}

/// An open file that is not listed, as it was opened to be read or out of sight, and is served all the same.
#[cold]
pub(crate) fn found(fd: c_int) -> Option<Served> {
    let is_asked = !IS_CONFINED.load(Ordering::Acquire) && fd >= 0 && !is_borrowed();
    let session = SESSION.get()?.as_ref().filter(|_| is_asked)?;
    // SAFETY: as above.
    let key = FileKey::of(unsafe { BorrowedFd::borrow_raw(fd) }).ok()??.key;
    let entry = session.board().find(key).filter(|entry| entry.standing().level != Level::Pass)?;
    let listed = Listed { entry: entry.index(), appends: false, writes_only: false };
    open_file(fd, listed).map(served)
}

/// Lists a descriptor that was opened for writing with these flags.
pub(crate) fn attach(fd: c_int, flags: c_int) {
    let _calm = Calm::new();
    if let Some((listed, why)) = listed(fd, flags)
        && let Some(file) = open_file(fd, listed)
    {
        file.bar(why, below(fd));
    }
}

/// Lists it; why its file is barred, if it is.
fn listed(fd: c_int, flags: c_int) -> Option<(Listed, Why)> {
    // A signal handler that interrupted us may find the board locked by its own thread.
    let Some(_turn) = Turn::take() else {
        leave_out(SESSION.get()?.as_ref()?, fd);
        return None;
    };
    let session = session()?;
    if is_borrowed() {
        // What this child opens is the program's that it becomes.
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
    let why = why_barred(fd, flags).or_else(|| (!is_listed).then_some(Why::BoardFull));
    Some((listed, why?))
}

/// The entry of an open file that is the user's own.
fn entry_of(session: &'static Session, fd: c_int) -> Option<Entry<'static>> {
    session.board().find_or_make(key_of(session, fd)?).ok()?
}

/// An open file gets no entry, as the board cannot be locked here.
fn leave_out(session: &Session, fd: c_int) {
    if IS_CONFINED.load(Ordering::Acquire) {
        return;
    }
    if let Some(key) = key_of(session, fd) {
        session.board().leave_out(key);
    }
}

/// Which file is open, if it is the user's own; counts one that cannot be served.
fn key_of(session: &Session, fd: c_int) -> Option<FileKey> {
    // SAFETY: as in `open_file`.
    let file = unsafe { BorrowedFd::borrow_raw(fd) };
    let why = match FileKey::of(file).ok()? {
        Some(found) if found.owner_uid == session.uid() => return Some(found.key),
        Some(_) => Why::OtherOwner,
        None if FileKey::is_unborn(file) => Why::NoBirthTime,
        None => return None,
    };
    session.board().count_unserved(why);
    None
}

fn why_barred(fd: c_int, flags: c_int) -> Option<Why> {
    let process = barred();
    if process.is_some() {
        return process;
    }
    if flags & libc::O_DIRECT != 0 {
        return Some(Why::Direct);
    }
    if flags & libc::O_DSYNC != 0 {
        return Some(Why::SyncOnWrite);
    }
    is_standard(fd).then_some(Why::Stdio)
}

/// Why all files of this process are barred, if they are.
fn barred() -> Option<Why> {
    match BARRED.load(Ordering::SeqCst) {
        0 => None,
        why => Some(Why::from_number(why as u8)),
    }
}

/// Bars every file of this process, and those that it opens from now on.
pub(crate) fn bar_all(why: Why) {
    let was = BARRED.swap(why as u32, Ordering::SeqCst);
    if was != why as u32 && why.is_out_of_sight() {
        fence(Ordering::SeqCst);
        SESSION.get().and_then(Option::as_ref).inspect(|session| session.board().hide());
    }
    for (fd, _) in FDS.all() {
        bar(fd, why);
    }
}

/// Leaves every file of this process to the kernel, before it lets the program make no calls but its own.
pub(crate) fn confine() {
    bar_all(Why::Sandboxed);
    IS_CONFINED.store(true, Ordering::Release);
    for (fd, _) in FDS.all() {
        FDS.forget(fd);
    }
}

/// Bars a file, if the descriptor is of one that is listed.
pub(crate) fn bar(fd: c_int, why: Why) {
    if let Some(file) = file(fd) {
        file.bar(why, below(fd));
    }
}

/// Has a file stay below from here on, if the descriptor is of one that is listed.
pub(crate) fn exclude(fd: c_int, why: Why) {
    if let Some(file) = seen(fd) {
        file.entry().housed().exclude(why);
    }
}

/// What the C library writes by itself, whatever the program makes of that number.
fn is_standard(fd: c_int) -> bool {
    (0..=libc::STDERR_FILENO).contains(&fd)
}

/// Forgets a descriptor that is about to be closed, unless it is only a vfork child's; what it was.
#[inline]
pub(crate) fn forget(fd: c_int) -> Option<Listed> {
    let listed = FDS.get(fd)?;
    if is_borrowed() {
        stray();
        return None;
    }
    if let Some(file) = open_file(fd, listed).filter(OpenFile::is_home) {
        // Whoever asks for it by its name from here on asks the kernel. What fails is tried again by the daemon.
        let file = served(file);
        let _ = file.leave_home(Why::Closed, below(fd));
    }
    FDS.forget(fd);
    Some(listed)
}

/// A descriptor that could not be closed is what it was.
pub(crate) fn remember(fd: c_int, was: Option<Listed>) {
    if let Some(listed) = was {
        FDS.list(fd, listed);
    }
}

/// Has `to` be the open file that `from` is.
pub(crate) fn copy(from: c_int, to: c_int) {
    let is_known = FDS.get(from).is_some() || FDS.get(to).is_some();
    if to < 0 || from == to || !is_known {
        return;
    }
    if is_borrowed() {
        // For the program that this child becomes.
        bar(from, Why::HandedOn);
        return stray();
    }
    FDS.copy(from, to);
    if is_standard(to) {
        bar(to, Why::Stdio);
    } else if FDS.get(to) != FDS.get(from) {
        bar(from, Why::BoardFull);
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
