//! Values through windows of device memory: nothing acknowledged is overwritten by what is stored after it.

use byway::embedded::EmbeddedDevice;
use byway::{BackendQueue, Command, Key, KvCommand, Nsid, Payload};
use byway_kit::pattern;

fn device(policy: &str) -> EmbeddedDevice {
    byway::embedded::open(&format!("ram:64M?profile=gen5x8-cxl&{policy}")).unwrap()
}

/// Puts values of these lengths and reads all back after each of the last ones.
fn put_and_check(device: &EmbeddedDevice, lengths: &[usize]) {
    let mut kv = device.kv(None).unwrap();
    for (n, len) in lengths.iter().enumerate() {
        kv.put(&(n as u32).to_be_bytes(), &pattern(n as u64, *len)).unwrap();
    }
    for (n, len) in lengths.iter().enumerate() {
        let got = kv.get(&(n as u32).to_be_bytes()).unwrap();
        assert!(got.as_deref() == Some(&pattern(n as u64, *len)[..]), "value {n} of {len} bytes");
    }
}

#[test]
fn values_placed_far_ahead_by_dma_do_not_lead_a_store_over_a_page_in_use() {
    let device = device("transfer=adaptive&policy=threshold&tau=4096&below=cxl");
    for (large, small) in [(4096, 700), (5000, 3500), (8192, 300), (12_188, 4000), (126_876, 4000)] {
        // One value in the first page, then values by DMA as far as the window goes, then small ones, which fill the
        // gap or go on behind the last large one.
        let mut lengths = vec![1000];
        lengths.extend([large; 40]);
        lengths.extend([small; 40]);
        lengths.extend([large, small, large, small]);
        put_and_check(&device, &lengths);
    }
}

#[test]
fn a_queue_without_a_window_takes_other_methods_where_it_may_choose() {
    let device = device("transfer=adaptive&policy=time");
    let mut queues: Vec<_> = (0..40).map(|_| device.kv(None).unwrap()).collect();
    for (n, kv) in queues.iter_mut().enumerate() {
        for len in [20, 400, 3000, 9000] {
            kv.put(&(n as u32).to_be_bytes(), &pattern(n as u64, len)).unwrap();
        }
        assert_eq!(kv.get(&(n as u32).to_be_bytes()).unwrap(), Some(pattern(n as u64, 9000)));
    }
}

#[test]
fn a_queue_that_finds_no_window_says_how_many_there_are() {
    let device = device("transfer=cxl");
    let mut queues: Vec<_> = (0..17).map(|_| device.kv(None).unwrap()).collect();
    let said = queues.iter_mut().find_map(|kv| kv.put(b"k", b"value").err()).unwrap().to_string();
    assert!(said.contains("all 16 windows of namespace 1"), "{said}");
    queues.truncate(3);
    device.kv(None).unwrap().put(b"k", b"value").unwrap();
}

#[test]
fn raw_store_keeps_the_window_pointers_of_host_and_device_equal() {
    let device = device("transfer=cxl");
    let mut kv = device.kv(None).unwrap();
    kv.put(b"a", &pattern(1, 500)).unwrap();
    let mut entry = byway_spec::Command::new(0x01, 0, Nsid::FIRST.get());
    let key = Key::new(b"b").unwrap();
    entry.set_key(key.padded());
    (entry.cdw10, entry.cdw11) = (5000, 1);
    let data = byway::RawData::ToDevice(Payload::copy_of(&pattern(2, 5000)).unwrap());
    kv.queue().execute(byway::RawCommand { entry, data }.into()).unwrap();
    for n in 3..20 {
        kv.put(&[n], &pattern(n.into(), 700)).unwrap();
    }
    assert_eq!(kv.get(b"b").unwrap(), Some(pattern(2, 5000)));
    for n in 3..20 {
        assert_eq!(kv.get(&[n]).unwrap(), Some(pattern(n.into(), 700)));
    }
}

#[test]
fn outstanding_window_stores_never_overlap() {
    for run in ["caller", "thread"] {
        let device = device(&format!("transfer=cxl&run={run}"));
        let mut kv = device.kv(None).unwrap();
        let len = |n: usize| [60_000, 100, 33_000, 65_000, 16_000, 7, 50_000][n % 7];
        let queue = kv.queue();
        for n in 0..210 {
            let put = KvCommand::Store {
                nsid: Nsid::FIRST,
                key: Key::new(&(n as u32).to_be_bytes()).unwrap(),
                value: Payload::copy_of(&pattern(n as u64, len(n))).unwrap(),
                options: byway::StoreOptions::NONE,
            };
            let mut command = Command::from(put);
            while let Err(refused) = queue.submit(command, n as u64) {
                command = refused.command;
                queue.poll(usize::MAX, &mut |done| drop(done.result.unwrap())).unwrap();
            }
        }
        queue.drain(&mut |done| drop(done.result.unwrap())).unwrap();
        for n in 0..210 {
            assert!(
                kv.get(&(n as u32).to_be_bytes()).unwrap() == Some(pattern(n as u64, len(n))),
                "{run} {n}"
            );
        }
    }
}
