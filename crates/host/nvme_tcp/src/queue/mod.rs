//! A queue of a controller at a TCP address: a connection of its own.

mod path;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use byway_core::{
    BackendQueue, Command, Error, ErrorKind, Finished, Outcome, Payload, QueueOptions, Refused, Result,
};
use byway_sys::Alarm;
use rustix::event::epoll;

use crate::abort::Abort;
use crate::association::{Opened, Post, Registration};
use crate::connection::{Ended, Order};
use crate::device::Owner;
use crate::line::Line;
use crate::order::{SeenLayout, order_of_io};
use crate::pairs::Pairs;
use crate::poller::{Poller, Waits, as_it_waits, not_outstanding};
use crate::result::queue_lost;

/// Most bytes that are gathered before they are sent, unless the queue is polled earlier.
const GATHERED_BYTES_MAX: u64 = 128 << 10;

/// How long a controller has to answer an Abort by ending its command, before the connection is given up with it.
const ABORT_TIME: Duration = Duration::from_secs(5);

/// A queue of a controller at a TCP address.
pub struct TcpQueue {
    line: Line,
    registration: Arc<Registration>,
    /// Of which connections this is.
    generation: u64,
    poller: Poller,
    pairs: Pairs,
    /// Aborts on their way, by the command that they name.
    aborts: Vec<Aborting>,
    has_deadlines: bool,
    seen_layout: SeenLayout,
    listening: Option<Listening>,
    /// There will be no connection any more: a sentence says why.
    gone: Option<String>,
    depth: u32,
    timeout: Duration,
    /// Dropped last: with the last queue, the admin thread closes the association.
    owner: Arc<Owner>,
}

/// A command whose Abort is on its way.
struct Aborting {
    cid: u16,
    abort: Arc<Abort>,
    /// The controller's time to answer it has begun.
    is_sent: bool,
}

/// The event descriptor: the socket, messages of the admin thread and the next deadline.
struct Listening {
    both: OwnedFd,
    alarm: Alarm,
    /// The socket is asked for room to send as well.
    for_room: bool,
}

impl TcpQueue {
    pub(crate) fn open(owner: Arc<Owner>, options: QueueOptions) -> Result<Self> {
        let opened = owner.association.open_queue(options.depth.commands())?;
        Ok(Self::of(owner, opened, options))
    }

    pub(crate) fn of(owner: Arc<Owner>, opened: Opened, options: QueueOptions) -> Self {
        let Opened { registration, line, generation } = opened;
        Self {
            line,
            registration,
            generation,
            poller: Poller::new(options.depth.commands(), owner.association.peer.options.idle),
            pairs: Pairs::default(),
            aborts: Vec::new(),
            has_deadlines: false,
            seen_layout: SeenLayout::default(),
            listening: None,
            gone: None,
            depth: options.depth.commands(),
            timeout: options.timeout,
            owner,
        }
    }

    /// Commands that the controller has, or that wait to be taken.
    #[inline]
    fn held(&self) -> u32 {
        self.line.connection.outstanding() + self.poller.ready.len() as u32
    }

    /// Whether there is room for another command. A call that timed out keeps its place until it is answered, or the controller
    /// would have more commands than the queue is deep.
    #[inline]
    fn has_place(&mut self) -> bool {
        self.held() < self.depth || (self.poller.left_calls > 0 && self.has_place_now())
    }

    /// Polls for the answers of calls that timed out, which no caller waits for.
    #[cold]
    fn has_place_now(&mut self) -> bool {
        self.look();
        self.is_ready();
        self.held() < self.depth
    }

    /// The command as an order, if the controller can be given it.
    #[inline]
    fn order(&mut self, command: &Command, tag: u64, is_call: bool) -> Result<Order> {
        let (association, seen) = (&self.owner.association, &mut self.seen_layout);
        let layout = |nsid| seen.of(nsid, &association.layouts, |_| association.layout(nsid));
        order_of_io(command, tag, is_call, &association.facts().capabilities, layout)
    }

    #[inline]
    fn take(&mut self, command: Command, tag: u64, until: Option<Instant>) -> Result<(), Refused> {
        if !self.has_place() {
            return Err(Refused { command, error: full(self.depth) });
        }
        if let Some(why) = &self.gone {
            let error = queue_lost(why);
            return Err(Refused { command, error });
        }
        let order = match self.order(&command, tag, false) {
            Ok(order) => order,
            Err(error) => return Err(Refused { command, error }),
        };
        // Aborts that are on their way may withhold identifiers.
        if order.is_pair && self.depth < 2 {
            return Err(Refused { command, error: too_shallow() });
        }
        if !self.has_room(&order) {
            return Err(Refused { command, error: full(self.depth) });
        }
        // There is room.
        let _ = self.begin(order, command.into_payload(), until);
        Ok(())
    }

    /// Whether the controller can be given the command beside what it has. Aborts that are on their way may withhold identifiers.
    #[inline]
    fn has_room(&self, order: &Order) -> bool {
        let commands = 1 + u32::from(order.is_pair);
        self.line.connection.outstanding() + commands <= self.depth
            && self.line.connection.has_room(commands as usize)
    }

    /// Begins a command; gives its data back where there is no room for it.
    #[inline]
    pub(crate) fn begin(
        &mut self,
        order: Order,
        payload: Payload,
        until: Option<Instant>,
    ) -> Result<(), Payload> {
        if !self.has_room(&order) {
            return Err(payload);
        }
        if order.is_pair {
            return self.begin_pair(order, payload, until);
        }
        self.begin_one(order, payload, until)?;
        if self.line.connection.unsent_bytes() > GATHERED_BYTES_MAX {
            self.flush();
        }
        Ok(())
    }

    #[inline]
    fn begin_one(&mut self, order: Order, payload: Payload, until: Option<Instant>) -> Result<(), Payload> {
        let cid = self.line.connection.begin(order, payload)?;
        if let Some(until) = until {
            self.line.connection.set_until(cid, until);
            self.has_deadlines = true;
        }
        Ok(())
    }

    /// Begins two fused commands, for which there is room: nothing comes between them.
    #[cold]
    fn begin_pair(&mut self, order: Order, payload: Payload, until: Option<Instant>) -> Result<(), Payload> {
        let calls = [self.poller.next_call(), self.poller.next_call()];
        for (order, payload) in self.pairs.take(order, payload, calls) {
            self.begin_one(order, payload, until)?;
        }
        Ok(())
    }

    /// Sends the gathered commands; reports an ended connection to the admin thread.
    #[inline]
    pub(crate) fn flush(&mut self) {
        if self.line.has_unsent()
            && self.line.connection.is_open()
            && let Err(error) = self.line.flush()
        {
            self.end_connection(&error);
        }
    }

    /// The connection has ended: the admin thread reconnects.
    #[cold]
    fn end_connection(&mut self, error: &Error) {
        let why = error.to_string();
        if let Some(listening) = &self.listening {
            // A socket that has ended stays readable, which must wake no event loop. Removing it fails where it was not added.
            let _ = epoll::delete(&listening.both, self.line.stream());
        }
        self.line.stream().close();
        self.line.connection.interrupt(&why);
        self.owner.association.report(self.generation, &why);
        self.forget_aborts();
    }

    /// Drops the Aborts of a connection that has ended.
    fn forget_aborts(&mut self) {
        for Aborting { cid, abort, .. } in std::mem::take(&mut self.aborts) {
            abort.withdraw();
            self.line.connection.unname(cid);
        }
    }

    #[cold]
    fn look_for_post(&mut self) {
        match self.registration.take_post() {
            Post::Nothing => self.tend(),
            Post::Line(line, generation) => self.go_on(*line, generation),
            Post::Gone(why) => {
                self.line.connection.abandon(&why);
                self.gone = Some(why);
            }
        }
    }

    /// Goes on with what waits on another connection.
    fn go_on(&mut self, line: Line, generation: u64) {
        self.generation = generation;
        self.line.channel = line.channel;
        self.line.connection.resume(line.connection);
        if let Some(listening) = &mut self.listening {
            listening.for_room = true;
            let data = epoll::EventData::new_u64(0);
            // The descriptor stays the same. The kernel has room for one socket where it had room for another.
            let _ = epoll::add(&listening.both, self.line.stream(), data, listening_flags(true));
        }
        self.flush();
    }

    /// Gives up what has had its time.
    #[cold]
    fn tend(&mut self) {
        let now = Instant::now();
        self.follow_aborts(now);
        while let Some(cid) = self.line.connection.overdue(now) {
            if self.line.connection.is_given_up(cid) {
                let said = "the controller neither did nor aborted a command";
                return self.end_connection(&Error::device(ErrorKind::TimedOut, said));
            }
            self.give_up(cid, ErrorKind::TimedOut);
        }
        self.has_deadlines = self.line.connection.first_until().is_some();
    }

    /// Starts the timeout of sent Aborts, removes ended ones, and withdraws unsent ones whose command has ended.
    fn follow_aborts(&mut self, now: Instant) {
        let connection = &mut self.line.connection;
        self.aborts.retain_mut(|Aborting { cid, abort, is_sent }| {
            if abort.is_over() || (!connection.is_outstanding(*cid) && abort.withdraw()) {
                connection.unname(*cid);
                return false;
            }
            if !*is_sent {
                *is_sent = !abort.waits();
                connection.set_until(*cid, now + ABORT_TIME);
            }
            true
        });
    }

    /// Gives up the command, or the call, with this tag; whether there is one.
    pub(crate) fn give_up_tagged(&mut self, tag: u64, is_call: bool, kind: ErrorKind) -> bool {
        if let Some(calls) = self.pairs.find(tag, is_call) {
            for call in calls {
                self.give_up_tagged(call, true, kind);
            }
            return true;
        }
        let found = self.line.connection.find(tag, is_call);
        found.into_iter().for_each(|cid| self.give_up(cid, kind));
        found.is_some()
    }

    /// Has an Abort sent for a command, once.
    fn give_up(&mut self, cid: u16, kind: ErrorKind) {
        if self.line.connection.is_given_up(cid) {
            return;
        }
        let until = Instant::now() + ABORT_TIME;
        if self.line.connection.give_up(cid, kind, Some(until)) {
            self.has_deadlines = true;
            self.flush();
            let abort = self.owner.association.abort(&self.registration, cid, self.generation);
            self.aborts.push(Aborting { cid, abort, is_sent: false });
        }
    }

    /// From here on the queue's wakeup is raised for what is new.
    pub(crate) fn clear_notifier(&self) {
        self.registration.wakeup().lower();
    }

    /// Arms the descriptor for later events, or for those that have come.
    pub(crate) fn arm(&mut self, is_ready: bool) {
        let left = self.time_left();
        let Some(listening) = &mut self.listening else { return };
        listening.alarm.set(left);
        if is_ready {
            self.registration.wakeup().raise();
        }
        let for_room = self.line.has_unsent();
        if self.line.connection.is_open() && for_room != listening.for_room {
            listening.for_room = for_room;
            let data = epoll::EventData::new_u64(0);
            let flags = listening_flags(for_room);
            // The socket is there for as long as the connection is open.
            let _ = epoll::modify(&listening.both, self.line.stream(), data, flags);
        }
    }
}

fn listening_flags(for_room: bool) -> epoll::EventFlags {
    match for_room {
        true => epoll::EventFlags::IN | epoll::EventFlags::OUT,
        false => epoll::EventFlags::IN,
    }
}

#[cold]
pub(crate) fn too_shallow() -> Error {
    Error::host(ErrorKind::InvalidArgument, "two fused commands need a queue that is two deep")
}

#[cold]
pub(crate) fn full(depth: u32) -> Error {
    let said = format!("{depth} commands are outstanding, as many as the queue is deep");
    Error::host(ErrorKind::QueueFull, said)
}

impl Waits for TcpQueue {
    #[inline]
    fn poller(&mut self) -> &mut Poller {
        &mut self.poller
    }

    #[inline]
    fn next_ended(&mut self) -> Option<Ended> {
        loop {
            let ended = self.line.connection.next_ended()?;
            if self.pairs.is_empty() {
                return Some(ended);
            }
            if let Some(ended) = self.pairs.join(ended) {
                return Some(ended);
            }
        }
    }

    fn flush_all(&mut self) {
        self.flush();
    }

    #[inline]
    fn look(&mut self) -> bool {
        self.flush();
        if !self.line.connection.is_open() {
            self.look_for_post();
            return self.line.connection.has_ended();
        }
        let came = match self.line.receive() {
            Ok(came) => came,
            Err(error) => {
                self.end_connection(&error);
                true
            }
        };
        if self.has_deadlines || !self.aborts.is_empty() {
            self.tend();
        }
        came
    }

    fn park(&mut self, timeout: Duration) -> Result<()> {
        let timeout = self.time_left().map_or(timeout, |left| left.min(timeout));
        let registration = Some(self.registration.wakeup().as_fd());
        let is_called = if self.line.connection.is_open() {
            self.line.wait(registration, timeout)?.other
        } else {
            // A socket that has ended can always be read.
            let waited = self.registration.wakeup().wait(timeout);
            waited.map_err(|cause| Error::kernel("waiting for a connection failed", cause))?
        };
        if is_called {
            self.registration.wakeup().lower();
        }
        Ok(())
    }

    #[inline]
    fn listened(&self) -> Option<BorrowedFd<'_>> {
        self.listening.as_ref().map(|listening| listening.alarm.as_fd())
    }

    fn listen(&mut self) -> std::io::Result<()> {
        let both = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let for_room = self.line.has_unsent();
        let flags = listening_flags(for_room);
        let data = epoll::EventData::new_u64(0);
        if self.line.connection.is_open() {
            epoll::add(&both, self.line.stream(), data, flags)?;
        }
        epoll::add(&both, self.registration.wakeup(), data, epoll::EventFlags::IN)?;
        let alarm = Alarm::beside(both.as_fd())?;
        self.listening = Some(Listening { both, alarm, for_room });
        Ok(())
    }

    #[cold]
    fn prepare_to_wait(&mut self) {
        self.clear_notifier();
        // What came before it was lowered is seen here.
        self.look();
        let is_ready = self.is_ready();
        self.arm(is_ready);
    }

    #[cold]
    fn give_up_call(&mut self, call: u64) {
        self.give_up_tagged(call, true, ErrorKind::TimedOut);
    }
}

impl BackendQueue for TcpQueue {
    /// At its deadline an Abort is sent. It fails as timed out, unless the controller executes it all
    /// the same. One that neither does nor aborts it in five seconds more loses the connection.
    #[inline]
    fn submit_within(&mut self, command: Command, tag: u64, limit: Option<Duration>) -> Result<(), Refused> {
        // A deadline beyond the clock's range never passes.
        self.take(command, tag, limit.and_then(|limit| Instant::now().checked_add(limit)))
    }

    as_it_waits!();

    fn cancel(&mut self, tag: u64) -> Result<()> {
        let is_finished = self.poller.ready.iter().any(|finished| finished.tag == tag);
        if is_finished || self.line.connection.has_ended_with(tag) {
            return Ok(());
        }
        match self.give_up_tagged(tag, false, ErrorKind::Cancelled) {
            true => Ok(()),
            false => Err(not_outstanding(tag)),
        }
    }

    #[inline]
    fn outstanding(&self) -> u32 {
        self.held() - self.pairs.extra() - self.poller.left_calls
    }

    fn execute(&mut self, command: Command) -> Result<Outcome> {
        if let Some(why) = &self.gone {
            return Err(queue_lost(why));
        }
        if !self.has_place() {
            return Err(full(self.depth));
        }
        let call = self.poller.next_call();
        let order = self.order(&command, call, true)?;
        if order.is_pair && self.depth < 2 {
            return Err(too_shallow());
        }
        if self.begin(order, command.into_payload(), None).is_err() {
            return Err(full(self.depth));
        }
        self.wait_for_call(call, self.timeout)
    }
}

impl Drop for TcpQueue {
    /// What is outstanding is left to the controller: its memory is this process's alone, which no controller can write.
    fn drop(&mut self) {
        if !self.owner.process.is_current() {
            return;
        }
        self.flush();
        // Withdraw unsent Aborts: another queue may get this queue identifier soon.
        for aborting in &self.aborts {
            aborting.abort.withdraw();
        }
        self.owner.association.leave(&self.registration);
    }
}
