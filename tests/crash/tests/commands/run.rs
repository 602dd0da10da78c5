//! Commands on a device and on the map beside it, and what stands between them.

use std::ops::ControlFlow;
use std::path::PathBuf;

use byway::{ErrorKind, Method};
use byway_crash_tests::content::key_of;

use crate::expected::Expected;
use crate::life::{Life, Reported};
use crate::loss::Loss;
use crate::op::Op;
use crate::open::{Open, is_refusal};
use crate::power_cut::PowerCut;
use crate::seen::Seen;
use crate::setup::{PAIRS_BYTES, Setup};

/// Less alive than this is never too much for the namespace of pairs.
const ALWAYS_FITS_BYTES: u64 = 600 << 10;

/// Methods whose stores may have conditions.
const CARRY_CONDITIONS: [Method; 4] = [Method::Prp, Method::Sgl, Method::Inline, Method::Adaptive];

/// Commands that another process is given at most.
const LIFE_OPS: usize = 300;

/// The test in which another process lives.
const LIFE_TEST: &str = "a_process_runs_the_life_of_its_environment";

/// A device and the map beside it.
pub struct Run {
    dir: tempfile::TempDir,
    image: PathBuf,
    setup: Setup,
    open: Option<Open>,
    expected: Expected,
    power_cut: Option<PowerCut>,
    loss: Option<Loss>,
    blocks_bytes: u64,
    stamp: u64,
    seen: Seen,
}

impl Run {
    pub fn new(setup: Setup) -> Self {
        let memory = std::path::Path::new("/dev/shm");
        let dir =
            tempfile::tempdir_in(if memory.is_dir() { memory.into() } else { std::env::temp_dir() }).unwrap();
        let image = dir.path().join("image");
        setup.create(&image);
        let open = Some(Open::new(&setup.uri(&image)));
        let expected = Expected::default();
        Self {
            dir,
            image,
            setup,
            open,
            expected,
            power_cut: None,
            loss: None,
            blocks_bytes: setup.blocks_bytes(),
            stamp: 0,
            seen: Seen::default(),
        }
    }

    /// Does all of them; in the end everything is compared, closed, opened and compared again.
    pub fn go(mut self, ops: &[Op]) -> Seen {
        let mut rest = ops;
        while let Some((op, behind)) = rest.split_first() {
            rest = behind;
            self.stamp += 1;
            if !op.is_command() {
                self.lose(&self.expected.clone(), Op::Flush);
            }
            match *op {
                Op::Lose { events } => self.watch(events),
                Op::Kill { points } => rest = self.kill(points, rest),
                Op::Cut { points } => {
                    let copy = self.dir.path().join("copy");
                    self.power_cut = None;
                    self.power_cut = Some(PowerCut::arm(points, self.image.clone(), copy));
                }
                op if op.is_command() => self.command(op),
                op => self.pause(op),
            }
        }
        self.power_cut = None;
        self.lose(&self.expected.clone(), Op::Flush);
        self.compare();
        self.reopen(true);
        self.compare();
        self.note_programs();
        self.open = None;
        self.check();
        self.seen
    }

    fn note_programs(&mut self) {
        let Some(open) = &self.open else { return };
        self.seen.note_programs(&open.device);
    }

    fn open(&mut self) -> &mut Open {
        self.open.as_mut().unwrap()
    }

    /// A command with the device open. If power was cut in it, the device goes on from there.
    fn command(&mut self, op: Op) {
        let (stamp, lba_bytes) = (self.stamp, self.setup.lba_bytes);
        let after = self.expected.after(op, stamp, lba_bytes);
        let done = self.open().execute(op, stamp);
        if self.power_cut.as_ref().is_some_and(PowerCut::has_has_happened) {
            return self.cut(&after, op);
        }
        if self.loss.as_ref().is_some_and(Loss::has_come) {
            return self.lose(&after, op);
        }
        match done {
            Ok(()) => self.look(op, after),
            Err(error) => self.refused(op, &after, &error),
        }
    }

    /// What a command that was done says, or left.
    fn look(&mut self, op: Op, after: Expected) {
        self.expected = after;
        let expected = self.expected.clone();
        let found = match op {
            Op::Get { key } | Op::Put { key, .. } => {
                let found = self.open().pairs.get(&key_of(key)).unwrap();
                let held = expected.pairs.get(&key).map(|held| held.content(key.into()));
                found == held
            }
            Op::Exists { key } => {
                self.open().pairs.exists(&key_of(key)).unwrap() == expected.pairs.contains_key(&key)
            }
            Op::List { key } => self.open().keys_from(&key_of(key)) == expected.keys_from(&key_of(key)),
            Op::Read { lba, blocks } => {
                let found = self.open().read_blocks(lba, blocks);
                self.expected
                    .settle(&expected, &[].into(), &found)
                    .unwrap_or_else(|said| panic!("{op:?}: {said}"));
                true
            }
            Op::PutNew { key, .. } => expected.pairs.get(&key).is_some_and(|held| held.stamp == self.stamp),
            Op::PutOver { key, .. } => expected.pairs.contains_key(&key),
            _ => true,
        };
        assert!(found, "{op:?} of {} returns something else than was stored", self.stamp);
    }

    /// A command that was refused changed nothing, but one of many parts may have done the first.
    fn refused(&mut self, op: Op, after: &Expected, error: &byway::Error) {
        let of_many = op.has_parts();
        self.seen.refusals += u64::from(error.kind() == ErrorKind::CapacityExceeded);
        let is_right = match op {
            Op::PutNew { key, .. } if error.kind() == ErrorKind::KeyExists => {
                self.expected.pairs.contains_key(&key)
            }
            Op::PutOver { key, .. } if error.kind() == ErrorKind::KeyNotFound => {
                !self.expected.pairs.contains_key(&key)
            }
            Op::PutNew { .. } | Op::PutOver { .. } if error.kind() == ErrorKind::Unsupported => {
                !CARRY_CONDITIONS.contains(&self.setup.method)
            }
            Op::Put { .. } | Op::PutNew { .. } | Op::PutOver { .. } | Op::PutByBytes { .. } => {
                self.may_refuse(after, error)
            }
            Op::Write { lba, blocks }
            | Op::Read { lba, blocks }
            | Op::Trim { lba, blocks }
            | Op::Zero { lba, blocks }
                if error.kind() == ErrorKind::OutOfRange =>
            {
                !self.open().has_blocks(lba, blocks)
            }
            Op::Write { .. } => error.kind() == ErrorKind::TooLarge,
            _ => of_many && self.may_refuse(after, error),
        };
        assert!(
            is_right,
            "{op:?} of {}: {error}, with {} bytes alive",
            self.stamp,
            self.expected.live_bytes()
        );
        if of_many {
            self.compare_with(after);
        }
    }

    fn may_refuse(&self, after: &Expected, error: &byway::Error) -> bool {
        let fits = after.live_bytes() < ALWAYS_FITS_BYTES && error.kind() == ErrorKind::CapacityExceeded;
        is_refusal(error) && !fits
    }

    /// Something between commands.
    fn pause(&mut self, op: Op) {
        self.power_cut = None;
        match op {
            Op::Close => self.reopen(true),
            Op::Drop => self.reopen(false),
            Op::Snapshot => self.exchange(),
            Op::Resize { mib, blocks_mib } => self.resize(mib, blocks_mib),
            _ => {}
        }
        self.compare();
    }

    fn end(&mut self, in_order: bool) {
        let Open { pairs, blocks, device } = self.open.take().unwrap();
        drop((pairs, blocks));
        if in_order {
            device.close().unwrap();
        }
    }

    fn start(&mut self) {
        self.open = Some(Open::new(&self.setup.uri(&self.image)));
    }

    fn reopen(&mut self, in_order: bool) {
        self.end(in_order);
        self.check();
        self.start();
    }

    /// Goes on with what the cut left, in which `op` is done or not.
    fn cut(&mut self, after: &Expected, op: Op) {
        let Some(power_cut) = self.power_cut.take() else { return };
        self.seen.cuts += 1;
        self.end(false);
        std::fs::rename(&power_cut.copy, &self.image).unwrap();
        drop(power_cut);
        self.check();
        self.start();
        self.compare_after(after, op);
    }

    /// Opens the device so that real power is lost in a while.
    fn watch(&mut self, events: u16) {
        self.power_cut = None;
        self.end(true);
        let loss = Loss::new(&self.image, self.dir.path().join("left"), self.stamp, events);
        let uri = Setup { flush: "media", ..self.setup }.uri(&self.image);
        self.open = Some(Open::new_watched(&uri, loss.file.clone()));
        self.loss = Some(loss);
    }

    /// Real power is lost, if it is to be, and the device goes on with what that left: `op` is done or not.
    fn lose(&mut self, after: &Expected, op: Op) {
        let Some(loss) = self.loss.take() else { return };
        self.seen.losses += 1;
        self.power_cut = None;
        self.note_programs();
        // Whatever comes until the end of the device comes after the loss, or is lost too.
        loss.has_come().then(|| self.end(false));
        loss.leave(&self.image);
        self.open = None;
        self.check();
        self.start();
        self.compare_after(after, op);
    }

    fn exchange(&mut self) {
        let copy = self.dir.path().join("snapshot");
        self.open().device.snapshot(&copy).unwrap();
        self.end(false);
        std::fs::rename(&copy, &self.image).unwrap();
        self.check();
        self.start();
    }

    fn resize(&mut self, mib: u8, blocks_mib: u8) {
        self.end(true);
        let (bytes, blocks_bytes) = (u64::from(mib) << 20, u64::from(blocks_mib) << 20);
        let resized =
            byway::resize(&self.image, bytes, &[(2, blocks_bytes)], &mut |_, _| ControlFlow::Continue(()));
        let beyond = |lba: &u32| u64::from(*lba + 1) * u64::from(self.setup.lba_bytes) > blocks_bytes;
        match resized {
            Ok(()) => {
                assert!(!self.expected.blocks.keys().any(beyond), "what lay beyond {blocks_bytes} is gone");
                self.blocks_bytes = blocks_bytes;
            }
            Err(error) => {
                let is_right = match error.kind() {
                    ErrorKind::CapacityExceeded => true,
                    ErrorKind::InvalidArgument => PAIRS_BYTES + blocks_bytes > bytes,
                    _ => self.expected.blocks.keys().any(beyond),
                };
                assert!(is_right, "{mib} MiB, blocks {blocks_mib}: {error}");
            }
        }
        self.check();
        self.start();
    }

    /// Another process does what comes, up to a point at which it is killed. Returns what is left to do.
    fn kill<'a>(&mut self, points: u32, ops: &'a [Op]) -> &'a [Op] {
        self.power_cut = None;
        let commands = ops.iter().take_while(|op| op.is_command()).take(LIFE_OPS).count();
        self.end(false);
        let life = Life {
            uri: self.setup.uri(&self.image),
            journal: self.dir.path().join("journal"),
            ops: ops[..commands].to_vec(),
            stamp: self.stamp,
            points,
        };
        let reported = life.run(LIFE_TEST);
        self.seen.kills += 1;
        for (op, end) in ops.iter().zip(&reported) {
            let after = self.expected.after(*op, self.stamp, self.setup.lba_bytes);
            self.stamp += 1;
            if *end == Reported::Done {
                self.expected = after;
            }
        }
        self.check();
        self.start();
        let op = ops.get(reported.len()).copied().filter(|_| reported.len() < commands).unwrap_or(Op::Flush);
        self.compare_after(&self.expected.after(op, self.stamp, self.setup.lba_bytes), op);
        &ops[commands.min(reported.len() + 1)..]
    }

    fn compare_after(&mut self, after: &Expected, op: Op) {
        let before = self.expected.pairs.len();
        self.compare_with(after);
        if let Op::FormatPairs { .. } | Op::Sanitize { .. } = op {
            let left = self.expected.pairs.len();
            assert!(left == 0 || left == before, "a format took {} pairs of {before}", before - left);
        }
    }

    fn compare(&mut self) {
        self.compare_with(&self.expected.clone());
    }

    /// Everything is as it was, or as it is in `other`.
    fn compare_with(&mut self, other: &Expected) {
        let stamp = self.stamp;
        let (pairs, blocks) = (self.open().read_pairs(), self.open().read_all_blocks());
        self.expected.settle(other, &pairs, &blocks).unwrap_or_else(|said| panic!("at {stamp}: {said}"));
        let listed = self.open().keys_from(&[0]);
        assert_eq!(listed, self.expected.keys_from(&[0]), "at {stamp}");
    }

    /// The check of an image that no process has open finds nothing.
    fn check(&self) {
        let checked = byway::check(&self.image, &mut |_, _, _| {}).unwrap();
        assert_eq!(checked.findings, [], "at {}", self.stamp);
    }
}
