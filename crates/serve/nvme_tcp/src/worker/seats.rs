//! The connections of a thread: how they come, how the thread waits for each, and how they go.

use std::io::ErrorKind;
use std::net::TcpStream;

use byway_sys::time::monotonic_ns;
use rustix::event::epoll;
use rustix::fd::{AsFd, OwnedFd};

use super::{FIRST_CONNECTION, Worker};
use crate::ended::Ended;
use crate::entrance::Listener;
use crate::options::Told;
use crate::premises::Place;
use crate::socket::Connection;
use crate::strangers::Stranger;
use crate::wire;

/// A connection, and how this thread waits for it.
pub(super) struct Seat {
    pub connection: Connection,
    /// Which of all that this thread had.
    pub number: u64,
    /// What the kernel tells of it; none: it is not asked to.
    pub interest: Option<epoll::EventFlags>,
    /// Something came over it at this time last.
    pub busy_ns: u64,
    /// So many turns that something came of, since it is looked at.
    pub turns: u32,
    pub is_hot: bool,
}

impl Seat {
    /// Has the kernel not tell of it any more.
    pub(super) fn forget(&mut self, poll: &OwnedFd) {
        if epoll::delete(poll, self.connection.wire()).is_ok() {
            self.interest = None;
        }
    }
}

impl Worker {
    /// Accepts those who have come.
    pub(super) fn accept(&mut self, at: usize) {
        let Some(listener) = self.crew.entrance.at(at) else { return };
        loop {
            match listener.socket.accept() {
                Ok((stream, from)) => {
                    if self.admit(stream, from, &listener).is_none() {
                        continue;
                    }
                }
                Err(error)
                    if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => return self.listen(false),
            }
        }
    }

    /// Gives a connection to the thread whose turn it is; nothing where there are too many, or it has gone already.
    fn admit(&mut self, stream: TcpStream, from: std::net::SocketAddr, by: &Listener) -> Option<()> {
        wire::prepare(&stream).ok()?;
        let place = Place { from, to: stream.local_addr().ok()?, port: by.port };
        let turn = self.crew.admit()?;
        match turn == self.at {
            true => self.seat(stream, place),
            false => self.crew.inboxes[turn].put(stream, place),
        }
        Some(())
    }

    /// Whether those who come are accepted.
    pub(super) fn listen(&mut self, is_on: bool) {
        self.is_deaf = !is_on;
        self.crew.entrance.set_open(is_on);
    }

    pub(super) fn seat(&mut self, stream: TcpStream, place: Place) {
        let now_ns = monotonic_ns();
        let at = self.free.pop().unwrap_or_else(|| {
            self.seats.push(None);
            self.seats.len() - 1
        });
        let interest = epoll::EventFlags::IN;
        let token = epoll::EventData::new_u64(FIRST_CONNECTION + at as u64);
        if epoll::add(&self.poll, stream.as_fd(), token, interest).is_err() {
            self.free.push(at);
            self.crew.dismiss();
            return;
        }
        let connection = Connection::new(stream, self.crew.premises.clone(), place, now_ns);
        let (interest, number) = (Some(interest), self.came);
        self.came += 1;
        self.seats[at] =
            Some(Seat { connection, number, interest, busy_ns: now_ns, turns: 0, is_hot: false });
        self.heat(at, now_ns);
        self.make_room_for(Stranger { at, number }, now_ns);
    }

    /// Has the oldest of those who are connected to nothing go, where there are too many with this one.
    fn make_room_for(&mut self, new: Stranger, now_ns: u64) {
        let Self { strangers, seats, .. } = self;
        let has = |seat: &Seat, one: &Stranger| seat.number == one.number && seat.connection.is_stranger();
        let is_one = |one: &Stranger| matches!(seats.get(one.at), Some(Some(seat)) if has(seat, one));
        let Some(Stranger { at, .. }) = strangers.add(new, is_one) else { return };
        if let Some(Some(seat)) = self.seats.get_mut(at) {
            seat.connection.end(Ended::Crowded, now_ns);
        }
        self.close(at);
    }

    /// Something is to be done for a connection.
    pub(super) fn heat(&mut self, at: usize, now_ns: u64) {
        if let Some(Some(seat)) = self.seats.get_mut(at) {
            // One that is looked at already is not busy by being told of: its host may take nothing.
            if !std::mem::replace(&mut seat.is_hot, true) {
                (seat.busy_ns, seat.turns) = (now_ns, 0);
                self.hot.push(at);
            }
        }
    }

    /// Waits for what a connection that is not looked at needs next.
    pub(super) fn settle(&mut self, at: usize) {
        let Some(Some(seat)) = self.seats.get_mut(at) else { return };
        let mut interest = epoll::EventFlags::empty();
        interest.set(epoll::EventFlags::IN, seat.connection.wants_more());
        interest.set(epoll::EventFlags::OUT, seat.connection.has_more());
        if seat.interest != Some(interest) && !seat.is_hot {
            let token = epoll::EventData::new_u64(FIRST_CONNECTION + at as u64);
            let stream = seat.connection.wire();
            let told = match seat.interest {
                Some(_) => epoll::modify(&self.poll, stream, token, interest),
                None => epoll::add(&self.poll, stream, token, interest),
            };
            seat.interest = told.is_ok().then_some(interest).or(seat.interest);
        }
    }

    pub(super) fn close(&mut self, at: usize) {
        let Some(mut seat) = self.seats.get_mut(at).and_then(Option::take) else { return };
        self.hot.retain(|hot| *hot != at);
        // Closing takes it out too; a descriptor that is gone already is no matter.
        let _ = epoll::delete(&self.poll, seat.connection.wire());
        if let Some(why) = seat.connection.why() {
            let (from, why) = (seat.connection.from(), why.to_string());
            (self.crew.premises.tell)(Told::ConnectionEnded { from, why });
        }
        self.crew.counters[self.at].add(seat.connection.take_moved());
        seat.connection.ended().into_iter().for_each(|why| self.crew.premises.rare.end(why));
        self.crew.dismiss();
        self.free.push(at);
        if self.free.len() == self.seats.len() {
            // Nobody looks at the time any more.
            self.count();
        }
    }
}
