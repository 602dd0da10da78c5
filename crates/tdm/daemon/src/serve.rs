//! The socket, a thread for each connection, and one that retires.

use std::collections::BTreeMap;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use byway_sys::handover;
use byway_sys::time::monotonic_ns;
use byway_tdm_engine::control::{Channel, Peer, Reply, Request};
use byway_tdm_engine::table::{EntryIndex, Why};
use byway_tdm_region::{Description, DeviceRegion, Place, open_described};
use rustix::fs::Access;

use crate::error::DaemonError;
use crate::estate::Estate;
use crate::homes::Asker;
use crate::namespace::{has_our_numbers, is_gone};
use crate::options::Options;
use crate::parts::SLICE_MIN_BYTES;
use crate::recovery::{Outcome, Purpose, RecoveredFile, Terms};
use crate::report::{CacheReport, RegionReport, Report};
use crate::resident::{CacheRoom, bring};
use crate::sweep::Looks;
use crate::table::{BootId, Found, SlotNumber, TABLE_BYTES};
use crate::unserved::Unserved;

/// Between two rounds over all files.
const ROUND: Duration = Duration::from_millis(20);

/// A daemon that serves until it is dropped.
#[derive(Debug)]
pub struct Daemon {
    shared: Arc<Shared>,
    listener: Arc<UnixListener>,
    threads: Vec<JoinHandle<()>>,
    recovered: Vec<RecoveredFile>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) options: Options,
    /// The region's file or node, however it was named.
    pub(crate) place: PathBuf,
    pub(crate) region: Box<dyn DeviceRegion>,
    pub(crate) cache_room: CacheRoom,
    pub(crate) boot: BootId,
    pub(crate) estates: Mutex<Vec<Arc<Estate>>>,
    /// Held while a user's part is opened or given back, by the user: whoever's takes long holds up his own programs.
    pub(crate) openings: Mutex<BTreeMap<u32, Arc<Mutex<()>>>>,
    /// For parts that can be given back.
    pub(crate) looks: Mutex<Looks>,
    clients: Mutex<Vec<Client>>,
    /// Programs of other PID namespaces that came.
    turned_away: AtomicU64,
    unserved: Unserved,
    stops: AtomicBool,
    /// Which daemon this is, to those whose files came home to it.
    pub(crate) reign: u32,
}

/// A connection, and the thread that serves it.
#[derive(Debug)]
struct Client {
    uid: Option<u32>,
    stream: UnixStream,
    thread: JoinHandle<()>,
}

impl Daemon {
    /// Opens the region, writes back or takes over what is in it, and serves from then on.
    ///
    /// # Errors
    /// [`DaemonError`].
    pub fn start(options: Options) -> Result<Self, DaemonError> {
        // Found now, or nobody would ever be served.
        std::fs::read_dir(&options.boards)
            .map_err(DaemonError::system(&options.boards, "look for users' boards there"))?;
        look_for_room_at(&options.socket)?;
        let (shared, recovered) = Shared::open(options, Purpose::Serve)?;
        let shared = Arc::new(shared);
        let listener = Arc::new(listen(&shared.options.socket)?);
        let accepts = Arc::clone(&listener);
        let threads = vec![
            shared.spawn("byway-tdm-retire", |shared| shared.retire_rounds())?,
            shared.spawn("byway-tdm-homes", |shared| shared.watch_rounds())?,
            shared.spawn("byway-tdm-sweep", |shared| shared.sweep_rounds())?,
            shared.spawn("byway-tdm-accept", move |shared| shared.accept(&accepts))?,
        ];
        Ok(Self { shared, listener, threads, recovered })
    }

    /// What became of the files that were absorbed before.
    #[must_use]
    pub fn recovered(&self) -> &[RecoveredFile] {
        &self.recovered
    }

    /// All that there is to tell.
    #[must_use]
    pub fn report(&self) -> Report {
        self.shared.report()
    }
}

impl Daemon {
    /// Ends as when it is dropped, and says what became of each file.
    #[must_use]
    pub fn end(mut self) -> Vec<EndedFile> {
        self.stop()
    }

    fn stop(&mut self) -> Vec<EndedFile> {
        if self.threads.is_empty() {
            return Vec::new();
        }
        self.shared.stops.store(true, Ordering::SeqCst);
        // Whoever accepts wakes up, whatever became of the socket's name.
        let _ = rustix::net::shutdown(&*self.listener, rustix::net::Shutdown::Both);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        let _ = std::fs::remove_file(&self.shared.options.socket);
        self.shared.end_clients();
        self.shared.settle_all()
    }
}

impl Drop for Daemon {
    /// Takes every file down to the kernel: nothing is left for a recovery.
    fn drop(&mut self) {
        self.stop();
    }
}

/// What became of a file when its daemon ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedFile {
    /// Where it is.
    pub path: PathBuf,
    /// Whose part of the region it was in.
    pub uid: u32,
    /// All of it is synced below, and it has no log any more. If not, a recovery finds it.
    pub is_settled: bool,
}

/// Writes back what a region has, for every user, without serving it. What programs still write is left to the kernel.
pub(crate) fn recover_alone(options: &Options, purpose: Purpose) -> Result<Vec<RecoveredFile>, DaemonError> {
    let (shared, mut recovered) = Shared::open(options.clone(), purpose)?;
    let settled: Vec<EndedFile> = shared.settle_all().into_iter().filter(|file| file.is_settled).collect();
    for file in recovered.iter_mut().filter(|file| file.outcome == Outcome::Adopted) {
        if settled.iter().any(|ended| ended.path == file.path && ended.uid == file.uid) {
            file.outcome = Outcome::Synced;
        }
    }
    Ok(recovered)
}

impl Shared {
    fn open(options: Options, purpose: Purpose) -> Result<(Self, Vec<RecoveredFile>), DaemonError> {
        let described: Description = options.region.parse()?;
        let region = open_described(&described, &options.opening)?;
        let place = place_of(&described);
        let least = TABLE_BYTES + SLICE_MIN_BYTES;
        if region.len_bytes() < least {
            return Err(DaemonError::TooSmall(region.len_bytes(), least));
        }
        bring(region.as_ref(), 0, TABLE_BYTES)?;
        let boot = byway_sys::boot::boot_id().ok_or(DaemonError::NoBoot)?;
        let stops = AtomicBool::new(false);
        let shared = Self {
            options,
            place,
            cache_room: CacheRoom::of(region.as_ref()),
            region,
            boot,
            estates: Mutex::default(),
            openings: Mutex::default(),
            looks: Mutex::default(),
            clients: Mutex::default(),
            turned_away: AtomicU64::new(0),
            unserved: Unserved::default(),
            stops,
            reign: getrandom::u32().unwrap_or_default() | 1,
        };
        let mut recovered = shared.recover_damaged(purpose)?;
        let (is_forced, forgets) = match purpose {
            Purpose::Serve => (false, false),
            Purpose::Recover { is_forced, forgets } => (is_forced, forgets),
        };
        for uid in shared.users_of_table()? {
            recovered.extend(shared.recover_user(uid, Terms { boot, is_forced, forgets })?);
        }
        Ok((shared, recovered))
    }

    /// Tells of slots that are broken; gives them back where that is asked for.
    fn recover_damaged(&self, purpose: Purpose) -> Result<Vec<RecoveredFile>, DaemonError> {
        let table = self.table();
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
        let tell = |slot: SlotNumber| {
            if is_freed {
                table.free(slot)?;
            }
            let outcome = Outcome::DamagedSlot { slot: slot.0, is_freed };
            Ok(RecoveredFile { path: self.place.clone(), uid: 0, outcome })
        };
        damaged.into_iter().map(tell).collect()
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
                // Who cannot be served is told so by a connection that ends.
                let _ = self.begin(stream);
            }
        }
    }

    fn begin(self: &Arc<Self>, stream: UnixStream) -> Result<(), DaemonError> {
        let again =
            stream.try_clone().map_err(DaemonError::system(&self.options.socket, "take a connection"))?;
        let channel = Channel::accepted(again);
        let uid = channel.peer().ok().map(|peer| peer.uid);
        // Held from before it runs: who is not among them has no connection.
        let mut clients = locked(&self.clients);
        let thread = self.spawn("byway-tdm-client", move |shared| shared.serve(&channel))?;
        clients.retain(|client| !client.thread.is_finished());
        clients.push(Client { uid, stream, thread });
        Ok(())
    }

    /// Whether a program of a user has a connection.
    pub(crate) fn is_connected(&self, uid: u32) -> bool {
        let clients = locked(&self.clients);
        clients.iter().any(|client| client.uid == Some(uid) && !client.thread.is_finished())
    }

    fn end_clients(&self) {
        let clients = std::mem::take(&mut *locked(&self.clients));
        for client in clients {
            let _ = client.stream.shutdown(Shutdown::Both);
            let _ = client.thread.join();
        }
    }

    /// One connection, until its other end is gone.
    fn serve(&self, channel: &Channel) {
        let Ok(peer) = channel.peer() else { return };
        let me = rustix::process::geteuid();
        if !me.is_root() && peer.uid != me.as_raw() {
            let _ = channel.reply(Reply::Refused(Why::OtherOwner), &[], &[]);
            return;
        }
        while let Ok((message, files)) = channel.receive() {
            if self.stops.load(Ordering::SeqCst) {
                return;
            }
            let answered = match Request::decode(&message) {
                Err(_) => channel.reply(Reply::NotUnderstood, &[], &[]),
                Ok(Request::Hello) => self.welcome(channel, peer),
                Ok(Request::Report) => self.tell(channel, peer.uid),
                Ok(request) => {
                    let estate = self.estate_for(peer.uid, request);
                    let done = estate.and_then(|estate| self.act(&estate, (peer.pid, request), &files));
                    channel.reply(done.map_or_else(Reply::Refused, |()| Reply::Done), &[], &[])
                }
            };
            if answered.is_err() {
                return;
            }
        }
    }

    fn welcome(&self, channel: &Channel, peer: Peer) -> std::io::Result<()> {
        if !has_our_numbers(peer) {
            if !is_gone(peer) {
                self.turned_away.fetch_add(1, Ordering::Relaxed);
            }
            return channel.reply(Reply::Refused(Why::OtherProcesses), &[], &[]);
        }
        match self.estate(peer.uid).and_then(|estate| estate.export()) {
            Ok((export, board)) => {
                let model = export.board.as_ref().map(|model| model.as_fd());
                let files: Vec<_> = [board.as_fd(), export.file.as_fd()].into_iter().chain(model).collect();
                channel.reply(Reply::Welcome(export.description), &files, &[])
            }
            Err(error) => {
                self.unserved.count(peer.uid, &error);
                channel.reply(Reply::Refused(Why::NoRoom), &[], &[])
            }
        }
    }

    /// Tells a user of his own files; root, and whoever runs the daemon, of all.
    fn tell(&self, channel: &Channel, uid: u32) -> std::io::Result<()> {
        let mut report = self.report();
        let sees_all = uid == 0 || uid == rustix::process::geteuid().as_raw();
        report.users.retain(|user| sees_all || user.uid == uid);
        report.unserved.retain(|user| sees_all || user.uid == uid);
        let text = serde_json::to_vec(&report)?;
        channel.reply(Reply::Text(text.len() as u32), &[], &text)
    }

    fn act(
        &self,
        estate: &Estate,
        (program, request): (i32, Request),
        files: &[std::os::fd::OwnedFd],
    ) -> Result<(), Why> {
        match (request, files) {
            (Request::House(index), [file]) => {
                let asker = Asker { program, boot: self.boot, reign: self.reign };
                estate.house(&self.table(), index, file, asker)
            }
            (Request::Absorb(index), [file]) => estate.absorb(&self.table(), index, file, self.boot),
            (Request::Settle(index), _) => self.settle(estate, index, Why::TooFewSyncs),
            (Request::Leave(index, why), _) => {
                estate.unhouse(&self.table(), index, why).map_err(|_| Why::SyncFailed)
            }
            (Request::Order(order, key), _) => estate.order(&self.table(), order, key),
            _ => Err(Why::Unknown),
        }
    }

    fn settle(&self, estate: &Estate, index: EntryIndex, why: Why) -> Result<(), Why> {
        estate.unhouse(&self.table(), index, why).map_err(|_| Why::SyncFailed)?;
        let (Some(held), Some(entry)) = (estate.held(index), estate.board.entry(index)) else {
            return Ok(());
        };
        estate.let_go(&self.table(), &held, entry, why).map_err(|_| Why::SyncFailed)
    }

    fn retire_rounds(&self) {
        while !self.stops.load(Ordering::SeqCst) {
            for estate in self.all_estates() {
                estate.retire(&self.table());
                estate.judge_all(&self.table());
            }
            self.options.clock.note_round();
            thread::sleep(ROUND);
        }
    }

    /// By itself, as whoever opens a file that is at home waits for it.
    fn watch_rounds(&self) {
        while !self.stops.load(Ordering::SeqCst) {
            for estate in self.all_estates() {
                estate.board.set_seen(monotonic_ns());
                estate.watch_homes(&self.table());
            }
            thread::sleep(ROUND / 4);
        }
    }

    /// By itself, as looking at every process takes long.
    fn sweep_rounds(&self) {
        while !self.stops.load(Ordering::SeqCst) {
            self.all_estates().iter().for_each(|estate| estate.sweep());
            thread::sleep(ROUND);
        }
    }

    fn settle_all(&self) -> Vec<EndedFile> {
        let mut ended = Vec::new();
        for estate in self.all_estates() {
            for held in estate.all_held() {
                let is_settled = self.settle(&estate, held.entry, Why::NoDaemon).is_ok();
                ended.push(EndedFile { path: held.path.clone(), uid: estate.uid, is_settled });
            }
            for housed in estate.homes.all() {
                let is_settled = self.settle(&estate, housed.entry, Why::NoDaemon).is_ok();
                ended.push(EndedFile { path: housed.path.clone(), uid: estate.uid, is_settled });
            }
        }
        ended
    }

    fn report(&self) -> Report {
        let region = RegionReport {
            description: self.options.region.clone(),
            len_bytes: self.region.len_bytes(),
            domain: self.region.domain().name().to_owned(),
            why: self.region.why().to_owned(),
            is_emulated: self.region.is_emulated(),
            cache: CacheReport::of(self.region.as_ref()),
        };
        let users = self.all_estates().iter().map(|estate| estate.report()).collect();
        let unserved = self.unserved.report(|uid| self.opened(uid).is_some());
        let turned_away = self.turned_away.load(Ordering::Relaxed);
        Report { region, users, turned_away, unserved }
    }
}

/// A mutex, whoever panicked with it.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Which memory it is, whatever else its description says and wherever it is read from.
fn place_of(described: &Description) -> PathBuf {
    let (Place::Emu(path) | Place::FsDax(path) | Place::DevDax(path)) = &described.place;
    std::fs::canonicalize(path).unwrap_or_else(|_| path.clone())
}

/// Whether somebody can listen there: found before a region is made, which would be left behind, and be all of the memory perhaps. Nobody is let
/// in before that is recovered, so nobody listens yet.
fn look_for_room_at(socket: &Path) -> Result<(), DaemonError> {
    if UnixStream::connect(socket).is_ok() {
        return Err(DaemonError::InUse(socket.to_owned()));
    }
    handover::is_nameable(socket).map_err(DaemonError::system(socket, "listen there"))?;
    let folder = socket.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    rustix::fs::access(folder, Access::WRITE_OK | Access::EXEC_OK)
        .map_err(|error| DaemonError::system(socket, "listen there")(error.into()))
}

/// Listens at a path where nobody else does. A socket file whose daemon is gone is taken away.
fn listen(socket: &Path) -> Result<UnixListener, DaemonError> {
    if UnixStream::connect(socket).is_ok() {
        return Err(DaemonError::InUse(socket.to_owned()));
    }
    // Whatever else is called so is somebody's, and is not listened at.
    if std::fs::symlink_metadata(socket).is_ok_and(|found| found.file_type().is_socket()) {
        let _ = std::fs::remove_file(socket);
    }
    let listener = handover::listen(socket).map_err(DaemonError::system(socket, "listen there"))?;
    if rustix::process::geteuid().is_root() {
        // Every user's programs come; who they are the system says.
        let all = std::fs::Permissions::from_mode(0o666);
        std::fs::set_permissions(socket, all).map_err(DaemonError::system(socket, "let all users in"))?;
    }
    Ok(listener)
}
