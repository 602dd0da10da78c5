//! A controller for tests: one namespace of blocks in memory, behind real sockets, that misbehaves on demand.

use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use byway_spec::Command;

use crate::disk::Disk;
use crate::gate::Gate;
use crate::habits::Habits;
use crate::served::serve;
use crate::unanswered::Unanswered;

pub const NAME: &str = "nqn.2026-01.org.example:test";

/// The controller, which ends when it is dropped.
pub struct TestController {
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

/// What its connections share.
pub struct Shared {
    habits: Mutex<Habits>,
    pub disk: Disk,
    is_over: AtomicBool,
    pub controllers: AtomicU16,
    pub io_commands: AtomicU32,
    pub io_connects: AtomicU32,
    pub io_seen: Mutex<Vec<Command>>,
    pub identified: AtomicBool,
    pub keep_alives: AtomicU32,
    open: Mutex<Vec<TcpStream>>,
    pub unanswered: Unanswered,
    pub gate: Gate,
    pub abort_gate: Gate,
    pub aborts: AtomicU32,
}

impl Shared {
    pub fn habits(&self) -> Habits {
        *self.habits.lock().unwrap()
    }
}

impl TestController {
    pub fn start(habits: Habits) -> Self {
        let shared = Arc::new(Shared {
            habits: Mutex::new(habits),
            disk: Disk::default(),
            is_over: AtomicBool::new(false),
            controllers: AtomicU16::new(0),
            io_commands: AtomicU32::new(0),
            io_connects: AtomicU32::new(0),
            io_seen: Mutex::default(),
            identified: AtomicBool::new(false),
            keep_alives: AtomicU32::new(0),
            open: Mutex::default(),
            unanswered: Unanswered::default(),
            gate: Gate::default(),
            abort_gate: Gate::default(),
            aborts: AtomicU32::new(0),
        });
        let theirs = Arc::clone(&shared);
        let take = move |stream: TcpStream| {
            if theirs.is_over.load(SeqCst) {
                return false;
            }
            stream.set_nodelay(true).unwrap();
            theirs.open.lock().unwrap().push(stream.try_clone().unwrap());
            let shared = Arc::clone(&theirs);
            std::thread::spawn(move || {
                let ours = stream.try_clone().unwrap();
                let _ = serve(&shared, stream);
                let _ = ours.shutdown(std::net::Shutdown::Both);
            });
            true
        };
        Self { address: byway_kit::accept_while(take).unwrap(), shared }
    }

    /// Connects that made a controller.
    pub fn controllers(&self) -> u16 {
        self.shared.controllers.load(SeqCst)
    }

    /// Connects of I/O queues, those that were refused among them.
    pub fn io_connects(&self) -> u32 {
        self.shared.io_connects.load(SeqCst)
    }

    /// I/O commands that came since this was asked last.
    pub fn take_io(&self) -> Vec<Command> {
        std::mem::take(&mut self.shared.io_seen.lock().unwrap())
    }

    /// Aborts that were asked for.
    pub fn aborts(&self) -> u32 {
        self.shared.aborts.load(SeqCst)
    }

    pub fn keep_alives(&self) -> u32 {
        self.shared.keep_alives.load(SeqCst)
    }

    /// Behaves otherwise from here on, and closes every connection that there is.
    pub fn restart(&self, habits: Habits) {
        *self.shared.habits.lock().unwrap() = habits;
        self.drop_connections();
    }

    /// Answers to I/O commands, which can be withheld.
    pub fn gate(&self) -> &Gate {
        &self.shared.gate
    }

    /// Answers to Aborts, which can be withheld.
    pub fn abort_gate(&self) -> &Gate {
        &self.shared.abort_gate
    }

    /// Closes every connection that there is.
    pub fn drop_connections(&self) {
        for stream in self.shared.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }

    /// Listens no more, and drops everybody.
    pub fn vanish(&self) {
        self.shared.is_over.store(true, SeqCst);
        let _ = TcpStream::connect(self.address);
        self.drop_connections();
    }
}

impl Drop for TestController {
    fn drop(&mut self) {
        self.vanish();
    }
}
