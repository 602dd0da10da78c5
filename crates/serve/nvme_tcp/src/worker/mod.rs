//! One thread of a target: it waits for its connections' sockets, and does to the end whatever comes.
//!
//! A connection that something came over is looked at again and again for a while, since a host that waits for an answer
//! sends its next command as soon as it has it ([`SpinBudget`] says how long). A thread with no such connection sleeps.

mod seats;

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use byway_local::EngineEvents;
use byway_sys::SpinBudget;
use byway_sys::idle::Next;
use byway_sys::time::monotonic_ns;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;

use crate::crew::Crew;
use crate::ended::Ended;
use crate::entrance::LISTENERS_MAX;
use crate::options::Told;
use crate::site::Site;
use crate::socket::Turn;
use crate::strangers::Strangers;

use seats::Seat;

/// Between two looks at who else wants something, while connections are looked at: where something has just been answered, and
/// nothing can have come of that yet, and where nothing came.
const OTHERS_BEHIND_WORK_NS: u64 = 5_000;
const OTHERS_NS: u64 = 20_000;

/// So many looks in vain at connections by one reading of the clock.
const LOOKS_BY_TIME: u32 = 8;

/// From so many turns in a row on, a connection is looked at only: the kernel is not asked to tell of it as well.
const TURNS_UNTOLD: u32 = 16;

/// Between two looks at the time of each connection.
const TICK_NS: u64 = 100_000_000;

/// Bytes received at once.
const BUFFER_BYTES: usize = 256 << 10;

/// Events taken at once.
const EVENTS: usize = 256;

/// What an event is of.
const BELL: u64 = 0;
const ENGINES: u64 = u64::MAX;
pub const FIRST_LISTENER: u64 = 1;
const FIRST_CONNECTION: u64 = FIRST_LISTENER + LISTENERS_MAX as u64;

/// A thread.
pub struct Worker {
    crew: Arc<Crew>,
    at: usize,
    poll: Arc<OwnedFd>,
    /// The subsystems, as they were at this generation of what there is.
    sites: Vec<Arc<Site>>,
    generation: u64,
    /// Of those, how many have failed.
    failed: usize,
    /// What tells that other engines of theirs have done something.
    engines: Vec<Arc<EngineEvents>>,
    /// No descriptor was left for a connection: nobody is accepted until the next tick.
    is_deaf: bool,
    seats: Vec<Option<Seat>>,
    free: Vec<usize>,
    strangers: Strangers,
    /// Connections so far.
    came: u64,
    hot: Vec<usize>,
    buffer: Vec<u8>,
    ticked_ns: u64,
    patience: SpinBudget,
    /// When all the others were looked at last.
    others_ns: u64,
}

/// What turns of all connections that are looked at came to.
enum Turns {
    /// Something came.
    Busy,
    /// Nothing yet.
    Idle,
    /// Nothing, and others may need the processor for something to come.
    Waiting,
}

impl Worker {
    /// Thread `at` of a crew, which waits by `poll`.
    ///
    /// # Errors
    /// The system's answer.
    pub fn new(crew: Arc<Crew>, at: usize, poll: Arc<OwnedFd>) -> io::Result<Self> {
        let incoming = epoll::EventFlags::IN;
        epoll::add(&poll, &*crew.inboxes[at].bell, epoll::EventData::new_u64(BELL), incoming)?;
        let patience = SpinBudget::new(crew.premises.options.idle);
        let strangers = Strangers::new(crew.inboxes.len());
        let mut worker = Self {
            patience,
            others_ns: 0,
            crew,
            at,
            poll,
            sites: Vec::new(),
            generation: 0,
            failed: 0,
            engines: Vec::new(),
            is_deaf: false,
            seats: Vec::new(),
            free: Vec::new(),
            strangers,
            came: 0,
            hot: Vec::new(),
            buffer: vec![0; BUFFER_BYTES],
            ticked_ns: 0,
        };
        worker.note_sites()?;
        Ok(worker)
    }

    /// Notes which subsystems there are by now, and has the kernel tell of their engines.
    fn note_sites(&mut self) -> io::Result<()> {
        let directory = &self.crew.premises.directory;
        if directory.generation() == self.generation {
            return Ok(());
        }
        let listing = directory.listing();
        self.sites.clone_from(&listing.sites);
        self.generation = listing.generation();
        let serving = self.sites.iter().filter(|site| site.device.check().is_ok());
        let engines: Vec<_> = serving.filter_map(|site| site.device.engine_events()).collect();
        let is_of = |all: &[Arc<EngineEvents>], one| all.iter().any(|other| Arc::ptr_eq(other, one));
        for gone in self.engines.iter().filter(|old| !is_of(&engines, old)) {
            epoll::delete(&self.poll, &**gone)?;
        }
        for new in engines.iter().filter(|new| !is_of(&self.engines, new)) {
            let token = epoll::EventData::new_u64(ENGINES);
            epoll::add(&self.poll, &**new, token, epoll::EventFlags::IN)?;
        }
        self.engines = engines;
        Ok(())
    }

    /// Serves until the crew is stopped.
    pub fn run(&mut self) {
        let mut events = Vec::with_capacity(EVENTS);
        let (mut now_ns, mut looks) = (monotonic_ns(), 0u32);
        while !self.crew.stop.load(Relaxed) {
            let turns = self.serve_hot(now_ns);
            looks = looks.wrapping_add(1);
            if matches!(turns, Turns::Idle) && !self.hot.is_empty() && !looks.is_multiple_of(LOOKS_BY_TIME) {
                continue;
            }
            now_ns = monotonic_ns();
            let between_ns = match turns {
                Turns::Busy => OTHERS_BEHIND_WORK_NS,
                Turns::Idle => OTHERS_NS,
                Turns::Waiting => {
                    std::thread::yield_now();
                    OTHERS_NS
                }
            };
            if self.has_commands_elsewhere() {
                self.advance(now_ns);
            }
            if !self.hot.is_empty() && now_ns.saturating_sub(self.others_ns) < between_ns {
                continue;
            }
            self.others_ns = now_ns;
            if self.wait(&mut events).is_err() || self.check().is_err() {
                self.fail();
                break;
            }
            now_ns = monotonic_ns();
            self.tick(now_ns);
        }
        let now_ns = monotonic_ns();
        for at in 0..self.seats.len() {
            if let Some(seat) = &mut self.seats[at] {
                seat.connection.end(Ended::Left, now_ns);
            }
            self.close(at);
        }
    }

    /// Whether any device can be used, and which there are.
    fn check(&mut self) -> io::Result<()> {
        let failed = self.sites.iter().filter(|site| site.device.check().is_err()).count();
        if failed != self.failed {
            self.note_failures(failed)?;
        }
        self.note_sites()
    }

    /// So many devices have failed by now: the others are served on.
    #[cold]
    fn note_failures(&mut self, failed: usize) -> io::Result<()> {
        if failed == self.sites.len() {
            return Err(io::Error::other("every device has failed"));
        }
        for site in self.sites.iter().filter(|site| site.take_failure()) {
            (self.crew.premises.tell)(Told::SubsystemFailed { subsystem: site.nqn.clone() });
        }
        // What their engines have done is nobody's any more.
        (self.failed, self.generation) = (failed, 0);
        Ok(())
    }

    /// Every device failed, or the system does.
    #[cold]
    fn fail(&self) {
        (self.crew.premises.tell)(Told::DeviceFailed);
        self.crew.stop();
    }

    /// Takes events: at once where connections are looked at anyway, else when there are any.
    fn wait(&mut self, events: &mut Vec<epoll::Event>) -> io::Result<()> {
        let is_idle = self.hot.is_empty() && !self.must_look();
        let timeout_ns = match (is_idle, self.seats.len() > self.free.len() || self.is_deaf) {
            (false, _) => Some(0),
            (true, true) => Some(TICK_NS),
            (true, false) => None,
        };
        let timeout = timeout_ns.map(|ns| Timespec { tv_sec: 0, tv_nsec: ns as i64 });
        let mut asleep_ns = if self.hot.is_empty() { Some(monotonic_ns()) } else { None };
        events.clear();
        match epoll::wait(&self.poll, spare_capacity(events), timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let now_ns = if events.is_empty() { 0 } else { monotonic_ns() };
        for event in events.iter() {
            match event.data.u64() {
                BELL => self.answer_bell(),
                ENGINES => self.advance(monotonic_ns()),
                token if token < FIRST_CONNECTION => self.accept((token - FIRST_LISTENER) as usize),
                token => {
                    if let Some(since_ns) = asleep_ns.take() {
                        self.patience.slept(now_ns - since_ns);
                    }
                    self.heat((token - FIRST_CONNECTION) as usize, now_ns);
                }
            }
        }
        Ok(())
    }

    /// Connections that others accepted, and completions that came by themselves.
    fn answer_bell(&mut self) {
        let crew = self.crew.clone();
        // Lowered before anything is looked at: what is left behind later raises it again.
        crew.inboxes[self.at].bell.lower();
        for (stream, place) in crew.inboxes[self.at].take() {
            self.seat(stream, place);
        }
        self.look_at_all(monotonic_ns());
    }

    /// Whether engines have commands.
    fn has_commands_elsewhere(&self) -> bool {
        self.sites.iter().any(|site| site.device.has_commands_elsewhere())
    }

    /// Whether there are engines with commands that tell nobody when they have done them.
    fn must_look(&self) -> bool {
        self.engines.iter().any(|engines| engines.any_silent()) && self.has_commands_elsewhere()
    }

    /// Completes what other engines have done, and sends what came of it.
    fn advance(&mut self, now_ns: u64) {
        let mut any = false;
        for site in &self.sites {
            any |= matches!(site.device.advance(), Ok(1..));
        }
        if !any {
            return;
        }
        if self.crew.inboxes.len() > 1 {
            // Connections of other threads.
            self.crew.ring();
        }
        for at in 0..self.seats.len() {
            let Some(seat) = &mut self.seats[at] else { continue };
            let goes_on = seat.connection.has_stash();
            if (seat.connection.waits() && seat.connection.look(now_ns)) || goes_on {
                self.heat(at, now_ns);
            }
        }
    }

    fn look_at_all(&mut self, now_ns: u64) {
        for at in 0..self.seats.len() {
            let Some(seat) = &mut self.seats[at] else { continue };
            if !seat.connection.waits() {
                continue;
            }
            seat.connection.look(now_ns);
            match seat.connection.is_over() {
                true => self.heat(at, now_ns),
                false => self.settle(at),
            }
        }
    }

    /// A turn of each connection that is looked at.
    fn serve_hot(&mut self, now_ns: u64) -> Turns {
        let (mut index, mut turns) = (0, Turns::Waiting);
        while let Some(at) = self.hot.get(index).copied() {
            let Some(Some(seat)) = self.seats.get_mut(at) else {
                self.hot.swap_remove(index);
                continue;
            };
            let turn = seat.connection.turn(&mut self.buffer, now_ns);
            match turn {
                Turn::Busy => {
                    turns = Turns::Busy;
                    seat.busy_ns = now_ns;
                    seat.turns += 1;
                    if seat.turns == TURNS_UNTOLD {
                        seat.forget(&self.poll);
                    }
                }
                Turn::Idle => match self.patience.next(now_ns.saturating_sub(seat.busy_ns)) {
                    Next::Look if matches!(turns, Turns::Waiting) => turns = Turns::Idle,
                    Next::Look => {}
                    Next::Yield if seat.connection.is_worth_looking_at() => {}
                    _ => {
                        seat.is_hot = false;
                        self.hot.swap_remove(index);
                        self.settle(at);
                        continue;
                    }
                },
                Turn::Closed => {
                    self.hot.swap_remove(index);
                    self.close(at);
                    continue;
                }
            }
            index += 1;
        }
        if self.hot.is_empty() { Turns::Idle } else { turns }
    }

    /// Counts what its connections are, and have moved.
    fn count(&mut self) {
        let counters = &self.crew.counters[self.at];
        let seats = self.seats.iter_mut().flatten();
        seats.for_each(|seat| counters.add(seat.connection.take_moved()));
        counters.set_states(self.seats.iter().flatten().map(|seat| seat.connection.state()));
    }

    /// Minds the time of each connection.
    fn tick(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.ticked_ns) < TICK_NS {
            return;
        }
        self.ticked_ns = now_ns;
        if self.is_deaf {
            self.listen(true);
        }
        self.look_at_all(now_ns);
        for at in 0..self.seats.len() {
            let Some(seat) = &mut self.seats[at] else { continue };
            let was_over = seat.connection.is_over();
            let is_done = seat.connection.mind(now_ns);
            match (is_done, seat.connection.is_over() && !was_over) {
                (true, _) => self.close(at),
                (_, true) => self.heat(at, now_ns),
                _ => self.settle(at),
            }
        }
        self.count();
    }
}
