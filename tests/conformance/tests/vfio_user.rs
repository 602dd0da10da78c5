//! The suite over a device that a server serves at a socket, by this library's own driver.

#![allow(clippy::unwrap_used)]

use std::num::NonZeroU16;
use std::path::PathBuf;
use std::time::Duration;

use byway::serve::{Idle, ServeOptions};
use byway::{BackendQueue, CreateOptions, ErrorKind, Kv, Method, NewNamespace, Nsid, QueueOptions};
use byway_conformance::conformance;
use byway_conformance::keys::every_inline_read;
use byway_conformance::ranges::{every_range, without_commands};
use byway_conformance::scratch::Scratch;
use byway_conformance::served::{Served, Serving};
use byway_conformance::subject::{Subject, assert_same};
use byway_core::{Backend, Finished};

/// A socket beside the scratch file.
fn socket(scratch: &Scratch) -> PathBuf {
    scratch.path.with_file_name("socket")
}

/// A device with a namespace of blocks alone, in an image in place of the scratch file.
fn opened(scratch: &Scratch) -> impl Backend + use<> {
    served(scratch, &ServeOptions::at(socket(scratch)))
}

/// The same, whose queues several threads share.
fn opened_by_threads(scratch: &Scratch) -> impl Backend + use<> {
    served(scratch, &by_threads(scratch, 2, Idle::Sleep))
}

/// The same, with doorbells in shared memory.
fn opened_by_threads_that_poll(scratch: &Scratch) -> impl Backend + use<> {
    served(scratch, &by_threads(scratch, 2, Idle::Poll))
}

fn by_threads(scratch: &Scratch, threads: u16, idle: Idle) -> ServeOptions {
    let threads = NonZeroU16::new(threads).unwrap();
    ServeOptions::at(socket(scratch)).threads(threads).idle(idle)
}

fn served(scratch: &Scratch, options: &ServeOptions) -> Served {
    std::fs::remove_file(&scratch.path).unwrap();
    let namespaces = vec![NewNamespace::NVM];
    let create = CreateOptions::new(2 * Scratch::BYTES).namespaces(namespaces);
    byway::create(&scratch.path, &create).unwrap();
    Served::open_with(&format!("embedded:{}", scratch.path.display()), options)
}

conformance!(vfio_user, opened);
conformance!(vfio_user_by_threads, opened_by_threads);
conformance!(vfio_user_by_threads_that_poll, opened_by_threads_that_poll);

#[test]
fn ranges_and_many_keys_of_a_device_in_another_process() {
    let scratch = Scratch::new();
    let path = socket(&scratch);
    let _serving = Serving::start("ram:256M", &path);
    let device = byway::open(&format!("vfio-user:{}", path.display())).unwrap();
    let mut kv = device.kv(None).unwrap();
    assert!(kv.can().scan && kv.can().retrieve_many);
    every_range(&mut kv);
    every_range(&mut without_commands(kv, device.capabilities()));
}

#[test]
fn every_transfer_method_carries_values_to_a_device_in_another_process() {
    let scratch = Scratch::new();
    let path = socket(&scratch);
    let _serving = Serving::start("ram:128M", &path);
    for method in Method::ALL {
        let uri = format!("vfio-user:{}?transfer={method}", path.display());
        let device = byway::open(&uri).unwrap();
        let mut kv = device.kv(None).unwrap();
        for len in [0_u32, 1, 35, 36, 64, 100, 4095, 4096, 4097, 8000] {
            let value: Vec<u8> = (0..len).map(|at| (at * 7 + len) as u8).collect();
            let key = len.to_be_bytes();
            kv.put(&key, &value).unwrap_or_else(|error| panic!("{method} {len}: {error}"));
            assert_eq!(kv.get(&key).unwrap().as_ref(), Some(&value), "{method} {len}");
        }
        assert_eq!(device.chosen().backend, "vfio-user");
    }
}

#[test]
fn inline_reads_of_a_device_in_another_process() {
    let scratch = Scratch::new();
    let path = socket(&scratch);
    let ways =
        [ServeOptions::at(&path), by_threads(&scratch, 2, Idle::Sleep), by_threads(&scratch, 2, Idle::Poll)];
    for options in &ways {
        let _serving = Serving::start_with("ram:64M", options);
        for ring in [4, 16, 256] {
            let uri = format!("vfio-user:{}?transfer=prp&ring={ring}&inline-read=on", path.display());
            let device = byway::open(&uri).unwrap();
            let plain = Backend::queue(&device, device.queue_options().inline_reads(false)).unwrap();
            let mut plain = Kv::new(plain, &device.kv_namespace(None).unwrap()).unwrap();
            every_inline_read(&mut device.kv(None).unwrap(), &mut plain);
        }
    }
}

#[test]
fn values_in_device_memory_and_by_dma_share_a_window_with_a_device_in_another_process() {
    let scratch = Scratch::new();
    let path = socket(&scratch);
    let _serving = Serving::start("ram:64M", &path);
    let options = "transfer=adaptive&policy=threshold&tau=4096&below=cxl";
    let device = byway::open(&format!("vfio-user:{}?{options}", path.display())).unwrap();
    let mut kv = device.kv(None).unwrap();
    let value = |n: u32, len: usize| -> Vec<u8> { (0..len).map(|at| (at * 7) as u8 ^ n as u8).collect() };
    let length = |n: u32| [1000, 4096, 700, 12_188, 300, 64][n as usize % 6];
    for n in 0..400_u32 {
        kv.put(&n.to_be_bytes(), &value(n, length(n))).unwrap();
    }
    for n in 0..400_u32 {
        assert!(kv.get(&n.to_be_bytes()).unwrap().as_ref() == Some(&value(n, length(n))), "{n}");
    }
}

#[test]
fn values_in_device_memory_are_in_the_image_after_the_server_ends() {
    let scratch = Scratch::new();
    let path = socket(&scratch);
    std::fs::remove_file(&scratch.path).unwrap();
    byway::create(&scratch.path, &CreateOptions::new(64 << 20)).unwrap();
    let image = format!("embedded:{}", scratch.path.display());
    for round in 0..3_u32 {
        let serving = Serving::start(&image, &path);
        let device = byway::open(&format!("vfio-user:{}?transfer=cxl", path.display())).unwrap();
        let mut kv = device.kv(None).unwrap();
        for n in 0..100_u32 {
            kv.put(&(round * 100 + n).to_be_bytes(), &[n as u8; 333]).unwrap();
        }
        drop((kv, device, serving));
    }
    let device = byway::embedded::open(&image).unwrap();
    let mut kv = device.kv(None).unwrap();
    for key in 0..300_u32 {
        assert_eq!(kv.get(&key.to_be_bytes()).unwrap().unwrap(), [(key % 100) as u8; 333], "{key}");
    }
}

#[test]
fn sixty_four_queue_pairs_work_at_once_each_with_an_interrupt_of_its_own() {
    const QUEUES: u64 = 64;
    const DEPTH: u64 = 8;
    let scratch = Scratch::new();
    let served = opened(&scratch);
    let subject = Subject::new(&scratch, &served);
    let mut queues: Vec<_> = (0..QUEUES).map(|_| subject.queue(DEPTH as u32)).collect();
    let place = |queue: u64, tag: u64| queue * DEPTH + tag;
    let salt = |queue: u64| queue as u8 | 1;
    for (index, queue) in (0..).zip(&mut queues) {
        for tag in 0..DEPTH {
            let at = place(index, tag);
            queue.submit(subject.write(at, subject.filled(at, 1, salt(index))), tag).unwrap();
        }
    }
    queues.iter_mut().for_each(|queue| assert_eq!(woken_for_all(queue).len() as u64, DEPTH));
    for (index, queue) in (0..).zip(&mut queues) {
        (0..DEPTH).for_each(|tag| queue.submit(subject.read(place(index, tag), 1), tag).unwrap());
    }
    for (index, queue) in (0..).zip(&mut queues) {
        for finished in woken_for_all(queue) {
            let wanted = subject.filled(place(index, finished.tag), 1, salt(index));
            let read = finished.result.unwrap().buffer.unwrap();
            assert_same(read.as_slice(), wanted.as_slice());
        }
    }
}

/// What a queue finishes, taken whenever its descriptor says that there is something.
fn woken_for_all(queue: &mut impl BackendQueue) -> Vec<Finished> {
    let mut finished = Vec::new();
    queue.start().unwrap();
    while queue.outstanding() > 0 {
        let event = queue.event().unwrap();
        assert!(byway_sys::wait_readable(event, Duration::from_secs(20)).unwrap(), "no waiter was woken");
        finished.extend(std::iter::from_fn(|| queue.next_finished().unwrap()));
    }
    finished
}

/// Writes and reads of blocks by several threads of a host at once, each with a queue of its own, under admin commands.
fn work_by_threads(scratch: &Scratch, idle: Idle) {
    const THREADS: u64 = 5;
    const ROUNDS: u64 = 40;
    const DEPTH: u64 = 16;
    let served = served(scratch, &by_threads(scratch, 3, idle));
    let blocks = Nsid::FIRST;
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (served, block) = (&served, move |n: u64| vec![(n + thread) as u8 | 1; 4096]);
            scope.spawn(move || {
                let options = QueueOptions::default().depth(DEPTH as u32);
                let mut queue = served.queue(options).unwrap();
                for round in 0..ROUNDS {
                    for n in 0..DEPTH {
                        let slba = (thread * DEPTH + n) * 8;
                        queue.execute_write(blocks, slba, 512, &block(n + round)).unwrap();
                    }
                    for n in 0..DEPTH {
                        let mut read = vec![0; 4096];
                        queue.execute_read(blocks, (thread * DEPTH + n) * 8, 512, &mut read).unwrap();
                        assert_eq!(read, block(n + round));
                    }
                    if round % 16 == thread {
                        served.namespaces().unwrap();
                    }
                }
            });
        }
    });
}

#[test]
fn threads_of_a_server_share_many_queues_beside_admin_commands() {
    work_by_threads(&Scratch::new(), Idle::Sleep);
    work_by_threads(&Scratch::new(), Idle::Poll);
}

#[test]
fn threads_of_a_server_share_queues_of_keys() {
    for idle in [Idle::Sleep, Idle::Poll] {
        let scratch = Scratch::new();
        let options = by_threads(&scratch, 3, idle);
        let _serving = Serving::start_with("ram:128M", &options);
        let device =
            byway::open(&format!("vfio-user:{}", options.vfio_user.as_ref().unwrap().display())).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..5_u32 {
                let device = &device;
                scope.spawn(move || {
                    let mut kv = device.kv(None).unwrap();
                    for n in 0..600_u32 {
                        let key = [thread.to_be_bytes(), (n % 50).to_be_bytes()].concat();
                        let value = vec![(n + thread) as u8; 20 + n as usize % 300];
                        kv.put(&key, &value).unwrap();
                        assert_eq!(kv.get(&key).unwrap().as_ref(), Some(&value));
                    }
                });
            }
        });
    }
}

#[test]
fn several_threads_are_refused_where_one_has_to_serve_every_queue() {
    let scratch = Scratch::new();
    for uri in ["ram:64M?clock=paced", "ram:64M?flush=media"] {
        let error = byway::serve::serve(uri, &by_threads(&scratch, 2, Idle::Sleep)).unwrap_err();
        assert!(error.to_string().contains("one thread"), "{error}");
    }
}

#[test]
fn values_of_one_client_are_read_by_the_next() {
    let scratch = Scratch::new();
    let path = socket(&scratch);
    let _serving = Serving::start("ram:64M", &path);
    let open = || byway::open(&format!("vfio-user:{}", path.display())).unwrap();
    for round in 0_u32..4 {
        let device = open();
        let mut kv = device.kv(None).unwrap();
        for before in 0..round {
            assert_eq!(kv.get(&before.to_be_bytes()).unwrap().unwrap(), b"value");
        }
        kv.put(&round.to_be_bytes(), b"value").unwrap();
    }
}

#[test]
fn a_server_that_ends_leaves_errors_and_no_hang() {
    let scratch = Scratch::new();
    let path = socket(&scratch);
    let serving = Serving::start("ram:64M", &path);
    let device = byway::open(&format!("vfio-user:{}", path.display())).unwrap();
    let mut kv = device.kv(None).unwrap();
    kv.put(b"key", b"value").unwrap();
    drop(serving);
    let lost = kv.put(b"key", b"value").unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::DeviceLost, "{lost}");
    assert_eq!(device.namespaces().unwrap_err().kind(), ErrorKind::DeviceLost);
    let again = byway::open(&format!("vfio-user:{}", path.display())).unwrap_err();
    assert!(again.to_string().contains("is the server started?"), "{again}");
}
