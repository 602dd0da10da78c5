//! Queues of one namespace: a command by a line each.

use byway::{Backend, BackendQueue, Buffer, ErrorKind, Key, Payload, StoreOptions};

#[test]
fn nvm_queue_reads_what_it_wrote_by_tag() {
    let device = byway::open("ram:64M").unwrap();
    let mut queue = device.nvm_queue(None).unwrap();
    let lba_bytes = queue.lba_bytes() as usize;
    for tag in 0..8 {
        queue.write(tag, Buffer::copy_of(&vec![tag as u8 + 1; lba_bytes]).unwrap(), tag).unwrap();
    }
    queue.flush(8).unwrap();
    while let Some(done) = queue.wait_next().unwrap() {
        done.result.unwrap();
    }
    queue.trim(3, 1, 0).unwrap();
    queue.write_zeroes(4, 1, 1).unwrap();
    queue.queue().drain(&mut |done| drop(done.result.unwrap())).unwrap();

    for tag in 0..8 {
        queue.read(tag, device.buffer(lba_bytes).unwrap(), tag).unwrap();
    }
    let mut read = 0;
    while let Some(done) = queue.wait_next().unwrap() {
        let wanted = if [3, 4].contains(&done.tag) { 0 } else { done.tag as u8 + 1 };
        assert_eq!(done.result.unwrap().buffer.unwrap().as_slice(), vec![wanted; lba_bytes]);
        read += 1;
    }
    assert_eq!(read, 8);
}

#[test]
fn nvm_queue_gives_the_buffer_back_where_its_length_is_no_whole_number_of_blocks() {
    let device = byway::open("ram:64M").unwrap();
    let mut queue = device.nvm_queue(None).unwrap();
    let refused = queue.read(0, Buffer::zeroed(100).unwrap(), 1).unwrap_err();
    assert_eq!(refused.error.kind(), ErrorKind::InvalidArgument);
    assert_eq!(refused.command.into_buffer().unwrap().len(), 100);
    assert!(queue.wait_next().unwrap().is_none(), "nothing is outstanding");
}

#[test]
fn kv_queue_stores_retrieves_and_deletes_by_tag() {
    let device = byway::open("ram:64M").unwrap();
    let mut queue = device.kv_queue(None).unwrap();
    let key = Key::new(b"0041").unwrap();
    let mut kind_of = |act: &mut dyn FnMut(&mut byway::KvQueue)| {
        act(&mut queue);
        let done = queue.wait_next().unwrap().unwrap();
        assert_eq!(done.tag, 7);
        done.result.map_err(|failed| failed.error.kind())
    };
    kind_of(&mut |queue| queue.store(key, Payload::copy_of(b"LATIN").unwrap(), 7).unwrap()).unwrap();
    kind_of(&mut |queue| queue.exist(key, 7).unwrap()).unwrap();
    let into = || Buffer::zeroed(64).unwrap();
    let read = kind_of(&mut |queue| queue.retrieve(key, into(), 7).unwrap()).unwrap();
    assert_eq!((read.dw0(), &read.buffer.unwrap().as_slice()[..5]), (5, &b"LATIN"[..]));

    let absent = StoreOptions::NONE.must_not_exist(true);
    let again = kind_of(&mut |queue| queue.store_if(key, Payload::Empty, absent, 7).unwrap());
    assert_eq!(again.unwrap_err(), ErrorKind::KeyExists);
    kind_of(&mut |queue| queue.delete(key, 7).unwrap()).unwrap();
    assert_eq!(kind_of(&mut |queue| queue.exist(key, 7).unwrap()).unwrap_err(), ErrorKind::KeyNotFound);
}

#[test]
fn namespace_queues_are_refused_for_the_other_kind() {
    let device = byway::open("ram:64M").unwrap();
    let (kv, nvm) = (device.kv_namespace(None).unwrap(), device.nvm_namespace(None).unwrap());
    assert!(device.nvm_queue(Some(kv.nsid)).is_err());
    assert!(device.kv_queue(Some(nvm.nsid)).is_err());
}
