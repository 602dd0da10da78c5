//! The kernel's interfaces: rings and threads are the parent's.

use std::time::Duration;

use byway::{Backend, BackendQueue, Command, Nsid, NvmCommand, open};

use crate::child::{fork, is_refused};

const BACKENDS: [&str; 5] = ["io_uring", "libaio", "posix_aio", "threads", "psync"];

fn write(block: u64, data: byway::Buffer) -> Command {
    NvmCommand::Write { nsid: Nsid::FIRST, slba: block, blocks: 8, data: data.into() }.into()
}

#[test]
fn queue_of_a_kernel_interface_finishes_after_a_child_dropped_its_copy() {
    let folder = tempfile::tempdir().unwrap();
    for backend in BACKENDS {
        let path = folder.path().join(backend);
        let uri = format!("file:{}?backend={backend}&create=1M", path.display());
        let mut device = Some(open(&uri).unwrap());
        let mut queue = Some(device.as_ref().unwrap().default_queue().unwrap());
        let buffer = |device: &Option<byway::Device>, byte: u8| {
            let mut buffer = device.as_ref().unwrap().buffer(4096).unwrap();
            buffer.as_mut_slice().fill(byte);
            buffer
        };
        let data = buffer(&device, 1);
        queue.as_mut().unwrap().submit(write(0, data), 1).unwrap();
        queue.as_mut().unwrap().start().unwrap();
        let child = fork(|| {
            let queue_refuses = is_refused(queue.as_mut().unwrap().next_finished());
            let device_refuses = is_refused(device.as_ref().unwrap().buffer(1));
            drop((queue.take(), device.take()));
            queue_refuses && device_refuses
        });
        assert!(child.was_right(), "{backend}");
        let (left, mut queue) = (device.take(), queue.take().unwrap());
        queue.submit(write(8, buffer(&left, 2)), 2).unwrap();
        let mut tags = Vec::new();
        while tags.len() < 2 {
            queue
                .wait(1, Duration::from_secs(60), &mut |finished| {
                    finished.result.unwrap();
                    tags.push(finished.tag);
                })
                .unwrap();
        }
        drop((queue, left));
        let kept = std::fs::read(&path).unwrap();
        assert!(kept[..4096] == [1; 4096] && kept[4096..8192] == [2; 4096], "{backend}");
    }
}
