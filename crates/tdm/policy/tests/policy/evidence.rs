//! When timed calls suffice for a decision.

use byway_tdm_policy::{
    Call, Config, Decision, FileId, Histogram, Level, Order, Policy, Reason, SHADOW_ONE_IN, Sample,
};

use crate::workloads::OUTSIDE;
use crate::world::SECOND;

const FILE: FileId = FileId(1);

/// A file and its samples.
struct Timed {
    policy: Policy,
    now_ns: u64,
    sample: Sample,
}

impl Timed {
    fn new() -> Self {
        let mut policy = Policy::new(Config::new(1 << 30, 4_000_000_000));
        policy.open(0, FILE, None);
        Self { policy, now_ns: 0, sample: Sample { cap: Some(OUTSIDE), ..Sample::default() } }
    }

    /// Groups of commits with these times at the file's level; returns the decisions a second later.
    fn commits(&mut self, groups: &[(u64, u64)]) -> Vec<Decision> {
        self.now_ns += SECOND;
        let is_lower = self.policy.level(FILE) == Some(Level::Pass);
        for (commits, ns) in groups {
            self.sample.counts.syncs += commits;
            self.sample.counts.writes += commits;
            self.sample.counts.written_bytes += 64 * commits;
            let timings = if is_lower { &mut self.sample.lower } else { &mut self.sample.level };
            timings[Call::Sync].record_many(*ns, *commits);
        }
        self.policy.observe(self.now_ns, FILE, &self.sample);
        self.policy.decide(self.now_ns)
    }

    fn go(&mut self, decisions: &[Decision]) {
        decisions.iter().for_each(|decision| self.policy.moved(self.now_ns, decision.file));
    }

    /// Runs until the file is absorbed by measured benefit.
    fn earn(&mut self) {
        for _ in 0..1000 {
            let decisions = self.commits(&[(200, 200_000)]);
            self.go(&decisions);
            if self.policy.level(FILE) == Some(Level::Absorb) {
                return;
            }
        }
        panic!("never absorbed");
    }

    fn pin(&mut self, level: Level) {
        self.policy.order(FILE, Some(Order::Pin(level)));
        let decisions = self.policy.decide(self.now_ns);
        assert_eq!(decisions[0].to, level);
        self.go(&decisions);
    }

    fn sync_ns(&self) -> [f64; 3] {
        self.policy.explain(self.now_ns, FILE).unwrap().sync_ns.map(f64::round)
    }
}

#[test]
fn times_of_a_sample_that_saw_two_levels_are_learnt_for_neither() {
    let mut file = Timed::new();
    file.pin(Level::Absorb);
    file.commits(&[(1, 1000)]);
    file.commits(&[(1000, 1000)]);
    file.sample.cap = None;
    file.commits(&[]);
    file.pin(Level::Dax);
    let before = file.sync_ns();
    assert_eq!(before[1], 1000.0);
    // These were absorbed before the move had ended.
    file.commits(&[(1000, 1_000_000)]);
    assert_eq!(file.sync_ns(), before);
    file.commits(&[(1000, 5000)]);
    assert_eq!(file.sync_ns(), [before[0], 1000.0, 5000.0]);
}

#[test]
fn a_few_slow_calls_prove_nothing() {
    let mut file = Timed::new();
    file.earn();
    for _ in 0..10 {
        // One in nine is slower than below; too few calls to count.
        assert_eq!(file.commits(&[(8, 150), (1, 600_000)]), []);
    }
    // The first sample covered two levels; with the twelfth after it there are a hundred calls.
    assert_eq!(file.commits(&[(8, 150), (1, 600_000)]), []);
    assert_eq!(file.commits(&[(8, 150)]), []);
    let decisions = file.commits(&[(8, 150), (1, 600_000)]);
    assert!(matches!(decisions[0].why, Reason::SlowTail { .. }), "{decisions:?}");
}

#[test]
fn a_level_that_has_become_better_is_not_left_for_what_it_was() {
    let mut file = Timed::new();
    file.earn();
    file.commits(&[(190, 150)]);
    let decisions = file.commits(&[(190, 150), (10, 2_000_000)]);
    assert!(matches!(decisions[0].why, Reason::SlowTail { .. }), "{decisions:?}");
    file.go(&decisions);
    file.earn();
    for _ in 0..30 {
        assert_eq!(file.commits(&[(40, 150)]), []);
    }
}

#[test]
fn current_kernel_sync_time_is_learnt_from_shadow_syncs() {
    let mut file = Timed::new();
    file.earn();
    assert_eq!(file.sync_ns()[0], 200_000.0);
    for _ in 0..2000 {
        file.sample.lower[Call::Sync].record(100_000);
        file.commits(&[(SHADOW_ONE_IN, 150)]);
    }
    assert!((100_000.0..110_000.0).contains(&file.sync_ns()[0]), "{:?}", file.sync_ns());
}

#[test]
fn mean_of_other_files_counts_by_its_number_of_calls() {
    let mut timed = Histogram::default();
    timed.record_many(2000, 30);
    assert_eq!((timed.count(), timed.total_ns), (30, 60_000));
}
