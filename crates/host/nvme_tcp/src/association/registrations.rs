//! The open I/O queues of an association, and their identifiers.

use std::sync::Arc;

use super::registration::Registration;

/// The open I/O queues of an association, in the order in which they were opened.
#[derive(Debug, Default)]
pub(crate) struct Registrations {
    all: Vec<Arc<Registration>>,
    /// The identifier that was assigned last.
    last_qid: u16,
}

impl Registrations {
    /// A free queue identifier of `queues`, assigned in rotation: the controller may still hold one that was freed just now.
    pub fn free_qid(&self, queues: u16) -> Option<u16> {
        let mut all = (self.last_qid + 1..=queues).chain(1..=self.last_qid.min(queues));
        all.find(|qid| self.all.iter().all(|registration| registration.qid() != *qid))
    }

    pub fn add(&mut self, registration: &Arc<Registration>) {
        self.last_qid = registration.qid();
        self.all.push(Arc::clone(registration));
    }

    pub fn remove(&mut self, registration: &Registration) {
        self.all.retain(|other| !std::ptr::eq(&**other, registration));
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// All of them, to be used without the lock that guards this.
    pub fn list(&self) -> Vec<Arc<Registration>> {
        self.all.clone()
    }

    /// Whether one has no number (0), as the current controller grants too few.
    pub fn has_unnumbered(&self) -> bool {
        self.all.iter().any(|registration| registration.qid() == 0)
    }

    /// Takes those without a number.
    pub fn take_unnumbered(&mut self) -> Vec<Arc<Registration>> {
        self.all.extract_if(.., |registration| registration.qid() == 0).collect()
    }
}
