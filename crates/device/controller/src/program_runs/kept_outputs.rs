//! Outputs of programs that have ended, until their hosts have them.

use std::collections::HashMap;

use crate::id::{ControllerId, RunId};

/// Outputs by the run that they are of.
#[derive(Debug, Default)]
pub(super) struct KeptOutputs {
    of: HashMap<RunId, KeptOutput>,
    /// Bytes of all of them.
    bytes: usize,
}

#[derive(Debug)]
struct KeptOutput {
    owner: ControllerId,
    bytes: Vec<u8>,
}

impl KeptOutputs {
    pub fn keep(&mut self, id: RunId, owner: ControllerId, bytes: Vec<u8>) {
        self.bytes += bytes.len();
        self.of.insert(id, KeptOutput { owner, bytes });
    }

    pub fn get(&self, id: RunId) -> Option<&[u8]> {
        self.of.get(&id).map(|output| output.bytes.as_slice())
    }

    pub fn forget(&mut self, id: RunId) {
        self.bytes -= self.of.remove(&id).map_or(0, |output| output.bytes.len());
    }

    pub fn forget_all_of(&mut self, owner: ControllerId) {
        self.of.retain(|_, output| output.owner != owner);
        self.bytes = self.of.values().map(|output| output.bytes.len()).sum();
    }

    /// Bytes of all outputs.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }
}
