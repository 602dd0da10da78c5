//! The work of a bench, step by step: the same steps for every engine.

use anyhow::{Result, ensure};
use byway_measure::workload::Values;
use hdrhistogram::Histogram;

use super::key::Key;
use super::stopwatch::Lap;
use super::store::Session;

/// One thing that a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Stores a value.
    Put,
    /// Reads the value of a key that is there.
    Get,
    /// Reads this number of pairs in order, from the key on.
    Scan(u16),
    /// Reads a value, then stores another.
    ModifyWrite,
}

/// An act, its key, and what is stored.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// What is done with the key.
    pub act: Act,
    /// The key.
    pub key: Key,
    /// Which of the values is stored.
    pub value: u32,
    /// Length of the value that is stored, in bytes.
    pub value_bytes: u32,
}

/// What was read, so that it was read, and can be compared between engines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum(u64);

impl Sum {
    /// Adds some bytes, all of them.
    #[inline]
    pub fn add(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        let words = words.iter().fold(0u64, |sum, word| sum.wrapping_add(u64::from_le_bytes(*word)));
        let rest = rest.iter().fold(0u64, |sum, byte| sum.wrapping_add(u64::from(*byte)));
        self.0 = self.0.wrapping_add(words).wrapping_add(rest).wrapping_add(bytes.len() as u64);
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: Self) {
        self.0 = self.0.wrapping_add(other.0);
    }
}

/// A client that works.
pub struct Worker<'a> {
    /// Its session.
    pub session: Box<dyn Session + 'a>,
    /// Sum over the bytes read so far.
    pub sum: Sum,
}

impl<'a> Worker<'a> {
    /// A client.
    pub fn new(session: Box<dyn Session + 'a>) -> Self {
        Self { session, sum: Sum::default() }
    }

    /// Takes the steps one after another. With `times`, the time of each is kept there.
    ///
    /// # Errors
    /// What the engine says; a key that is not there.
    pub fn take(
        &mut self,
        steps: &[Step],
        values: &Values,
        times: Option<&mut Histogram<u64>>,
    ) -> Result<()> {
        match times {
            None => steps.iter().try_for_each(|step| self.step(step, values))?,
            Some(times) => {
                let mut lap = Lap::begin();
                for step in steps {
                    self.step(step, values)?;
                    times.saturating_record(lap.next_ns());
                }
            }
        }
        self.session.settle()
    }

    #[inline]
    fn step(&mut self, step: &Step, values: &Values) -> Result<()> {
        match step.act {
            Act::Put => self.put(step, values),
            Act::Get => self.get(&step.key),
            Act::Scan(limit) => {
                let Self { session, sum } = self;
                session.pairs(&step.key, limit.into(), &mut |key, value| {
                    sum.add(key);
                    sum.add(value);
                })?;
                Ok(())
            }
            Act::ModifyWrite => {
                self.get(&step.key)?;
                self.put(step, values)
            }
        }
    }

    #[inline]
    fn put(&mut self, step: &Step, values: &Values) -> Result<()> {
        self.session.put(&step.key, values.value(step.value as usize, step.value_bytes))
    }

    #[inline]
    fn get(&mut self, key: &Key) -> Result<()> {
        let Self { session, sum } = self;
        let found = session.get(key, &mut |value| sum.add(value))?;
        ensure!(found, "a key that was stored is not there");
        Ok(())
    }

    /// Stores the steps' values `together` at a time, each group by commands of its own or all or none. The time of each put is that
    /// of its group.
    ///
    /// # Errors
    /// What the engine says.
    pub fn take_together(
        &mut self,
        steps: &[Step],
        values: &Values,
        Group { together, is_atomic }: Group,
        times: &mut Histogram<u64>,
    ) -> Result<()> {
        let mut lap = Lap::begin();
        for group in steps.chunks(together) {
            let value = |step: &Step| values.value(step.value as usize, step.value_bytes);
            let pairs: Vec<(Key, &[u8])> = group.iter().map(|step| (step.key, value(step))).collect();
            match is_atomic {
                true => self.session.put_batch(&pairs)?,
                false => self.session.put_together(&pairs)?,
            }
            times.saturating_record_n(lap.next_ns(), group.len() as u64);
        }
        Ok(())
    }

    /// Reads the values of the steps' keys `together` at a time. The time of each get is that of its group.
    ///
    /// # Errors
    /// What the engine says; a key that is not there.
    pub fn get_together(
        &mut self,
        steps: &[Step],
        together: usize,
        times: &mut Histogram<u64>,
    ) -> Result<()> {
        let Self { session, sum } = self;
        let mut lap = Lap::begin();
        let mut keys = Vec::with_capacity(together);
        for group in steps.chunks(together) {
            keys.clear();
            keys.extend(group.iter().map(|step| step.key));
            let found = session.get_together(&keys, &mut |value| sum.add(value))?;
            ensure!(found, "a key that was stored is not there");
            times.saturating_record_n(lap.next_ns(), group.len() as u64);
        }
        session.settle()
    }

    /// Reads `count` keys in order from `from` on, with their values or without. Times are those of `page` items.
    ///
    /// # Errors
    /// What the engine says; fewer keys than there should be.
    pub fn walk(&mut self, walk: &Walk, times: &mut Histogram<u64>) -> Result<()> {
        let Self { session, sum } = self;
        let (mut lap, mut seen) = (Lap::begin(), 0);
        let mut see = |key: &[u8], value: &[u8]| {
            sum.add(key);
            sum.add(value);
            seen += 1;
            if seen % walk.page == 0 {
                times.saturating_record(lap.next_ns());
            }
        };
        let found = match walk.values {
            true => session.pairs(&walk.from, walk.count, &mut see)?,
            false => session.keys(&walk.from, walk.count, &mut |key| see(key, &[]))?,
        };
        ensure!(found == walk.count, "{found} keys are listed where {} were stored", walk.count);
        self.session.settle()
    }
}

/// Puts that are done together.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// How many.
    pub together: usize,
    /// All or none, through a crash.
    pub is_atomic: bool,
}

/// A part of a listing.
#[derive(Clone, Copy, Debug)]
pub struct Walk {
    /// First key.
    pub from: Key,
    /// Number of keys.
    pub count: u64,
    /// Whether values are read too.
    pub values: bool,
    /// Items that are timed together.
    pub page: u64,
}
