//! Commands of hosts that threads count beside the writer of the image.

use std::os::unix::fs::FileExt;
use std::path::Path;

use byway_flash::{Flash, HOST_TALLIES, HostCounters, HostIo, MediaKind};

use crate::common::{MIB, create, nvm, open};

/// Where the state is in an image, its page of lines, and the word that says that they are being folded.
const STATE: u64 = 64 << 10;
const LINES: u64 = STATE + 4096;
const FOLD: u64 = STATE + 576;

fn made(at: &Path) {
    create(MediaKind::File(at.to_owned()), 8 * MIB, &[nvm(4 * MIB)]).close().unwrap();
}

fn add(flash: &mut Flash, thread: usize, commands: u64) {
    let tally = flash.host_tally(thread).unwrap();
    let before = tally.counts();
    (0..commands).for_each(|_| tally.add(HostIo::Read, 512));
    tally.add(HostIo::Write, 100);
    flash.count_tallied(tally.counts().since(before));
    flash.count_host(HostIo::Read, 1, 4096);
}

fn wanted(rounds: u64, commands: u64) -> HostCounters {
    HostCounters {
        reads: commands + rounds,
        read_bytes: commands * 512 + rounds * 4096,
        writes: rounds,
        written_bytes: rounds * 100,
    }
}

#[test]
fn what_threads_count_outlives_kills_and_closes_alike() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("image");
    made(&at);
    let mut commands = 0;
    for round in 0..12 {
        let mut flash = open(&at).unwrap();
        assert_eq!(flash.counters().host, wanted(round, commands), "round {round}");
        add(&mut flash, round as usize % 3, round * 7);
        commands += round * 7;
        assert_eq!(flash.counters().host, wanted(round + 1, commands));
        // Counted, and not yet added to the counters: a kill leaves it all the same.
        flash.host_tally(HOST_TALLIES - 1).unwrap().add(HostIo::Read, 512);
        commands += 1;
        if round % 3 == 2 {
            flash.close().unwrap();
            let file = std::fs::File::open(&at).unwrap();
            let mut lines = [1; 4096];
            file.read_exact_at(&mut lines, LINES).unwrap();
            assert_eq!(lines, [0; 4096], "a closed image has all in its counters");
        }
    }
    assert!(open(&at).unwrap().host_tally(HOST_TALLIES).is_none());
}

#[test]
fn fold_of_a_close_that_was_killed_counts_nothing_twice() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("image");
    made(&at);
    let mut flash = open(&at).unwrap();
    add(&mut flash, 0, 50);
    let all = flash.counters().host;
    drop(flash);
    // As the close stores it, word by word, up to any of them.
    let file = std::fs::OpenOptions::new().read(true).write(true).open(&at).unwrap();
    let totals = [all.reads, all.read_bytes, all.writes, all.written_bytes];
    for (at, word) in (FOLD + 8..).step_by(8).zip(totals) {
        file.write_all_at(&word.to_le_bytes(), at).unwrap();
    }
    assert_eq!(open(&at).unwrap().counters().host, all, "before the fold began");
    file.write_all_at(&1u64.to_le_bytes(), FOLD).unwrap();
    file.write_all_at(&[0; 16], LINES).unwrap();
    let flash = open(&at).unwrap();
    assert_eq!(flash.counters().host, all);
    drop(flash);
    assert_eq!(open(&at).unwrap().counters().host, all, "it was finished");
}
