//! What the admin thread and the users of an association share under its lock.

use std::collections::VecDeque;
use std::sync::Arc;

use byway_core::{Error, ErrorKind, Result};
use byway_fabrics::ControllerId;

use super::registration::Registration;
use super::registrations::Registrations;
use super::request::Request;
use crate::facts::Facts;
use crate::result::gone;

/// A controller that is connected to, and what it says of itself now.
#[derive(Clone)]
pub(super) struct Found {
    pub controller: ControllerId,
    pub facts: Arc<Facts>,
}

/// What the admin thread and the users of an association share under its lock.
#[derive(Default)]
pub(super) struct State {
    pub requests: VecDeque<Request>,
    pub registrations: Registrations,
    pub controller: Option<Found>,
    /// Incremented with each loss, so that each is handled once.
    generation: u64,
    /// A queue's connection of this generation has ended.
    lost: Option<(u64, String)>,
    /// There is no controller any more, and why.
    pub gone: Option<String>,
    /// The last user of the association has closed it.
    pub is_over: bool,
    /// A command's status showed an ANA state that the controller has not reported yet.
    pub are_states_stale: bool,
}

impl State {
    /// Which connections these are: goes up when they are lost.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// I/O queues that the controller grants now, if there is one.
    pub fn granted(&self) -> Option<u16> {
        self.controller.as_ref().map(|found| found.facts.queues())
    }

    /// Registers a queue of this depth; `first` is how many queues the controller granted at first. As one of several paths the
    /// queue's identifier may be 0: others carry its commands until the controller grants as many queues as at first.
    ///
    /// # Errors
    /// When all queues are open, or the controller is given up.
    pub fn register(
        &mut self,
        first: u16,
        is_path: bool,
        of: impl FnOnce(u16) -> Registration,
    ) -> Result<Arc<Registration>> {
        if let Some(why) = &self.gone {
            return Err(gone(why));
        }
        let queues = self.granted().unwrap_or(first);
        let qid = match self.registrations.free_qid(queues) {
            Some(qid) => qid,
            None if is_path && self.registrations.len() < usize::from(first) => 0,
            None => {
                let said = format!("all {queues} queues that the controller granted are open");
                return Err(Error::host(ErrorKind::Busy, said));
            }
        };
        let registration = Arc::new(of(qid));
        self.registrations.add(&registration);
        Ok(registration)
    }

    /// Why a request is refused, if it is. As one of several paths it is while there is no controller: others can carry it.
    pub fn refusal(&self, is_path: bool) -> Option<Error> {
        match &self.gone {
            Some(why) => Some(gone(why)),
            None if is_path && self.controller.is_none() => Some(gone("it is being looked for")),
            None => None,
        }
    }

    /// A queue's connection of this generation has ended.
    pub fn report(&mut self, generation: u64, why: &str) {
        self.lost.get_or_insert_with(|| (generation, why.to_owned()));
    }

    /// Takes the reason why a queue's connection has ended. A report of an earlier generation is dropped.
    pub fn take_report(&mut self) -> Option<String> {
        let (generation, why) = self.lost.take()?;
        (generation == self.generation).then_some(why)
    }

    /// The connections are lost.
    pub fn part(&mut self) {
        (self.controller, self.lost) = (None, None);
        self.generation += 1;
    }
}
