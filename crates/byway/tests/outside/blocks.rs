//! Files and block devices by URI: which backend is chosen, what is refused and reported.

use std::path::PathBuf;

use byway::{Backend, BackendQueue, ErrorKind, Method, NamespaceKind, Nsid, Nvm, NvmCommand, QueueOptions};

fn scratch(bytes: u64) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("blocks");
    std::fs::File::create(&path).unwrap().set_len(bytes).unwrap();
    (folder, path)
}

fn error(uri: &str) -> (ErrorKind, String) {
    let error = byway::open(uri).unwrap_err();
    (error.kind(), error.to_string())
}

#[test]
fn a_file_is_read_and_written_as_blocks_by_its_path() {
    let (_folder, path) = scratch(1 << 20);
    let device = byway::open(path.to_str().unwrap()).unwrap();
    let mut blocks = device.nvm(None).unwrap();
    assert_eq!((blocks.lba_bytes(), blocks.blocks()), (512, 2048));
    blocks.write(7, &[9; 1024]).unwrap();
    blocks.flush().unwrap();
    let mut read = [0; 1536];
    blocks.read(6, &mut read).unwrap();
    assert_eq!((read[511], read[512], read[1535]), (0, 9, 9));
    assert_eq!(std::fs::read(&path).unwrap()[7 * 512..9 * 512], [9; 1024]);
}

#[test]
fn chosen_backend_is_reported_with_its_reason() {
    let (_folder, path) = scratch(1 << 20);
    let device = byway::open(&format!("file:{}?backend=psync", path.display())).unwrap();
    assert_eq!((device.name(), device.chosen().why.as_str()), ("psync", "it was asked for"));
    let embedded = byway::open("ram:64M").unwrap();
    assert_eq!(embedded.chosen().backend, "embedded");
    assert!(embedded.as_embedded().is_some() && device.as_embedded().is_none());
}

#[test]
fn every_kind_of_device_takes_the_same_commands() {
    let (_folder, path) = scratch(1 << 20);
    for (uri, nsid) in [(path.to_str().unwrap(), 1), ("nil:1M", 1), ("ram:64M", 2)] {
        let device = byway::open(uri).unwrap();
        let mut queue = device.default_queue().unwrap();
        let nsid = Nsid::new(nsid).unwrap();
        let NamespaceKind::Nvm { lba_bytes, .. } = device.namespace(nsid).unwrap().kind else {
            panic!("{uri}")
        };
        for tag in 0..10 {
            let into = device.buffer(lba_bytes as usize).unwrap();
            queue.submit(NvmCommand::Read { nsid, slba: tag, blocks: 1, into }.into(), tag).unwrap();
        }
        queue.drain(&mut |finished| drop(finished.result.unwrap())).unwrap();
    }
}

#[test]
fn a_block_is_compared_and_written_by_every_method_that_carries_it() {
    let device = byway::open("ram:64M").unwrap();
    let space = device.nvm_namespace(None).unwrap();
    for (n, transfer) in
        [Method::Prp, Method::Sgl, Method::Inline, Method::Hybrid, Method::Adaptive].iter().enumerate()
    {
        let options = device.queue_options().transfer(*transfer);
        let mut blocks = Nvm::new(device.queue(options).unwrap(), &space).unwrap();
        let (old, new) = ([n as u8; 512], [n as u8 + 1; 512]);
        assert!(blocks.compare_and_write(3, &old, &new).unwrap(), "{transfer}");
        assert!(!blocks.compare_and_write(3, &old, &[99; 512]).unwrap(), "{transfer}");
        let mut read = [0; 512];
        blocks.read(3, &mut read).unwrap();
        assert_eq!(read, new, "{transfer}");
    }
}

#[test]
fn impossible_compare_and_write_is_refused_in_a_sentence() {
    let refused = |uri: &str, ring_entries, transfer, [expected, new]: [&[u8]; 2]| {
        let device = byway::open(uri).unwrap();
        let space = device.nvm_namespace(None).unwrap();
        let options = QueueOptions::default().depth(1).ring_entries(ring_entries).transfer(transfer);
        let mut blocks = Nvm::new(device.queue(options).unwrap(), &space).unwrap();
        let error = blocks.compare_and_write(0, expected, new).unwrap_err();
        (error.kind(), error.to_string())
    };
    let (_folder, path) = scratch(1 << 20);
    let (one, two): ([u8; 512], [u8; 1024]) = ([0; 512], [0; 1024]);
    for (uri, ring, method, both, kind, said) in [
        ("ram:64M", Some(2), Method::Prp, [&one[..], &one], ErrorKind::TooLarge, "take 2 slots"),
        ("ram:64M", Some(16), Method::Inline, [&one, &one], ErrorKind::TooLarge, "take 18 slots"),
        ("ram:64M", None, Method::Prp, [&one, &two], ErrorKind::InvalidArgument, "two times 1 blocks"),
        ("ram:64M", Some(8), Method::Prp, [&two, &two], ErrorKind::Device, "Atomic Write Unit Exceeded"),
        (path.to_str().unwrap(), None, Method::Prp, [&one, &one], ErrorKind::Unsupported, "as one (fused)"),
    ] {
        let (was, error) = refused(uri, ring, method, both);
        assert!(was == kind && error.contains(said), "{uri}: {was:?} {error}");
    }
}

#[test]
fn plain_path_of_an_image_is_not_opened_as_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.img");
    byway::create(&path, &byway::CreateOptions::new(64 << 20)).unwrap();
    let (kind, said) = error(path.to_str().unwrap());
    assert_eq!(kind, ErrorKind::InvalidArgument);
    assert!(said.contains("embedded:"), "{said}");
    let device = byway::open(&format!("file:{}?readonly=1", path.display())).unwrap();
    let mut first = [0; 512];
    device.nvm(None).unwrap().read(0, &mut first).unwrap();
    assert_eq!(&first[..8], b"BYWAYIMG");
}

#[test]
fn path_without_a_block_device_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let there = |name: &str| folder.path().join(name).display().to_string();
    let (kind, said) = error(&there("nothing"));
    assert_eq!(kind, ErrorKind::NotFound);
    assert_eq!(said, format!("open {0}: {0} does not exist", there("nothing")));
    let (_, said) = error(folder.path().to_str().unwrap());
    assert!(said.contains("neither a file nor a block device"), "{said}");
    std::fs::write(there("short"), [0; 100]).unwrap();
    assert!(error(&there("short")).1.contains("no room for a block of 512 bytes"));
    let (_, said) = error(&format!("{}?backend=spdk", there("short")));
    assert!(said.contains("no backend \"spdk\"") && said.contains("io_uring, libaio, threads"), "{said}");
    assert!(error(&format!("{}?lba=1000", there("short"))).1.contains("power of two"));
}

#[test]
fn a_file_that_may_only_be_read_refuses_writes_when_it_was_opened_so() {
    let (_folder, path) = scratch(1 << 20);
    let device = byway::open(&format!("{}?readonly=1", path.display())).unwrap();
    let mut blocks = device.nvm(None).unwrap();
    blocks.read(0, &mut [0; 512]).unwrap();
    let refused = blocks.write(0, &[0; 512]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Denied);
    assert_eq!(blocks.trim(0, 1).unwrap_err().kind(), ErrorKind::Denied);
}

#[test]
fn a_file_is_made_where_it_is_asked_for_and_never_over_another() {
    let folder = tempfile::tempdir().unwrap();
    let uri = format!("{}?create=1M", folder.path().join("new").display());
    assert_eq!(byway::open(&uri).unwrap().nvm(None).unwrap().blocks(), 2048);
    assert!(error(&uri).1.contains("exists already"));
}

#[test]
fn an_option_of_one_backend_is_refused_by_another() {
    let (_folder, path) = scratch(1 << 20);
    let path = path.display();
    let device = byway::open(&format!("{path}?threads=2")).unwrap();
    assert_eq!(device.name(), "threads");
    let passed_over = &device.chosen().passed_over;
    assert!(passed_over.iter().any(|one| one.backend == "io_uring" && one.why.contains("option threads")));
    let (_, said) = error(&format!("{path}?backend=threads&fixed-file=on"));
    assert!(said.contains("option fixed-file means nothing to threads"), "{said}");
    let (_, said) = error(&format!("{path}?backend=psync&threads=2"));
    assert!(said.contains("option threads means nothing to psync"), "{said}");
    assert!(error("nil:1M?threads=2").1.contains("means nothing to null-backend"));
    assert!(error(&format!("{path}?threads=0")).1.contains("1 to 1024 threads"));
}

#[test]
fn every_backend_of_files_can_be_asked_for_by_its_name() {
    let (_folder, path) = scratch(1 << 20);
    for name in ["io_uring", "libaio", "threads", "psync", "posix_aio"] {
        let device = byway::open(&format!("{}?backend={name}&depth=8", path.display())).unwrap();
        assert_eq!(device.name(), name);
        let mut blocks = device.nvm(None).unwrap();
        blocks.write(3, &[7; 512]).unwrap();
        let mut read = [0; 1024];
        blocks.read(2, &mut read).unwrap();
        assert_eq!((read[511], read[512]), (0, 7));
    }
}

#[test]
fn blocks_in_memory_keep_what_is_written_and_have_no_controller() {
    let device = byway::open("blocks:1M").unwrap();
    assert_eq!(device.name(), "ram");
    let mut blocks = device.nvm(None).unwrap();
    blocks.write(3, &[7; 512]).unwrap();
    let mut read = [0; 1024];
    blocks.read(2, &mut read).unwrap();
    assert_eq!((read[511], read[512]), (0, 7));
    assert!(error("blocks:1M?backend=psync").1.contains("ramdisk:SIZE is served by ram"));
    assert!(error("blocks:1M?threads=2").1.contains("option threads means nothing to ram"));
    assert!(error("blocks:100").1.contains("no room for a block"));
}

#[test]
fn passthrough_backends_are_refused_for_other_than_nvme_nodes() {
    let (_folder, path) = scratch(1 << 20);
    let path = path.display();
    for backend in ["nvme_ioctl", "io_uring_cmd"] {
        for place in [format!("{path}"), format!("file:{path}"), "/dev/null".into()] {
            let (kind, said) = error(&format!("{place}?backend={backend}"));
            assert_eq!(kind, ErrorKind::Unsupported, "{said}");
            assert!(said.contains("is no node of an NVMe device"), "{said}");
        }
        let (kind, said) = error(&format!("/dev/ng77n1?backend={backend}"));
        assert_eq!(kind, ErrorKind::NotFound, "{said}");
        let (_, said) = error(&format!("{path}?backend={backend}&lba=4K"));
        assert!(said.contains("option lba means nothing where commands are passed through"), "{said}");
    }
    let (_, said) = error(&format!("{path}?backend=io_uring&transfer=piggyback-pt"));
    assert!(said.contains("option transfer means nothing to io_uring"), "{said}");
    let (_, said) = error("/dev/null");
    assert!(said.contains("is no node of an NVMe device"), "{said}");
}

#[test]
fn threads_pass_commands_through_where_a_character_device_takes_them_and_move_blocks_elsewhere() {
    let (_, said) = error("/dev/null?backend=threads&threads=2&transfer=adaptive");
    assert!(said.contains("is no node of an NVMe device"), "{said}");
    let (_folder, path) = scratch(1 << 20);
    let path = path.display();
    let device = byway::open(&format!("{path}?backend=threads&threads=2")).unwrap();
    assert!(!device.capabilities().raw_commands || !device.capabilities().admin_commands);
    let (_, said) = error(&format!("{path}?backend=threads&transfer=adaptive"));
    assert!(said.contains("option transfer means nothing to threads"), "{said}");
}
