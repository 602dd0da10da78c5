//! Recovery of what a daemon left.

use super::*;

/// A region of another boot: one file with three records, none of them in the file below.
fn left_by_another_boot(place: &Place, path: &Path) {
    left_by(place, path, [1; 16]);
}

fn left_by(place: &Place, path: &Path, boot: BootId) {
    left_with(place, path, None, |was| was.boot = boot);
}

/// The same, with the log's announcement and a change of the daemon's table.
fn left_with(place: &Place, path: &Path, now_ms: Option<u64>, change: impl Fn(&mut Assignment)) {
    let region = open(&place.options.region, &place.options.opening).unwrap();
    let table_bytes = byway_tdm_daemon::TABLE_BYTES;
    let uid = rustix::process::geteuid().as_raw();
    let partition = region.partition(table_bytes..region.len_bytes(), uid).unwrap();
    let place = RingPlace { at: 0, len_bytes: 1 << 20, identity: 5 };
    let ring = Ring::new(partition.window(), place).unwrap();
    ring.format(Position(0)).unwrap();
    let words: [std::sync::atomic::AtomicU64; CURSOR_WORDS] = Default::default();
    let absorber = Absorber::new(ring, Cursor::new(&words));
    now_ms.into_iter().for_each(|now_ms| absorber.announce(now_ms));
    for (at, data) in [(0, "kept"), (4, " by"), (7, " records")] {
        absorber.wrote(at, data.len() as u64, &mut data.as_bytes());
    }
    let _ = absorber.sync();
    let key = FileKey::of(File::open(path).unwrap()).unwrap().unwrap().key;
    let path = path.to_owned();
    let mut was = Assignment { key, ring: place, uid, path, boot: [1; 16], kind: Kind::Ring };
    change(&mut was);
    Table::new(region.window()).put(SlotNumber(3), &was).unwrap();
}

/// Long before this boot, in s since 1970.
const OLD_S: u64 = 1_000_000_000;

fn make_old(path: &Path) {
    written_at(path, OLD_S);
}

fn written_at(path: &Path, seconds: u64) {
    let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
    File::options().write(true).open(path).unwrap().set_modified(old).unwrap();
}

#[test]
fn records_are_written_back_once_after_a_reboot() {
    let place = Place::new();
    let (path, mut file) = place.file("log");
    file.write_all(b"k").unwrap();
    make_old(&path);
    left_by_another_boot(&place, &path);
    let daemon = place.start();
    let [recovered] = daemon.recovered() else { panic!("{:?}", daemon.recovered()) };
    assert_eq!(recovered.outcome, Outcome::Replayed { records: 3, data_bytes: 15 });
    assert_eq!(std::fs::read(&path).unwrap(), b"kept by records");
    drop(daemon);
    assert!(recover(&place.options, false).unwrap().is_empty());
}

#[test]
fn file_written_since_the_boot_is_kept_until_forced() {
    let place = Place::new();
    let (path, mut file) = place.file("log");
    left_by_another_boot(&place, &path);
    file.write_all(b"newer").unwrap();
    for _ in 0..2 {
        let recovered = recover(&place.options, false).unwrap();
        assert_eq!(recovered[0].outcome, Outcome::WrittenSince);
    }
    assert_eq!(std::fs::read(&path).unwrap(), b"newer");
    let recovered = recover(&place.options, true).unwrap();
    assert_eq!(recovered[0].outcome, Outcome::Replayed { records: 3, data_bytes: 15 });
}

#[test]
fn file_written_in_a_later_boot_than_its_log_is_kept_until_forced() {
    let place = Place::new();
    let (path, mut file) = place.file("log");
    left_with(&place, &path, Some(OLD_S * 1000), |_| {});
    file.write_all(b"newer").unwrap();
    written_at(&path, OLD_S + 3600);
    assert_eq!(recover(&place.options, false).unwrap()[0].outcome, Outcome::WrittenSince);
    assert_eq!(std::fs::read(&path).unwrap(), b"newer");
    written_at(&path, OLD_S + 1);
    let recovered = recover(&place.options, false).unwrap();
    assert_eq!(recovered[0].outcome, Outcome::Replayed { records: 3, data_bytes: 15 });
}

#[test]
fn file_written_in_a_later_boot_than_its_dax_copy_is_kept_until_forced() {
    let place = Place::new();
    let (path, mut file) = place.file("log");
    left_with(&place, &path, None, |was| was.kind = Kind::Resident);
    let with_resident = |now_ms| {
        let region = open(&place.options.region, &place.options.opening).unwrap();
        let uid = rustix::process::geteuid().as_raw();
        let partition = region.partition(TABLE_BYTES..region.len_bytes(), uid).unwrap();
        let resident =
            ResidentFile::new(partition.window(), RingPlace { at: 0, len_bytes: 1 << 20, identity: 5 })
                .unwrap();
        resident.announce(now_ms).unwrap();
        resident.fill(0, b"resident").unwrap();
        resident.begin(7).unwrap();
    };
    file.write_all(b"newer").unwrap();
    written_at(&path, OLD_S + 3600);
    with_resident(OLD_S * 1000);
    assert_eq!(recover(&place.options, false).unwrap()[0].outcome, Outcome::WrittenSince);
    assert_eq!(std::fs::read(&path).unwrap(), b"newer");
    with_resident((OLD_S + 3590) * 1000);
    assert_eq!(recover(&place.options, false).unwrap()[0].outcome, Outcome::Returned { data_bytes: 7 });
}

#[test]
fn log_announces_until_when_its_file_may_be_written() {
    let place = Place::new();
    let _daemon = place.start();
    let session = place.session();
    let (path, file) = place.file("log");
    let opened = open_file(&session, &file);
    absorbed(&opened, &file);
    write(&opened, &file, 0, b"x");
    let ring = Ring::new(session.memory(), opened.entry().ring()).unwrap();
    let until = std::time::Duration::from_millis(ring.written_until_ms().unwrap().unwrap());
    let written = std::fs::metadata(&path).unwrap().modified().unwrap();
    assert!(until > written.duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap());
}

#[test]
fn file_on_a_renumbered_disk_is_found_after_a_reboot() {
    let place = Place::new();
    let (path, _file) = place.file("log");
    make_old(&path);
    left_with(&place, &path, None, |was| was.key.device += 1);
    let recovered = recover(&place.options, false).unwrap();
    assert_eq!(recovered[0].outcome, Outcome::Replayed { records: 3, data_bytes: 15 });
}

#[test]
fn log_is_not_written_to_a_file_that_changed_owner() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let place = Place::new();
    let (path, _file) = place.file("log");
    left_by_another_boot(&place, &path);
    std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
    make_old(&path);
    let recovered = recover(&place.options, true).unwrap();
    assert!(matches!(recovered[0].outcome, Outcome::Failed { .. }), "{recovered:?}");
    assert_eq!(std::fs::read(&path).unwrap(), b"");
}

#[test]
fn renamed_file_is_found_and_removed_file_is_reported_missing() {
    let place = Place::new();
    let (path, _file) = place.file("log");
    make_old(&path);
    left_by_another_boot(&place, &path);
    let aside = place.folder.path().join("aside");
    std::fs::create_dir(&aside).unwrap();
    std::fs::rename(&path, aside.join("log")).unwrap();
    std::fs::write(&path, b"another file").unwrap();
    assert_eq!(recover(&place.options, false).unwrap()[0].outcome, Outcome::Missing);
    let renamed = place.folder.path().join("renamed");
    std::fs::rename(aside.join("log"), &renamed).unwrap();
    let recovered = recover(&place.options, false).unwrap();
    assert_eq!(
        (&recovered[0].path, &recovered[0].outcome),
        (&renamed, &Outcome::Replayed { records: 3, data_bytes: 15 })
    );
    assert_eq!(std::fs::read(&path).unwrap(), b"another file");
}

#[test]
fn log_of_a_removed_file_is_freed_by_forget() {
    let place = Place::new();
    let (path, _file) = place.file("log");
    left_by_another_boot(&place, &path);
    std::fs::remove_file(&path).unwrap();
    for _ in 0..2 {
        assert_eq!(recover(&place.options, true).unwrap()[0].outcome, Outcome::Missing);
    }
    assert_eq!(forget(&place.options, false).unwrap()[0].outcome, Outcome::Forgotten);
    assert!(recover(&place.options, false).unwrap().is_empty());
}

#[test]
fn log_that_can_be_written_back_is_not_forgotten() {
    let place = Place::new();
    let (path, mut file) = place.file("log");
    left_by_another_boot(&place, &path);
    file.write_all(b"newer").unwrap();
    assert_eq!(forget(&place.options, false).unwrap()[0].outcome, Outcome::WrittenSince);
    make_old(&path);
    let recovered = forget(&place.options, false).unwrap();
    assert_eq!(recovered[0].outcome, Outcome::Replayed { records: 3, data_bytes: 15 });
}

#[test]
fn refused_removal_of_a_region_removes_nothing() {
    let place = Place::new();
    let (path, _) = place.file("log");
    left_by_another_boot(&place, &path);
    std::fs::remove_file(&path).unwrap();
    // Before it, another user's partition without logs.
    let other = format!("region.slice-0-4096-{}", rustix::process::geteuid().as_raw() + 1);
    std::fs::write(place.folder.path().join(other), []).unwrap();
    let names = || {
        let files = std::fs::read_dir(place.folder.path()).unwrap();
        files.map(|file| file.unwrap().file_name()).collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(recover(&place.options, false).unwrap()[0].outcome, Outcome::Missing);
    let before = names();
    let error = remove(&place.options).unwrap_err();
    assert!(matches!(error, DaemonError::Used { .. }), "{error}");
    assert_eq!(names(), before);
    forget(&place.options, false).unwrap();
    remove(&place.options).unwrap();
    assert!(names().is_empty(), "{:?}", names());
}

#[test]
fn removed_file_of_this_boot_is_synced_with_its_file_system() {
    let place = Place::new();
    let (path, _file) = place.file("log");
    left_by(&place, &path, byway_sys::boot::boot_id().unwrap());
    std::fs::remove_file(&path).unwrap();
    assert_eq!(recover(&place.options, false).unwrap()[0].outcome, Outcome::Synced);
    assert!(recover(&place.options, false).unwrap().is_empty());
}

#[test]
fn region_with_a_damaged_slot_is_not_served_until_forgotten() {
    let place = Place::new();
    let (path, _file) = place.file("log");
    make_old(&path);
    left_by_another_boot(&place, &path);
    let damaged = TABLE_BYTES / u64::from(SLOTS) * 3 + 20;
    {
        let region = open(&place.options.region, &place.options.opening).unwrap();
        region.window().write(damaged, &[0xff]).unwrap();
    }
    let refused = Daemon::start(place.options.clone()).unwrap_err();
    assert!(matches!(&refused, DaemonError::Damaged(slots) if *slots == [3]), "{refused}");
    let outcomes = |is_forced: bool| -> Vec<Outcome> {
        let recovered = recover(&place.options, is_forced).unwrap();
        recovered.into_iter().map(|file| file.outcome).collect()
    };
    assert_eq!(outcomes(false), [Outcome::DamagedSlot { slot: 3, is_freed: false }]);
    assert_eq!(outcomes(true), [Outcome::DamagedSlot { slot: 3, is_freed: true }]);
    assert_eq!(outcomes(false), []);
    drop(place.start());
}
