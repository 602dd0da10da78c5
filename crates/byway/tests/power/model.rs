//! What a host knows: which command changed what, in which order completions came, and what follows of that.

use std::collections::BTreeMap;

use crate::step::{Step, Target, Value};

/// What makes a command durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    /// Its completion (`flush=media`).
    Completion,
    /// The completion of a Flush that was submitted after it (`flush=command`).
    Flush,
}

/// A command that was submitted.
#[derive(Debug)]
struct Submitted {
    step: Step,
    number: u64,
    /// Completions that the host had taken by then.
    after: usize,
    /// Which completion was its own.
    place: Option<usize>,
}

/// Expected value of each target that has one.
#[derive(Debug, Clone, Default)]
pub struct Model(BTreeMap<Target, Value>);

impl Model {
    /// Expected value of a target.
    pub fn at(&self, target: Target) -> Value {
        self.0.get(&target).cloned().unwrap_or_default()
    }

    /// That, as the one version of each target.
    pub fn versions(&self) -> Allowed {
        self.0.iter().map(|(target, value)| (*target, vec![value.clone()])).collect()
    }

    pub fn set(&mut self, target: Target, value: Value) {
        self.0.insert(target, value);
    }
}

/// What may be where.
pub type Allowed = BTreeMap<Target, Vec<Value>>;

/// The commands of one life, in the order of their submission.
#[derive(Debug, Default)]
pub struct History {
    commands: Vec<Submitted>,
    /// Completions that the host has taken.
    pub taken: usize,
}

impl History {
    pub fn submit(&mut self, step: Step, number: u64) {
        self.commands.push(Submitted { step, number, after: self.taken, place: None });
    }

    /// The host takes the completion of step `number`.
    pub fn take(&mut self, number: u64) {
        let command = self.commands.iter_mut().rev().find(|command| command.number == number).unwrap();
        assert_eq!(command.place.replace(self.taken), None, "{command:?} completed twice");
        self.taken += 1;
    }

    /// What may be where once so many completions were posted: as `before`, or as a command that followed left it; the last one
    /// that is durable, or any that was submitted behind it.
    pub fn allowed(&self, before: &Model, posted: usize, promise: Promise) -> Allowed {
        let mut allowed = before.versions();
        self.add_to(&mut allowed, posted, promise);
        allowed
    }

    /// The same, on top of what others did elsewhere.
    pub fn add_to(&self, allowed: &mut Allowed, posted: usize, promise: Promise) {
        for command in &self.commands {
            let durable = self.is_durable(command, posted, promise);
            for (target, value) in command.step.effects(command.number) {
                let versions = allowed.entry(target).or_insert_with(|| vec![Value::new()]);
                if durable {
                    versions.clear();
                }
                versions.push(value);
            }
        }
    }

    fn is_durable(&self, command: &Submitted, posted: usize, promise: Promise) -> bool {
        let Some(place) = command.place.filter(|place| *place < posted) else { return false };
        let covers = |flush: &Submitted| {
            let is_done = flush.place.is_some_and(|place| place < posted);
            flush.step == Step::Flush { nsid: command.step.nsid() } && is_done && place < flush.after
        };
        promise == Promise::Completion || self.commands.iter().any(covers)
    }
}
