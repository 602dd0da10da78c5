//! A queue of a controller at a TCP address: a connection of its own.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use byway_core::encode::{self, Encoded};
use byway_core::moves::{Layout, check_command};
use byway_core::{
    BackendQueue, Command, Deadline, Error, ErrorKind, Failed, Finished, KvCommand, NvmCommand, Outcome,
    QueueOptions, Refused, Result,
};
use byway_sys::idle::Next;
use byway_sys::time::monotonic_ns;
use byway_sys::{Alarm, Patience};
use rustix::event::epoll;

use crate::association::{Post, Seat, gone};
use crate::attach::{outcome, way_of};
use crate::connection::{Ended, Order};
use crate::device::Owner;
use crate::line::Line;

/// Bytes that are put together at most before they are sent, if nobody looks earlier.
const GATHERED_BYTES_MAX: u64 = 128 << 10;

/// So many looks in vain by one reading of the clock.
const LOOKS_BY_TIME: u32 = 8;

/// How long a controller has to answer an Abort by ending its command, before the connection is given up with it.
const ABORT_TIME: Duration = Duration::from_secs(5);

/// A queue of a controller at a TCP address.
pub struct TcpQueue {
    line: Line,
    seat: Arc<Seat>,
    /// Of which connections this is.
    generation: u64,
    /// Finished, and put aside while a call waited for its own.
    ready: VecDeque<Finished>,
    /// Calls that nobody waits for any more.
    left_calls: u32,
    next_call: u64,
    /// Aborts on their way, by the command that they name.
    aborts: Vec<(u16, Arc<AtomicBool>)>,
    has_deadlines: bool,
    patience: Patience,
    seen_layout: Option<Seen>,
    listening: Option<Listening>,
    /// There is no controller any more, and why.
    gone: Option<String>,
    depth: u32,
    timeout: Duration,
    /// Dropped last: with the last queue, the keeper leaves the controller.
    owner: Arc<Owner>,
}

/// The layout that was looked up last.
#[derive(Debug, Clone, Copy)]
struct Seen {
    epoch: u64,
    nsid: u32,
    layout: Layout,
}

/// What a program waits by: the socket, the keeper's post and the next time that is over.
struct Listening {
    both: OwnedFd,
    alarm: Alarm,
    /// The socket is asked for room to send as well.
    for_room: bool,
}

impl TcpQueue {
    pub(crate) fn open(owner: Arc<Owner>, options: QueueOptions) -> Result<Self> {
        let generation = owner.association.generation();
        let (seat, line) = owner.association.open_queue(options.depth)?;
        Ok(Self {
            line,
            seat,
            generation,
            ready: VecDeque::with_capacity(options.depth as usize),
            left_calls: 0,
            next_call: 0,
            aborts: Vec::new(),
            has_deadlines: false,
            patience: Patience::new(owner.association.peer.options.idle),
            seen_layout: None,
            listening: None,
            gone: None,
            depth: options.depth,
            timeout: options.timeout,
            owner,
        })
    }

    #[inline]
    fn layout(&mut self, nsid: u32) -> Result<Layout> {
        let association = &self.owner.association;
        match self.seen_layout {
            Some(seen) if seen.nsid == nsid && seen.epoch == association.layouts.epoch() => Ok(seen.layout),
            _ => self.look_up_layout(nsid),
        }
    }

    #[cold]
    fn look_up_layout(&mut self, nsid: u32) -> Result<Layout> {
        let (epoch, layout) = self.owner.association.layout(nsid)?;
        self.seen_layout = Some(Seen { epoch, nsid, layout });
        Ok(layout)
    }

    /// The command as an order, if the controller can be given it.
    #[inline]
    fn order(&mut self, command: &Command, tag: u64, is_call: bool) -> Result<Order> {
        encode::check(command)?;
        let encoded = encode::encode(command);
        let most = self.owner.association.facts.capabilities.limits.transfer_bytes;
        let len = encoded.data.len() as u64;
        if len > most {
            return Err(too_large(len, most));
        }
        if let Command::Kv(KvCommand::BulkStore { .. }) = command {
            return Err(Error::host(ErrorKind::Unsupported, "bulk stores are not carried over TCP"));
        }
        check_command(command, &encoded, |nsid| self.layout(nsid))?;
        let Encoded { entry, data } = encoded;
        let way = way_of(&data);
        Ok(Order { tag, is_call, entry, way, is_whole: is_whole(command), repeats: repeats(command) })
    }

    #[inline]
    fn take(&mut self, command: Command, tag: u64, until: Option<Instant>) -> Result<(), Refused> {
        if self.outstanding() >= self.depth {
            return Err(Refused { command, error: full(self.depth) });
        }
        if let Some(why) = &self.gone {
            let error = gone(why);
            return Err(Refused { command, error });
        }
        let order = match self.order(&command, tag, false) {
            Ok(order) => order,
            Err(error) => return Err(Refused { command, error }),
        };
        // Aborts that are on their way may withhold identifiers.
        if !self.line.connection.has_room() {
            return Err(Refused { command, error: full(self.depth) });
        }
        let Ok(cid) = self.line.connection.begin(order, command.into_payload()) else { return Ok(()) };
        if let Some(until) = until {
            self.line.connection.set_until(cid, until);
            self.has_deadlines = true;
        }
        if self.line.connection.unsent_bytes() > GATHERED_BYTES_MAX {
            self.flush();
        }
        Ok(())
    }

    /// Sends what is put together; a connection that has ended is told of to the keeper.
    #[inline]
    fn flush(&mut self) {
        if self.line.has_unsent()
            && self.line.connection.is_open()
            && let Err(error) = self.line.flush()
        {
            self.lost(&error);
        }
    }

    /// The connection has ended: another one is the keeper's to make.
    #[cold]
    fn lost(&mut self, error: &Error) {
        let why = error.to_string();
        if let Some(listening) = &self.listening {
            // A socket that has ended can be read for ever, and nobody is to be woken by that. It fails where it is not listened to.
            let _ = epoll::delete(&listening.both, self.line.stream());
        }
        self.line.stream().close();
        self.line.connection.interrupt(&why);
        self.owner.association.report(self.generation, &why);
        self.forget_aborts();
    }

    /// The Aborts were of a connection that is no more.
    fn forget_aborts(&mut self) {
        for (cid, _) in std::mem::take(&mut self.aborts) {
            self.line.connection.unname(cid);
        }
    }

    /// Sends, receives, and does what has become due; says whether anything came.
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
                self.lost(&error);
                true
            }
        };
        if self.has_deadlines || !self.aborts.is_empty() {
            self.tend();
        }
        came
    }

    #[cold]
    fn look_for_post(&mut self) {
        match self.seat.take_post() {
            Post::Nothing => self.tend(),
            Post::Line(line) => self.go_on(*line),
            Post::Gone(why) => {
                self.line.connection.abandon(&why);
                self.gone = Some(why);
            }
        }
    }

    /// Goes on with what waits on another connection.
    fn go_on(&mut self, line: Line) {
        self.generation = self.owner.association.generation();
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
        let connection = &mut self.line.connection;
        self.aborts.retain(|(cid, answered)| {
            let is_answered = answered.load(Ordering::Acquire);
            if is_answered {
                connection.unname(*cid);
            }
            !is_answered
        });
        let now = Instant::now();
        while let Some(cid) = self.line.connection.overdue(now) {
            if self.line.connection.is_given_up(cid) {
                let said = "the controller neither did nor aborted a command";
                return self.lost(&Error::device(ErrorKind::TimedOut, said));
            }
            self.give_up(cid, ErrorKind::TimedOut);
        }
        self.has_deadlines = self.line.connection.first_until().is_some();
    }

    fn give_up(&mut self, cid: u16, kind: ErrorKind) {
        let until = Instant::now() + ABORT_TIME;
        if self.line.connection.give_up(cid, kind, Some(until)) {
            self.has_deadlines = true;
            self.flush();
            let answered = self.owner.association.abort(&self.seat, cid);
            self.aborts.push((cid, answered));
        }
    }

    /// The next finished command that a program waits for; ends of calls that nobody waits for are dropped.
    #[inline]
    fn take_finished(&mut self) -> Option<Finished> {
        if let Some(finished) = self.ready.pop_front() {
            return Some(finished);
        }
        while let Some(ended) = self.line.connection.next_ended() {
            if !ended.is_call {
                return Some(finished(ended));
            }
            self.left_calls -= 1;
        }
        None
    }

    fn is_ready(&mut self) -> bool {
        if self.ready.is_empty()
            && let Some(finished) = self.take_finished()
        {
            self.ready.push_back(finished);
        }
        !self.ready.is_empty()
    }

    /// Sleeps until something may have come.
    fn doze(&mut self, timeout: Duration) -> Result<()> {
        let left = self.line.connection.first_until().filter(|_| self.has_deadlines);
        let left = left.map(|until| until.saturating_duration_since(Instant::now()));
        let timeout = left.map_or(timeout, |left| left.min(timeout));
        let seat = Some(self.seat.wakeup.as_fd());
        let is_called = if self.line.connection.is_open() {
            self.line.wait(seat, timeout)?.other
        } else {
            // A socket that has ended can always be read.
            let waited = self.seat.wakeup.wait(timeout);
            waited.map_err(|cause| Error::kernel("waiting for a connection failed", cause))?
        };
        if is_called {
            self.seat.wakeup.lower();
        }
        Ok(())
    }

    /// Looks, a little while, then sleeps, until `is` holds or the time is over; says whether it does.
    fn wait_until(&mut self, deadline: Deadline, mut is: impl FnMut(&mut Self) -> bool) -> Result<bool> {
        let (mut begun_ns, mut slept_ns, mut looks) = (0, 0, 0u32);
        loop {
            self.look();
            if is(self) {
                if slept_ns > 0 {
                    self.patience.slept(slept_ns);
                }
                return Ok(true);
            }
            looks = looks.wrapping_add(1);
            // The first look sends: no clock is read before.
            if looks % LOOKS_BY_TIME != 1 {
                continue;
            }
            let now_ns = monotonic_ns();
            begun_ns = if begun_ns == 0 { now_ns } else { begun_ns };
            match self.patience.next(now_ns - begun_ns) {
                Next::Look => {}
                Next::Yield if !deadline.is_over() => std::thread::yield_now(),
                _ => {
                    let left = deadline.left_or_max();
                    if left.is_zero() {
                        return Ok(false);
                    }
                    self.doze(left)?;
                    begun_ns = monotonic_ns();
                    (slept_ns, looks) = (begun_ns - now_ns, 0);
                }
            }
        }
    }

    /// Takes what has ended up to the call that is waited for; the ends of others are put aside.
    fn take_call(&mut self, call: u64) -> Option<Ended> {
        while let Some(ended) = self.line.connection.next_ended() {
            match ended.is_call {
                true if ended.tag == call => return Some(ended),
                true => self.left_calls -= 1,
                false => self.ready.push_back(finished(ended)),
            }
        }
        None
    }

    /// Makes the descriptor that a program waits by.
    fn listen(&mut self) -> std::io::Result<()> {
        let both = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let for_room = self.line.has_unsent();
        let flags = listening_flags(for_room);
        let data = epoll::EventData::new_u64(0);
        if self.line.connection.is_open() {
            epoll::add(&both, self.line.stream(), data, flags)?;
        }
        epoll::add(&both, &self.seat.wakeup, data, epoll::EventFlags::IN)?;
        let alarm = Alarm::beside(both.as_fd())?;
        self.listening = Some(Listening { both, alarm, for_room });
        Ok(())
    }

    /// The program is going to wait by the descriptor: it can be read when there is something to come for.
    #[cold]
    fn prepare_to_wait(&mut self) {
        self.seat.wakeup.lower();
        // What came before it was lowered is seen here.
        self.look();
        let is_ready = self.is_ready();
        let left = self.line.connection.first_until().filter(|_| self.has_deadlines);
        let Some(listening) = &mut self.listening else { return };
        listening.alarm.set(left.map(|until| until.saturating_duration_since(Instant::now())));
        if is_ready {
            self.seat.wakeup.raise();
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

#[inline]
fn finished(ended: Ended) -> Finished {
    Finished { tag: ended.tag, result: outcome(ended) }
}

/// Whether success with less data than there is room for is none.
fn is_whole(command: &Command) -> bool {
    matches!(command, Command::Nvm(NvmCommand::Read { .. } | NvmCommand::ReadVectored { .. }))
}

/// Whether a command that may have been done can be sent once more: what it does changes nothing. Not so a Flush, which
/// would say of a controller that lost what it had not written that all of it is safe.
fn repeats(command: &Command) -> bool {
    match command {
        Command::Nvm(command) => matches!(
            command,
            NvmCommand::Read { .. }
                | NvmCommand::ReadVectored { .. }
                | NvmCommand::Compare { .. }
                | NvmCommand::Verify { .. }
        ),
        Command::Kv(command) => {
            matches!(command, KvCommand::Retrieve { .. } | KvCommand::List { .. } | KvCommand::Exist { .. })
        }
        Command::Raw(_) => false,
    }
}

#[cold]
fn full(depth: u32) -> Error {
    let said = format!("{depth} commands are outstanding, as many as the queue is deep");
    Error::host(ErrorKind::QueueFull, said)
}

#[cold]
fn too_large(len: u64, most: u64) -> Error {
    let said = format!("data of {len} bytes is over the controller's limit of {most} bytes");
    Error::host(ErrorKind::TooLarge, said)
}

impl BackendQueue for TcpQueue {
    #[inline]
    fn submit(&mut self, command: Command, tag: u64) -> Result<(), Refused> {
        self.take(command, tag, None)
    }

    /// When its time is over the controller is told to abort it. It fails as out of time, unless the controller does it all
    /// the same. One that neither does nor aborts it in five seconds more loses the connection.
    fn submit_within(&mut self, command: Command, tag: u64, timeout: Duration) -> Result<(), Refused> {
        // A time that no clock can tell is never over.
        self.take(command, tag, Instant::now().checked_add(timeout))
    }

    fn start(&mut self) -> Result<()> {
        self.flush();
        if self.listening.is_some() {
            self.prepare_to_wait();
        }
        Ok(())
    }

    fn event(&mut self) -> Result<BorrowedFd<'_>> {
        if self.listening.is_none() {
            self.listen().map_err(|cause| Error::kernel("no descriptor for completions", cause))?;
            self.prepare_to_wait();
        }
        let listening = self.listening.as_ref();
        listening
            .map(|listening| listening.alarm.as_fd())
            .ok_or_else(|| Error::host(ErrorKind::System, "no descriptor for completions"))
    }

    #[inline]
    fn next_finished(&mut self) -> Result<Option<Finished>> {
        loop {
            if let Some(finished) = self.take_finished() {
                return Ok(Some(finished));
            }
            if !self.look() {
                break;
            }
        }
        if self.listening.is_some() {
            self.prepare_to_wait();
        }
        Ok(self.take_finished())
    }

    #[inline]
    fn next_within(&mut self, timeout: Duration) -> Result<Option<Finished>> {
        let mut found = self.take_finished();
        if found.is_none() && self.outstanding() > 0 {
            self.wait_until(Deadline::after(timeout), |queue| {
                found = queue.take_finished();
                found.is_some()
            })?;
        }
        Ok(found)
    }

    fn sleep(&mut self, timeout: Duration) -> Result<bool> {
        if self.is_ready() || self.outstanding() == 0 {
            return Ok(!self.ready.is_empty());
        }
        self.wait_until(Deadline::after(timeout), Self::is_ready)
    }

    fn cancel(&mut self, tag: u64) -> Result<()> {
        if self.ready.iter().any(|finished| finished.tag == tag) || self.line.connection.has_ended_with(tag) {
            return Ok(());
        }
        match self.line.connection.find(tag) {
            Some(cid) => {
                self.give_up(cid, ErrorKind::Cancelled);
                Ok(())
            }
            None => {
                Err(Error::host(ErrorKind::NotFound, format!("no command with tag {tag} is outstanding")))
            }
        }
    }

    #[inline]
    fn outstanding(&self) -> u32 {
        self.line.connection.outstanding() + self.ready.len() as u32 - self.left_calls
    }

    fn depth(&self) -> u32 {
        self.depth
    }

    fn execute(&mut self, command: Command) -> Result<Outcome> {
        if let Some(why) = &self.gone {
            return Err(gone(why));
        }
        if self.outstanding() >= self.depth {
            return Err(full(self.depth));
        }
        self.next_call += 1;
        let call = self.next_call;
        let order = self.order(&command, call, true)?;
        if self.line.connection.begin(order, command.into_payload()).is_err() {
            return Err(full(self.depth));
        }
        let mut ended = None;
        let done = self.wait_until(Deadline::after(self.timeout), |queue| {
            ended = queue.take_call(call);
            ended.is_some()
        })?;
        match ended.filter(|_| done) {
            Some(ended) => outcome(ended).map_err(|Failed { error, .. }| error),
            None => {
                self.left_calls += 1;
                Err(Error::device(ErrorKind::TimedOut, "the controller does not answer"))
            }
        }
    }
}

impl Drop for TcpQueue {
    /// What is outstanding is left to the controller: its memory is this process's alone, which no controller can write.
    fn drop(&mut self) {
        self.flush();
        self.owner.association.leave(&self.seat);
    }
}
