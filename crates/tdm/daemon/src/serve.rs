//! The daemon: its socket, a thread for each connection, and threads that retire, watch and sweep.

use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use byway_sys::time::monotonic_ns;
use byway_sys::{FileId, handover};
use byway_tdm_engine::control::{Channel, Peer, Reply, Request};
use byway_tdm_engine::table::{EntryIndex, Reason};
use byway_tdm_region::{Description, Place, open_described};
use rustix::fs::{Access, FileType, Mode, OFlags};
use tracing::{debug, info, warn};

use crate::cache_pins::load_range;
use crate::clients::Clients;
use crate::error::DaemonError;
use crate::namespace::{has_our_numbers, is_gone};
use crate::options::Options;
use crate::outcome::{Outcome, Purpose, RecoveredFile, Terms};
use crate::promotion::Asker;
use crate::report::{CacheReport, RegionReport, Report};
use crate::table::{Found, SlotNumber, TABLE_BYTES};
use crate::tenant::Tenant;
use crate::tenants::{PARTITION_MIN_BYTES, Tenants};
use crate::unserved::Unserved;

/// Interval of retirement rounds.
const ROUND: Duration = Duration::from_millis(20);

/// A daemon that serves until it is dropped.
#[derive(Debug)]
pub struct Daemon {
    shared: Arc<Shared>,
    listener: Arc<UnixListener>,
    /// Device and inode of the socket's file, which may have been replaced since.
    socket_id: Option<FileId>,
    threads: Vec<JoinHandle<()>>,
    recovered: Vec<RecoveredFile>,
}

#[derive(Debug)]
struct Shared {
    options: Options,
    tenants: Tenants,
    clients: Arc<Clients>,
    /// Connections refused from other PID namespaces.
    turned_away: AtomicU64,
    unserved: Unserved,
    stops: AtomicBool,
    /// When counting began.
    since: (SystemTime, Instant),
}

impl Daemon {
    /// Opens the region, recovers what is in it, and serves.
    ///
    /// # Errors
    /// [`DaemonError`].
    pub fn start(options: Options) -> Result<Self, DaemonError> {
        // Checked now: otherwise every user's request would fail.
        std::fs::read_dir(&options.file_tables)
            .map_err(DaemonError::system(&options.file_tables, "look for users' shared file tables there"))?;
        look_for_room_at(&options.socket)?;
        let (shared, recovered) = Shared::open(options, Purpose::Serve)?;
        let shared = Arc::new(shared);
        let listener = Arc::new(listen(&shared.options.socket)?);
        let socket_id = FileId::at(&shared.options.socket).ok();
        let accepts = Arc::clone(&listener);
        let threads = vec![
            shared.spawn("byway-tdm-retire", |shared| shared.retire_rounds())?,
            shared.spawn("byway-tdm-dax", |shared| shared.watch_rounds())?,
            shared.spawn("byway-tdm-sweep", |shared| shared.sweep_rounds())?,
            shared.spawn("byway-tdm-accept", move |shared| shared.accept(&accepts))?,
        ];
        let (options, region) = (&shared.options, shared.tenants.region());
        info!(region = options.region, domain = %region.domain(), socket = ?options.socket, "daemon started");
        Ok(Self { shared, listener, socket_id, threads, recovered })
    }

    /// Results for the files that were absorbed before.
    #[must_use]
    pub fn recovered(&self) -> &[RecoveredFile] {
        &self.recovered
    }

    /// The daemon's report.
    #[must_use]
    pub fn report(&self) -> Report {
        self.shared.report()
    }
}

impl Daemon {
    /// Stops the daemon; returns the result for each file.
    #[must_use]
    pub fn end(mut self) -> Vec<EndedFile> {
        self.stop()
    }

    fn stop(&mut self) -> Vec<EndedFile> {
        if self.threads.is_empty() {
            return Vec::new();
        }
        self.shared.stops.store(true, Ordering::SeqCst);
        // Wakes the accepting thread, even if the socket's name is gone.
        let _ = rustix::net::shutdown(&*self.listener, rustix::net::Shutdown::Both);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        let socket = &self.shared.options.socket;
        if self.socket_id.is_some() && FileId::at(socket).ok() == self.socket_id {
            let _ = std::fs::remove_file(socket);
        }
        self.shared.clients.end();
        let ended = self.shared.settle_all();
        info!(files = ended.len(), "daemon ended");
        ended
    }
}

impl Drop for Daemon {
    /// Demotes every file: nothing is left to recover.
    fn drop(&mut self) {
        self.stop();
    }
}

/// Result for a file when its daemon ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedFile {
    /// Its path.
    pub path: PathBuf,
    /// User of its partition.
    pub uid: u32,
    /// Really synced, and without a log. Otherwise recovery finds the log.
    pub is_settled: bool,
}

/// Writes back everything in a region, for every user, without serving it.
fn recover_alone(options: &Options, purpose: Purpose) -> Result<Vec<RecoveredFile>, DaemonError> {
    let (shared, mut recovered) = Shared::open(options.clone(), purpose)?;
    let settled: Vec<EndedFile> = shared.settle_all().into_iter().filter(|file| file.is_settled).collect();
    for file in recovered.iter_mut().filter(|file| file.outcome == Outcome::Adopted) {
        if settled.iter().any(|ended| ended.path == file.path && ended.uid == file.uid) {
            file.outcome = Outcome::Synced;
        }
    }
    Ok(recovered)
}

/// Writes back everything in a region, without serving it. Files still written are really synced and left at PASS.
///
/// # Errors
/// [`DaemonError`] if the region cannot be opened, as while a daemon has it.
pub fn recover(options: &Options, is_forced: bool) -> Result<Vec<RecoveredFile>, DaemonError> {
    recover_alone(options, Purpose::Recover { is_forced, forgets: false })
}

/// As [`recover`], and frees logs that cannot be written back.
///
/// # Errors
/// As [`recover`].
pub fn forget(options: &Options, is_forced: bool) -> Result<Vec<RecoveredFile>, DaemonError> {
    recover_alone(options, Purpose::Recover { is_forced, forgets: true })
}

/// Removes a region in a file in which nothing is left: the file, its partitions and shared file tables.
///
/// # Errors
/// As [`recover`]; [`DaemonError::Used`] if a log is left, or programs that were served still run.
pub fn remove(options: &Options) -> Result<(), DaemonError> {
    let (shared, _) = Shared::open(options.clone(), Purpose::Recover { is_forced: false, forgets: false })?;
    shared.tenants.remove()
}

impl Shared {
    fn open(options: Options, purpose: Purpose) -> Result<(Self, Vec<RecoveredFile>), DaemonError> {
        let described: Description = options.region.parse()?;
        let region = open_described(&described, &options.opening)?;
        let least = TABLE_BYTES + PARTITION_MIN_BYTES;
        if region.len_bytes() < least {
            return Err(DaemonError::TooSmall(region.len_bytes(), least));
        }
        load_range(region.as_ref(), 0, TABLE_BYTES)?;
        let clients = Arc::new(Clients::default());
        let tenants = Tenants::new(options.clone(), region, place_of(&described), Arc::clone(&clients))?;
        let shared = Self {
            options,
            tenants,
            clients,
            turned_away: AtomicU64::new(0),
            unserved: Unserved::default(),
            stops: AtomicBool::new(false),
            since: (SystemTime::now(), Instant::now()),
        };
        let mut recovered = shared.recover_damaged(purpose)?;
        let (is_forced, forgets) = match purpose {
            Purpose::Serve => (false, false),
            Purpose::Recover { is_forced, forgets } => (is_forced, forgets),
        };
        let terms = Terms { boot: shared.tenants.boot(), is_forced, forgets };
        for uid in shared.tenants.users_of_table()? {
            recovered.extend(shared.tenants.recover_user(uid, terms)?);
        }
        for file in &recovered {
            debug!(path = ?file.path, uid = file.uid, outcome = ?file.outcome, "file recovered");
        }
        Ok((shared, recovered))
    }

    /// Reports damaged slots; frees them if the purpose says so.
    fn recover_damaged(&self, purpose: Purpose) -> Result<Vec<RecoveredFile>, DaemonError> {
        let table = self.tenants.table();
        let slots = table.slots()?.into_iter();
        let damaged: Vec<_> =
            slots.filter(|(_, found)| *found == Found::Damaged).map(|(slot, _)| slot).collect();
        let is_freed = match purpose {
            Purpose::Serve if damaged.is_empty() => return Ok(Vec::new()),
            Purpose::Serve => {
                return Err(DaemonError::Damaged(damaged.into_iter().map(|slot| slot.0).collect()));
            }
            Purpose::Recover { is_forced, .. } => is_forced,
        };
        let outcome = |slot: SlotNumber| {
            if is_freed {
                table.free(slot)?;
            }
            let outcome = Outcome::DamagedSlot { slot: slot.0, is_freed };
            Ok(RecoveredFile { path: self.tenants.place().to_owned(), uid: 0, outcome })
        };
        damaged.into_iter().map(outcome).collect()
    }

    fn spawn(
        self: &Arc<Self>,
        name: &str,
        run: impl FnOnce(&Arc<Self>) + Send + 'static,
    ) -> Result<JoinHandle<()>, DaemonError> {
        let shared = Arc::clone(self);
        let spawned = thread::Builder::new().name(name.into()).spawn(move || run(&shared));
        spawned.map_err(DaemonError::system(&self.options.socket, "start a thread"))
    }

    fn accept(self: &Arc<Self>, listener: &UnixListener) {
        for stream in listener.incoming() {
            if self.stops.load(Ordering::SeqCst) {
                return;
            }
            if let Ok(stream) = stream {
                // A client that cannot be served sees its connection closed.
                let _ = self.begin(stream);
            }
        }
    }

    fn begin(self: &Arc<Self>, stream: UnixStream) -> Result<(), DaemonError> {
        let again =
            stream.try_clone().map_err(DaemonError::system(&self.options.socket, "take a connection"))?;
        let channel = Channel::accepted(again);
        let uid = channel.peer().ok().map(|peer| peer.uid);
        let spawn = || self.spawn("byway-tdm-client", move |shared| shared.serve(&channel));
        self.clients.add(uid, stream, spawn)
    }

    /// Serves a connection until the other end closes it.
    fn serve(&self, channel: &Channel) {
        let Ok(peer) = channel.peer() else { return };
        let me = rustix::process::geteuid();
        if !me.is_root() && peer.uid != me.as_raw() {
            let _ = channel.reply(Reply::Refused(Reason::OtherOwner), &[], &[]);
            return;
        }
        if self.answer_requests(channel, peer) {
            debug!(uid = peer.uid, pid = peer.pid, "program left");
        }
    }

    /// Answers requests until the other end closes the connection. Whether it was a program's: others only ask for reports.
    fn answer_requests(&self, channel: &Channel, peer: Peer) -> bool {
        let mut is_program = false;
        while let Ok((message, files)) = channel.receive() {
            if self.stops.load(Ordering::SeqCst) {
                return is_program;
            }
            let answered = match Request::decode(&message) {
                Err(_) => channel.reply(Reply::NotUnderstood, &[], &[]),
                Ok(Request::Hello) => {
                    is_program = true;
                    self.welcome(channel, peer)
                }
                Ok(Request::Report) => self.send_report(channel, peer.uid),
                Ok(request) => {
                    let tenant = self.tenants.tenant_for(peer.uid, request);
                    let done = tenant.and_then(|tenant| self.act(&tenant, (peer.pid, request), &files));
                    channel.reply(done.map_or_else(Reply::Refused, |()| Reply::Done), &[], &[])
                }
            };
            if answered.is_err() {
                return is_program;
            }
        }
        is_program
    }

    fn welcome(&self, channel: &Channel, peer: Peer) -> std::io::Result<()> {
        if !has_our_numbers(peer) {
            if !is_gone(peer) {
                self.turned_away.fetch_add(1, Ordering::Relaxed);
            }
            return channel.reply(Reply::Refused(Reason::OtherProcesses), &[], &[]);
        }
        match self.tenants.tenant(peer.uid).and_then(|tenant| tenant.export()) {
            Ok((export, file_table)) => {
                let model = export.page_table.as_ref().map(|model| model.as_fd());
                debug!(uid = peer.uid, pid = peer.pid, "program connected");
                let files: Vec<_> =
                    [file_table.as_fd(), export.file.as_fd()].into_iter().chain(model).collect();
                channel.reply(Reply::Welcome(export.description), &files, &[])
            }
            Err(error) => {
                warn!(uid = peer.uid, pid = peer.pid, why = error.in_full(), "program refused");
                self.unserved.count(peer.uid, &error);
                channel.reply(Reply::Refused(Reason::NoRoom), &[], &[])
            }
        }
    }

    /// Reports a user's own files; to root and the daemon's user, all files.
    fn send_report(&self, channel: &Channel, uid: u32) -> std::io::Result<()> {
        let mut report = self.report();
        let sees_all = uid == 0 || uid == rustix::process::geteuid().as_raw();
        report.users.retain(|user| sees_all || user.uid == uid);
        report.unserved.retain(|user| sees_all || user.uid == uid);
        let text = serde_json::to_vec(&report)?;
        channel.reply(Reply::Text(text.len() as u32), &[], &text)
    }

    fn act(
        &self,
        tenant: &Tenant,
        (program, request): (i32, Request),
        files: &[std::os::fd::OwnedFd],
    ) -> Result<(), Reason> {
        match (request, files) {
            (Request::Promote(index), [file]) => {
                let asker =
                    Asker { program, boot: self.tenants.boot(), daemon_epoch: self.tenants.daemon_epoch() };
                tenant.promote(&self.tenants.table(), index, file, asker)
            }
            (Request::Absorb(index), [file]) => {
                tenant.absorb(&self.tenants.table(), index, file, self.tenants.boot())
            }
            (Request::Settle(index), _) => self.settle(tenant, index, Reason::TooFewSyncs),
            (Request::Leave(index, why), _) => {
                tenant.demote(&self.tenants.table(), index, why).map_err(|_| Reason::SyncFailed)
            }
            (Request::Order(order, key), _) => tenant.order(&self.tenants.table(), order, key),
            _ => Err(Reason::Unknown),
        }
    }

    fn settle(&self, tenant: &Tenant, index: EntryIndex, why: Reason) -> Result<(), Reason> {
        tenant.demote(&self.tenants.table(), index, why).map_err(|_| Reason::SyncFailed)?;
        let (Some(absorbed), Some(entry)) = (tenant.absorbed(index), tenant.file_table().entry(index)) else {
            return Ok(());
        };
        tenant.release(&self.tenants.table(), &absorbed, entry, why).map_err(|_| Reason::SyncFailed)
    }

    fn retire_rounds(&self) {
        while !self.stops.load(Ordering::SeqCst) {
            for tenant in self.tenants.all() {
                tenant.retire(&self.tenants.table());
                tenant.evaluate_all(&self.tenants.table());
            }
            self.options.clock.note_round();
            thread::sleep(ROUND);
        }
    }

    /// In a thread of its own: an open of a DAX-resident file waits for it.
    fn watch_rounds(&self) {
        while !self.stops.load(Ordering::SeqCst) {
            for tenant in self.tenants.all() {
                tenant.file_table().set_seen(monotonic_ns());
                tenant.watch_promoted(&self.tenants.table());
            }
            thread::sleep(ROUND / 4);
        }
    }

    /// In a thread of its own: reading every process takes long.
    fn sweep_rounds(&self) {
        while !self.stops.load(Ordering::SeqCst) {
            self.tenants.all().iter().for_each(|tenant| tenant.sweep());
            thread::sleep(ROUND);
        }
    }

    fn settle_all(&self) -> Vec<EndedFile> {
        let mut ended = Vec::new();
        for tenant in self.tenants.all() {
            for absorbed in tenant.all_absorbed() {
                let is_settled = self.settle(&tenant, absorbed.entry(), Reason::NoDaemon).is_ok();
                ended.push(EndedFile { path: absorbed.path().to_path_buf(), uid: tenant.uid(), is_settled });
            }
            for promoted in tenant.promoted_files().all() {
                let is_settled = self.settle(&tenant, promoted.entry(), Reason::NoDaemon).is_ok();
                ended.push(EndedFile { path: promoted.path().to_path_buf(), uid: tenant.uid(), is_settled });
            }
        }
        ended
    }

    fn report(&self) -> Report {
        let region = RegionReport {
            description: self.options.region.clone(),
            len_bytes: self.tenants.region().len_bytes(),
            domain: self.tenants.region().domain().name().to_owned(),
            why: self.tenants.region().why().to_owned(),
            is_emulated: self.tenants.region().is_emulated(),
            cache: CacheReport::of(self.tenants.region()),
        };
        let users = self.tenants.all().iter().map(|tenant| tenant.report()).collect();
        let unserved = self.unserved.report(|uid| self.tenants.opened(uid).is_some());
        let turned_away = self.turned_away.load(Ordering::Relaxed);
        let (since, begun) = self.since;
        let since_unix_s = since.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let counting_s = begun.elapsed().as_secs_f64().ceil() as u64;
        Report { since_unix_s, counting_s, region, users, turned_away, unserved }
    }
}

/// The region's memory, regardless of other options in its description.
fn place_of(described: &Description) -> PathBuf {
    let (Place::Emu(path) | Place::FsDax(path) | Place::DevDax(path)) = &described.place;
    std::fs::canonicalize(path).unwrap_or_else(|_| path.clone())
}

/// Checks that the daemon can listen at the socket before a region is made, which would be left behind. It does not listen yet: recovery comes
/// first.
fn look_for_room_at(socket: &Path) -> Result<(), DaemonError> {
    if UnixStream::connect(socket).is_ok() {
        return Err(DaemonError::InUse(socket.to_owned()));
    }
    handover::is_nameable(socket).map_err(DaemonError::system(socket, "listen there"))?;
    let folder = socket.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    rustix::fs::access(folder, Access::WRITE_OK | Access::EXEC_OK)
        .map_err(|error| DaemonError::system(socket, "listen there")(error.into()))
}

/// Listens at a path where no daemon does. The socket file of a dead daemon is removed.
fn listen(socket: &Path) -> Result<UnixListener, DaemonError> {
    if UnixStream::connect(socket).is_ok() {
        return Err(DaemonError::InUse(socket.to_owned()));
    }
    // Other files are left alone.
    if std::fs::symlink_metadata(socket).is_ok_and(|found| found.file_type().is_socket()) {
        let _ = std::fs::remove_file(socket);
    }
    let listener =
        handover::listen_with_mode(socket, 0o600).map_err(DaemonError::system(socket, "listen there"))?;
    if rustix::process::geteuid().is_root() {
        let_all_users_in(socket).map_err(DaemonError::system(socket, "let all users in"))?;
    }
    Ok(listener)
}

/// Lets programs of all users connect; the system reports their users. Another file or a link that has taken the socket's
/// place since keeps its mode.
fn let_all_users_in(socket: &Path) -> std::io::Result<()> {
    let named = rustix::fs::open(socket, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    if !FileType::from_raw_mode(rustix::fs::fstat(&named)?.st_mode).is_socket() {
        return Err(std::io::Error::other("another file is there"));
    }
    let named = format!("/proc/self/fd/{}", named.as_raw_fd());
    std::fs::set_permissions(named, std::fs::Permissions::from_mode(0o666))
}
