//! Refusals and their reasons.

use byway_tdm_region::{Domain, Opening, open};

use crate::support::{SIZE, emu, persistent};

fn refusal(description: &str, how: &Opening) -> String {
    open(description, how).unwrap_err().to_string()
}

#[test]
fn emulated_memory_is_volatile_unless_it_was_asked_to_count_as_persistent() {
    let place = emu("");
    let volatile = open(&place.description, &Opening::default()).unwrap();
    assert_eq!(volatile.domain(), Domain::Volatile);
    assert!(volatile.why().contains("--emulate-persistence"), "{}", volatile.why());
    drop(volatile);
    let asked = place.open();
    assert!(asked.domain() == Domain::LineFlush && asked.is_emulated());
    assert!(asked.why().contains("not a loss of power"), "{}", asked.why());
}

#[test]
fn no_option_makes_emulated_memory_persistent() {
    let place = emu("&domain=cpu_cache");
    assert!(refusal(&place.description, &Opening::default()).contains("does not survive a loss of power"));
    assert_eq!(place.open().domain(), Domain::CpuCache, "once it may be, it says which");
}

#[test]
fn a_file_on_an_ordinary_file_system_is_no_fsdax_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let why = refusal(&format!("fsdax:{}?size=1M", folder.path().display()), &Opening::default());
    assert!(why.contains("not on a DAX mount: statx does not say DAX"), "{why}");
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}

#[test]
fn a_file_is_no_devdax() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let why = refusal(&format!("devdax:{}", file.path().display()), &Opening::default());
    assert!(why.contains("no character device"), "{why}");
}

#[test]
fn a_character_device_that_sysfs_does_not_know_is_no_devdax() {
    let why = refusal("devdax:/dev/zero", &Opening::default());
    assert!(why.contains("no DAX device") && why.contains("bus/dax/devices/zero"), "{why}");
}

#[test]
fn a_new_file_needs_a_length_and_an_old_one_is_not_cut_short() {
    let place = emu("");
    let without = place.description.split('?').next().unwrap();
    assert!(refusal(without, &persistent()).contains("size="));
    place.open();
    assert_eq!(open(without, &persistent()).unwrap().len_bytes(), SIZE);
    assert!(refusal(&format!("{without}?size=4K"), &persistent()).contains("more than size=4096"));
}

#[test]
fn a_disk_without_room_is_an_error_and_no_signal() {
    let place = emu("");
    let path = place.description.split('?').next().unwrap();
    let error = open(&format!("{path}?size=1000T"), &persistent()).unwrap_err();
    assert!(error.to_string().contains("take room for all of it"), "{error}");
}

#[test]
fn a_new_region_that_many_open_at_once_has_one_owner_and_its_file() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..50 {
        let path = folder.path().join(format!("region-{round}"));
        let description = format!("emu:{}?size=1M", path.display());
        let begin = std::sync::Barrier::new(4);
        let opened: Vec<_> = std::thread::scope(|scope| {
            let open = || {
                begin.wait();
                open(&description, &persistent())
            };
            let openers: Vec<_> = (0..4).map(|_| scope.spawn(open)).collect();
            openers.into_iter().map(|opener| opener.join().unwrap()).collect()
        });
        assert_eq!(opened.iter().filter(|opened| opened.is_ok()).count(), 1, "{opened:?}");
        assert!(path.exists(), "an opener that was refused has removed the file of the owner");
    }
}
