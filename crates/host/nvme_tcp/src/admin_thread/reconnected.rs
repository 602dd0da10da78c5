//! New connections for the open I/O queues.

use std::sync::Arc;

use byway_core::Result;

use crate::association::{Association, QueueMessage, Registration};
use crate::attach::Attached;
use crate::line::Line;

/// New connections for the open I/O queues; none after the first connect.
#[derive(Default)]
pub(super) struct Reconnected(Vec<(Arc<Registration>, Line)>);

impl Reconnected {
    /// Connects every open I/O queue that the controller grants.
    ///
    /// # Errors
    /// When one cannot be connected.
    pub fn new(association: &Association, Attached { controller, facts, .. }: &Attached) -> Result<Self> {
        let connect = |registration: Arc<Registration>| {
            let line = registration.connect(&association.peer, *controller, facts)?;
            Ok((registration, line))
        };
        association.number_queues(facts.queues()).into_iter().map(connect).collect::<Result<_>>().map(Self)
    }

    /// Hands each queue its connection, of this generation.
    pub fn hand_out(self, generation: u64) {
        for (registration, line) in self.0 {
            registration.send(QueueMessage::Line(Box::new(line), generation));
        }
    }
}
