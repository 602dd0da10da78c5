//! Memory of the host that there is no more of: reported when a daemon starts, not by a signal to a program that touches it first.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use byway_conformance::skips::skip;
use byway_tdm_daemon::Daemon;
use byway_tdm_tests::{Actor, Place};
use rustix::fs::{FallocateFlags, fallocate};

use crate::place;

/// A small tmpfs.
struct SmallMemory(PathBuf);

impl SmallMemory {
    /// A small file system for a place's shared file tables; `None` where nothing can be mounted.
    fn for_tables(place: &mut Place, mebibytes: u64, test: &str) -> Option<Self> {
        let at = place.path().join("memory");
        std::fs::create_dir(&at).unwrap();
        let size = format!("size={mebibytes}m");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&at).output();
        if !mounted.is_ok_and(|mounted| mounted.status.success()) {
            skip(test, "no memory can be mounted here");
            return None;
        }
        place.options.file_tables.clone_from(&at);
        Some(Self(at))
    }

    /// Takes all that is left of it.
    fn fill(&self) {
        let mut rest = File::create(self.0.join("rest")).unwrap();
        while rest.write_all(&[1; 4096]).is_ok() {}
    }

    fn file_table(&self) -> PathBuf {
        let mut found = std::fs::read_dir(&self.0).unwrap().map(|name| name.unwrap().path());
        found.find(|path| path.extension().is_some_and(|name| name == "board")).unwrap()
    }
}

impl Drop for SmallMemory {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-lq").arg(&self.0).status();
    }
}

/// Frees the unused memory of the shared file table behind its header.
fn thin_out(file_table: &Path) {
    let file = File::options().write(true).open(file_table).unwrap();
    let len = file.metadata().unwrap().len();
    fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 4096, len - 4096).unwrap();
}

fn refusal(place: &Place) -> String {
    match Daemon::start(place.options.clone()) {
        Err(refused) => refused.to_string(),
        Ok(_) => panic!("it serves by memory that is not there"),
    }
}

/// Opens more files than a few pages of the shared file table have room for.
fn open_many(actor: &mut Actor) {
    for file in 0..300 {
        actor.does(&format!("open a many-{file} wce; write a 10 1; fdatasync a; close a"));
    }
}

#[test]
fn program_continues_when_table_memory_becomes_full() {
    const NAME: &str = "program_continues_when_table_memory_becomes_full";
    let mut place = place();
    let Some(memory) = SmallMemory::for_tables(&mut place, 64, NAME) else { return };
    let _daemon = place.daemon();
    let mut actor = place.actor();
    actor.does("open a first wce; write a 10 1; fdatasync a");
    memory.fill();
    open_many(&mut actor);
    actor.ended();
}

#[test]
fn table_without_memory_is_refused_and_leaves_nothing() {
    const NAME: &str = "table_without_memory_is_refused_and_leaves_nothing";
    let mut place = place();
    let Some(memory) = SmallMemory::for_tables(&mut place, 8, NAME) else { return };
    let daemon = place.daemon();
    let mut actor = place.actor();
    open_many(&mut actor);
    assert!(daemon.report().users.is_empty(), "a user is served without memory for the shared file table");
    assert_eq!(std::fs::read_dir(&memory.0).unwrap().count(), 0);
    actor.ended();
}

#[test]
fn table_that_lost_memory_is_refilled_or_refused() {
    const NAME: &str = "table_that_lost_memory_is_refilled_or_refused";
    let mut place = place();
    let Some(memory) = SmallMemory::for_tables(&mut place, 64, NAME) else { return };
    let mut daemon = place.start_daemon(crate::DAEMON);
    let mut actor = place.actor();
    actor.does("open a log wce; write a 10 1; fdatasync a");
    place.absorb(&place.session(), &mut actor, 'a', "log");
    actor.kill();
    daemon.kill();
    thin_out(&memory.file_table());
    memory.fill();
    let why = refusal(&place);
    assert!(why.contains("allocate a user's shared file table"), "{why}");
    std::fs::remove_file(memory.0.join("rest")).unwrap();
    let _daemon = place.daemon();
    memory.fill();
    let mut actor = place.actor();
    open_many(&mut actor);
    actor.ended();
}

#[test]
fn region_without_memory_is_refused() {
    const NAME: &str = "region_without_memory_is_refused";
    let mut place = place();
    let Some(memory) = SmallMemory::for_tables(&mut place, 8, NAME) else { return };
    let region = memory.0.join("region");
    File::create(&region).unwrap().set_len(32 << 20).unwrap();
    place.options.region = format!("emu:{}", region.display());
    assert!(refusal(&place).contains("take room for all of it"), "{}", refusal(&place));
}
