//! Reservations against a small model of the specification's rules: hosts, commands and types as they come.

use std::collections::BTreeMap;

use byway_spec::Status;
use byway_spec::base::reservation::{
    AcquireAction, RegisterAction, RegisterCdw10, ReleaseAction, ReservationType,
};
use proptest::prelude::*;

use crate::cluster::{BLOCKS, Cluster, PAIRS};
use crate::common::number;

const HOSTS: usize = 3;

#[derive(Debug, Clone, Copy)]
enum Step {
    Register { key: u64 },
    Unregister { key: u64, ignores: bool },
    Replace { key: u64, new: u64, ignores: bool },
    Acquire { key: u64, rtype: u8 },
    Preempt { key: u64, other: u64, rtype: u8, aborts: bool },
    Release { key: u64, rtype: u8 },
    Clear { key: u64 },
}

/// Few keys, so that they meet; 0 is none.
fn key() -> impl Strategy<Value = u64> {
    prop_oneof![1 => Just(0_u64), 6 => 1_u64..4]
}

fn step() -> impl Strategy<Value = Step> {
    let rtype = || 1_u8..7;
    prop_oneof![
        4 => key().prop_map(|key| Step::Register { key }),
        1 => (key(), any::<bool>()).prop_map(|(key, ignores)| Step::Unregister { key, ignores }),
        1 => (key(), key(), any::<bool>()).prop_map(|(key, new, ignores)| Step::Replace { key, new, ignores }),
        4 => (key(), rtype()).prop_map(|(key, rtype)| Step::Acquire { key, rtype }),
        3 => (key(), key(), rtype(), any::<bool>())
            .prop_map(|(key, other, rtype, aborts)| Step::Preempt { key, other, rtype, aborts }),
        2 => (key(), rtype()).prop_map(|(key, rtype)| Step::Release { key, rtype }),
        1 => key().prop_map(|key| Step::Clear { key }),
    ]
}

/// The rules, written down as the specification lists them.
#[derive(Debug, Default)]
struct Model {
    keys: BTreeMap<usize, u64>,
    /// Type and holder. Of types 5 and 6 every registrant is a holder.
    held: Option<(u8, usize)>,
    generation: u64,
}

const CONFLICT: Result<(), Status> = Err(Status::RESERVATION_CONFLICT);
const INVALID: Result<(), Status> = Err(Status::INVALID_FIELD);

impl Model {
    fn holds(&self, host: usize) -> bool {
        match self.held {
            Some((5 | 6, _)) => self.keys.contains_key(&host),
            Some((_, holder)) => holder == host,
            None => false,
        }
    }

    fn may(&self, host: usize, writes: bool) -> bool {
        let is_registrant = self.keys.contains_key(&host);
        match self.held {
            None => true,
            Some(_) if self.holds(host) => true,
            Some((1, _)) => !writes,
            Some((2, _)) => false,
            Some((3 | 5, _)) => is_registrant || !writes,
            Some(_) => is_registrant,
        }
    }

    fn remove(&mut self, host: usize) {
        self.keys.remove(&host);
        match self.held {
            Some((5 | 6, _)) if self.keys.is_empty() => self.held = None,
            Some((1..=4, holder)) if holder == host => self.held = None,
            _ => {}
        }
    }

    fn remove_by(&mut self, key: u64, but: Option<usize>) -> bool {
        let gone: Vec<usize> = self
            .keys
            .iter()
            .filter(|(host, k)| **k == key && Some(**host) != but)
            .map(|(host, _)| *host)
            .collect();
        gone.iter().for_each(|host| self.remove(*host));
        !gone.is_empty()
    }

    fn apply(&mut self, host: usize, step: Step) -> Result<(), Status> {
        let mine = self.keys.get(&host).copied();
        match step {
            Step::Register { key: 0 } | Step::Replace { new: 0, .. } => return INVALID,
            Step::Register { key } if mine.is_none_or(|mine| mine == key) => _ = self.keys.insert(host, key),
            Step::Unregister { key, ignores } if mine.is_some_and(|mine| ignores || mine == key) => {
                self.remove(host)
            }
            Step::Replace { key, new, ignores } if mine.is_some_and(|mine| ignores || mine == key) => {
                self.keys.insert(host, new);
            }
            Step::Acquire { key, rtype } if mine == Some(key) => return self.acquire(host, rtype),
            Step::Preempt { key, other, rtype, .. } if mine == Some(key) => {
                self.preempt(host, other, rtype)?
            }
            Step::Release { key, rtype } if mine == Some(key) => return self.release(host, rtype),
            Step::Clear { key } if mine == Some(key) => {
                self.keys.clear();
                self.held = None;
            }
            _ => return CONFLICT,
        }
        self.generation += 1;
        Ok(())
    }

    fn acquire(&mut self, host: usize, rtype: u8) -> Result<(), Status> {
        match self.held {
            None => self.held = Some((rtype, host)),
            Some((held, _)) if held == rtype && self.holds(host) => {}
            Some(_) => return CONFLICT,
        }
        Ok(())
    }

    fn preempt(&mut self, host: usize, other: u64, rtype: u8) -> Result<(), Status> {
        match self.held {
            Some((5 | 6, _)) if other == 0 => {
                self.keys.retain(|found, _| *found == host);
                self.held = Some((rtype, host));
                Ok(())
            }
            Some((1..=4, holder)) if self.keys.get(&holder) == Some(&other) => {
                self.remove_by(other, Some(host));
                self.held = Some((rtype, host));
                Ok(())
            }
            Some((1..=4, _)) if other == 0 => INVALID,
            _ => match self.remove_by(other, None) {
                true => Ok(()),
                false => CONFLICT,
            },
        }
    }

    fn release(&mut self, host: usize, rtype: u8) -> Result<(), Status> {
        match self.held {
            Some((held, _)) if held != rtype => return INVALID,
            Some(_) if self.holds(host) => self.held = None,
            _ => {}
        }
        Ok(())
    }
}

fn ask(cluster: &mut Cluster, n: usize, nsid: u32, step: Step) -> Status {
    let register = |action, ignores| RegisterCdw10::new().with_rrega(action).with_iekey(ignores);
    match step {
        Step::Register { key } => cluster.join(n, nsid, key),
        Step::Unregister { key, ignores } => {
            cluster.register(n, nsid, register(RegisterAction::UNREGISTER, ignores), (key, 0))
        }
        Step::Replace { key, new, ignores } => {
            cluster.register(n, nsid, register(RegisterAction::REPLACE, ignores), (key, new))
        }
        Step::Acquire { key, rtype } => cluster.acquire(n, nsid, ReservationType(rtype), key),
        Step::Preempt { key, other, rtype, aborts } => {
            let action = if aborts { AcquireAction::PREEMPT_AND_ABORT } else { AcquireAction::PREEMPT };
            cluster.acquire_by(n, nsid, action, ReservationType(rtype), (key, other))
        }
        Step::Release { key, rtype } => {
            cluster.release(n, nsid, ReleaseAction::RELEASE, ReservationType(rtype), key)
        }
        Step::Clear { key } => cluster.release(n, nsid, ReleaseAction::CLEAR, ReservationType(0), key),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_reservation_commands_match_the_model(
        steps in prop::collection::vec((0..HOSTS, step()), 1..60),
        nsid in prop_oneof![Just(BLOCKS), Just(PAIRS)],
    ) {
        let mut cluster = Cluster::new(&[1, 2, 3]);
        let mut model = Model::default();
        for (host, step) in steps {
            let wanted = model.apply(host, step).err().unwrap_or(Status::SUCCESS);
            let status = ask(&mut cluster, host, nsid, step);
            prop_assert!(status.is(wanted), "{:?} by {}: {:?}, not {:?}", step, host, status, wanted);
            for host in 0..HOSTS {
                for writes in [false, true] {
                    let status = cluster.touch(host, nsid, writes);
                    let is_let = !status.is(Status::RESERVATION_CONFLICT);
                    prop_assert_eq!(is_let, model.may(host, writes), "{:?}: host {}", model, host);
                }
            }
            let report = cluster.report(0, nsid, true).unwrap();
            prop_assert_eq!(number(&report, 0, 4), model.generation);
            prop_assert_eq!(number(&report, 4, 1), model.held.map_or(0, |(rtype, _)| rtype.into()));
            prop_assert_eq!(number(&report, 5, 2), model.keys.len() as u64);
        }
    }
}
