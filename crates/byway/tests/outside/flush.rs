//! What `flush=` makes of puts: the same answers, later.

use std::time::Duration;

use byway::embedded::EmbeddedQueue;
use byway::{BackendQueue, CreateOptions, FlushMode, Key, KvCommand, Nsid, Payload, StoreOptions};

const MODES: [&str; 5] = [
    "flush=process",
    "flush=command",
    "flush=media",
    "flush=media&run=thread",
    "flush=media&clock=virtual&profile=cosmos",
];

fn image(dir: &tempfile::TempDir) -> String {
    let path = dir.path().join("image");
    byway::create(&path, &CreateOptions::new(64 << 20)).unwrap();
    format!("embedded:{}", path.display())
}

fn store(queue: &mut EmbeddedQueue, thread: u32, n: u32) {
    let store = KvCommand::Store {
        nsid: Nsid::FIRST,
        key: Key::new(&[thread.to_be_bytes(), n.to_be_bytes()].concat()).unwrap(),
        value: Payload::copy_of(&n.to_be_bytes()).unwrap(),
        options: StoreOptions::NONE,
    };
    queue.submit(store.into(), u64::from(n)).unwrap();
}

#[test]
fn puts_are_there_under_every_mode_and_at_the_next_opening() {
    for mode in MODES {
        let dir = tempfile::tempdir().unwrap();
        let image = image(&dir);
        let uri = format!("{image}?{mode}");
        let device = byway::embedded::open(&uri).unwrap();
        let mut kv = device.kv(None).unwrap();
        for n in 0u32..30 {
            kv.put(&n.to_be_bytes(), &[n as u8; 40]).unwrap();
        }
        assert!(kv.delete(&3u32.to_be_bytes()).is_ok());
        drop((kv, device));
        let mut kv = byway::embedded::open(&uri).unwrap().kv(None).unwrap();
        for n in 0u32..30 {
            let found = kv.get(&n.to_be_bytes()).unwrap();
            assert_eq!(found, (n != 3).then(|| vec![n as u8; 40]), "{mode}");
        }
    }
}

#[test]
fn threads_that_wait_for_each_others_syncs_lose_nothing() {
    for mode in ["flush=media", "flush=media&run=thread"] {
        let dir = tempfile::tempdir().unwrap();
        let device = byway::embedded::open(&format!("{}?{mode}&depth=16", image(&dir))).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let mut queue = device.queue().unwrap();
                scope.spawn(move || {
                    let mut done = 0;
                    for n in 0..160 {
                        store(&mut queue, thread, n);
                        if n % 16 == 15 {
                            while queue.outstanding() > 0 {
                                let taken = queue.wait(1, Duration::from_secs(60), &mut |finished| {
                                    finished.result.unwrap();
                                });
                                done += taken.unwrap();
                            }
                        }
                    }
                    assert_eq!(done, 160);
                });
            }
        });
    }
}

#[test]
fn a_host_that_only_polls_is_answered() {
    let dir = tempfile::tempdir().unwrap();
    let device = byway::embedded::open(&format!("{}?flush=media", image(&dir))).unwrap();
    let mut queue = device.queue().unwrap();
    (0..8).for_each(|n| store(&mut queue, 0, n));
    let mut done = 0;
    while done < 8 {
        done += queue.poll(8, &mut |finished| drop(finished.result.unwrap())).unwrap();
    }
}

#[test]
fn a_device_says_what_its_acknowledgements_mean() {
    for (mode, wanted, word) in [
        ("process", FlushMode::Process, "death of the process"),
        ("command", FlushMode::Command, "no Flush command covered"),
        ("media", FlushMode::Media, "synced before the completion"),
    ] {
        let device = byway::embedded::open(&format!("ram:64M?flush={mode}")).unwrap();
        assert_eq!(device.flush_mode(), wanted);
        assert!(device.flush_mode().meaning().contains(word));
    }
    let refused = byway::embedded::open("ram:64M?flush=always").err().unwrap().to_string();
    assert!(refused.contains("process or command or media"), "{refused}");
}
