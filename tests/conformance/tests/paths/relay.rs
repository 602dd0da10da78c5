//! What is between a host and one port of a target: it carries bytes, keeps them back and lets them go later, cuts, and is gone.

use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use byway_kit::{accept_while, copy};
use parking_lot::{Condvar, Mutex};

pub struct Relay {
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default, PartialEq, Eq)]
enum Kept {
    #[default]
    Nothing,
    /// Data that is more than commands are, and what comes over the same connection behind it.
    Data,
    All,
}

/// More than commands at once are.
const DATA_BYTES: usize = 4 << 10;

#[derive(Default)]
struct Shared {
    /// What of hosts is withheld.
    holds: Mutex<Kept>,
    released: Condvar,
    /// New connections are refused.
    is_away: AtomicBool,
    /// Answers go nowhere.
    is_mute: AtomicBool,
    is_over: AtomicBool,
    /// Bytes that went to the target.
    carried: AtomicU64,
    /// Bytes of hosts that came.
    came: AtomicU64,
    open: Mutex<Vec<[TcpStream; 2]>>,
}

impl Relay {
    pub fn to(target: SocketAddr) -> Self {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let take = move |host| {
            if !theirs.is_away.load(SeqCst) {
                theirs.carry(host, TcpStream::connect(target).ok());
            }
            !theirs.is_over.load(SeqCst)
        };
        Self { address: accept_while(take).unwrap(), shared }
    }

    /// Bytes that the target was given.
    pub fn carried(&self) -> u64 {
        self.shared.carried.load(SeqCst)
    }

    /// Bytes that came from hosts, carried or not.
    pub fn came(&self) -> u64 {
        self.shared.came.load(SeqCst)
    }

    /// What hosts send from here on is kept.
    pub fn hold(&self) {
        *self.shared.holds.lock() = Kept::All;
    }

    /// Data that hosts send from here on is kept, and their commands are not.
    pub fn hold_data(&self) {
        *self.shared.holds.lock() = Kept::Data;
    }

    /// Forwards what was held back, and what comes from now on.
    pub fn release(&self) {
        *self.shared.holds.lock() = Kept::Nothing;
        self.shared.released.notify_all();
    }

    /// Hosts are dropped, and turned away when they come again. The target notices nothing while what they sent is kept.
    pub fn drop_hosts(&self) {
        self.shared.is_away.store(true, SeqCst);
        for [host, _] in self.shared.open.lock().iter() {
            let _ = host.shutdown(Shutdown::Write);
        }
    }

    /// Neither side hears of the other any more, and neither connection ends.
    pub fn swallow(&self) {
        self.hold();
        self.shared.is_mute.store(true, SeqCst);
        self.shared.is_away.store(true, SeqCst);
    }

    /// Both sides are dropped, and new connections refused.
    pub fn cut(&self) {
        self.shared.is_away.store(true, SeqCst);
        for stream in self.shared.open.lock().drain(..).flatten() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        self.release();
    }

    /// New connections are let through again.
    pub fn restore(&self) {
        self.shared.is_mute.store(false, SeqCst);
        self.release();
        self.shared.is_away.store(false, SeqCst);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.cut();
        self.shared.is_over.store(true, SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn carry(self: &Arc<Self>, host: TcpStream, target: Option<TcpStream>) {
        let Some(target) = target else { return };
        for stream in [&host, &target] {
            stream.set_nodelay(true).unwrap();
        }
        let both = [host.try_clone().unwrap(), target.try_clone().unwrap()];
        self.open.lock().push(both);
        let (theirs, back) = (Arc::clone(self), [target.try_clone().unwrap(), host.try_clone().unwrap()]);
        std::thread::spawn(move || theirs.carry_answers(back));
        let theirs = Arc::clone(self);
        std::thread::spawn(move || theirs.carry_commands([host, target]));
    }

    fn carry_commands(&self, [host, target]: [TcpStream; 2]) {
        copy(&host, &target, |bytes| {
            self.came.fetch_add(bytes.len() as u64, SeqCst);
            self.wait(bytes.len() > DATA_BYTES);
            // Before there can be an answer.
            self.carried.fetch_add(bytes.len() as u64, SeqCst);
            true
        });
        self.wait(true);
        let _ = target.shutdown(Shutdown::Both);
    }

    /// Waits until what came may go on.
    fn wait(&self, is_data: bool) {
        let is_kept = |kept: &mut Kept| *kept == Kept::All || (*kept == Kept::Data && is_data);
        self.released.wait_while(&mut self.holds.lock(), is_kept);
    }

    fn carry_answers(&self, [target, host]: [TcpStream; 2]) {
        copy(&target, &host, |_| !self.is_mute.load(SeqCst));
        if !self.is_mute.load(SeqCst) {
            let _ = host.shutdown(Shutdown::Both);
        }
    }
}
