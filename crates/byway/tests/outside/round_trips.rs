//! Values from a program to flash and back, by every transfer method.

use byway::{
    BackendQueue, CreateOptions, ErrorKind, Key, KvCommand, Media, Method, NewNamespace, StoreOptions,
};
use byway_kit::pattern;

const PROFILES: [&str; 4] = ["cosmos", "gen4x4", "gen5x4", "gen5x8-cxl"];

fn sizes() -> Vec<usize> {
    let mut sizes: Vec<usize> = (0..140).collect();
    sizes.extend([255, 256, 511, 512, 1000, 2048, 4000, 4095, 4096, 4097, 4131, 8000, 8191, 8192]);
    sizes
}

#[test]
fn put_by_any_method_under_any_profile_is_read_back() {
    for profile in PROFILES {
        for method in Method::ALL {
            let device =
                byway::embedded::open(&format!("ram:128M?profile={profile}&transfer={method}")).unwrap();
            let mut kv = device.kv(None).unwrap();
            for (key, len) in (0u32..).zip(sizes()) {
                let put = kv.put(&key.to_be_bytes(), &pattern(key.into(), len));
                put.unwrap_or_else(|e| panic!("{profile} {method} {len}: {e}"));
            }
            for (key, len) in (0u32..).zip(sizes()) {
                let got = kv.get(&key.to_be_bytes()).unwrap();
                assert_eq!(got.as_deref(), Some(&pattern(key.into(), len)[..]), "{profile} {method} {len}");
            }
        }
    }
}

#[test]
fn an_image_keeps_every_value_over_closing_and_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.img");
    byway::create(&path, &CreateOptions::new(256 << 20)).unwrap();
    let uri = |method: Method| format!("embedded:{}?transfer={method}", path.display());
    for (round, method) in (0u32..).zip(Method::ALL) {
        let device = byway::embedded::open(&uri(method)).unwrap();
        let mut kv = device.kv(None).unwrap();
        for n in 0..200 {
            let key = round * 1000 + n;
            kv.put(&key.to_be_bytes(), &pattern(key.into(), n as usize * 3)).unwrap();
        }
        drop(kv);
        device.close().unwrap();
    }
    let device = byway::embedded::open(&uri(Method::Prp)).unwrap();
    let mut kv = device.kv(None).unwrap();
    for round in 0..Method::ALL.len() as u32 {
        for n in 0..200 {
            let key = round * 1000 + n;
            let got = kv.get(&key.to_be_bytes()).unwrap();
            assert_eq!(got.unwrap(), pattern(key.into(), n as usize * 3), "{key}");
        }
    }
    assert_eq!(kv.keys(None).count(), 2000);
}

#[test]
fn large_values_cross_by_the_methods_that_carry_them() {
    for method in ["prp", "sgl", "prp+tail", "adaptive"] {
        let device = byway::embedded::open(&format!("ram:2G?transfer={method}")).unwrap();
        let mut kv = device.kv(None).unwrap();
        for (key, len) in (0u32..).zip([16 << 10, (64 << 10) + 1, 1 << 20, (3 << 20) + 77, 16 << 20]) {
            kv.put(&key.to_be_bytes(), &pattern(key.into(), len)).unwrap();
            assert!(
                kv.get(&key.to_be_bytes()).unwrap().unwrap() == pattern(key.into(), len),
                "{method} {len}"
            );
        }
    }
}

#[test]
fn keys_are_listed_in_order_and_from_any_start() {
    let device = byway::embedded::open("ram:128M").unwrap();
    let mut kv = device.kv(None).unwrap();
    let mut wanted: Vec<Vec<u8>> =
        (0u32..5000).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes().to_vec()).collect();
    for key in &wanted {
        kv.put(key, b"v").unwrap();
    }
    wanted.sort();
    let listed: Vec<Vec<u8>> = kv.keys(None).map(|key| key.unwrap().as_bytes().to_vec()).collect();
    assert_eq!(listed.len(), wanted.len());
    assert!(listed == wanted);
    let start = Key::new(&wanted[2500]).unwrap();
    assert_eq!(kv.keys(Some(start)).count(), 2500);
}

#[test]
fn a_deleted_key_is_gone_and_deleting_it_again_is_no_error() {
    let device = byway::embedded::open("ram:64M").unwrap();
    let mut kv = device.kv(None).unwrap();
    kv.put(b"k", b"v").unwrap();
    assert!(kv.exists(b"k").unwrap());
    kv.delete(b"k").unwrap();
    kv.delete(b"k").unwrap();
    assert!(!kv.exists(b"k").unwrap());
    assert_eq!(kv.get(b"k").unwrap(), None);
}

#[test]
fn conditions_travel_with_methods_that_have_room_for_them() {
    let absent = StoreOptions::NONE.must_not_exist(true);
    for method in ["prp", "sgl", "inline", "adaptive", "hybrid"] {
        let device = byway::embedded::open(&format!("ram:64M?transfer={method}")).unwrap();
        let mut kv = device.kv(None).unwrap();
        kv.put_if(b"k", b"1", absent).unwrap_or_else(|e| panic!("{method}: {e}"));
        assert_eq!(kv.put_if(b"k", b"2", absent).unwrap_err().kind(), ErrorKind::KeyExists, "{method}");
    }
    let device = byway::embedded::open("ram:64M?transfer=piggyback").unwrap();
    let said = device.kv(None).unwrap().put_if(b"k", b"1", absent).unwrap_err().to_string();
    assert!(said.contains("inline") && said.contains("prp"), "{said}");
}

#[test]
fn wrong_keys_and_values_are_refused_by_naming_the_limit() {
    let device = byway::embedded::open("ram:64M?transfer=inline").unwrap();
    let mut kv = device.kv(None).unwrap();
    assert!(kv.put(b"", b"v").unwrap_err().to_string().contains("at least 1 byte"));
    assert!(kv.put(&[7; 17], b"v").unwrap_err().to_string().contains("16 bytes"));
    let limit = device.capabilities().limits.inline_bytes as usize;
    let said = kv.put(b"k", &vec![0; limit + 1]).unwrap_err().to_string();
    assert!(said.contains(&limit.to_string()), "{said}");
    let prp = byway::embedded::open("ram:64M?transfer=prp").unwrap();
    let said = prp.kv(None).unwrap().put(b"k", &vec![0; (16 << 20) + 1]).unwrap_err().to_string();
    assert!(said.contains("16777216"), "{said}");
}

#[test]
fn unknown_or_unavailable_method_is_refused() {
    let said = byway::embedded::open("ram:64M?transfer=telepathy").err().unwrap().to_string();
    assert!(said.contains("telepathy"), "{said}");
    let device = byway::embedded::open("ram:64M").unwrap();
    assert!(device.capabilities().methods.contains(Method::Inline));
}

#[test]
fn blocks_are_read_as_written_and_trimmed_ones_as_zeroes() {
    for method in ["prp", "sgl", "inline"] {
        let device = byway::embedded::open(&format!("ram:128M?transfer={method}")).unwrap();
        let mut nvm = device.nvm(None).unwrap();
        let block = nvm.lba_bytes() as usize;
        let data = pattern(9, 5 * block);
        nvm.write(3, &data).unwrap();
        let mut got = vec![0; 5 * block];
        nvm.read(3, &mut got).unwrap();
        assert!(got == data, "{method}");
        nvm.trim(4, 2).unwrap();
        nvm.read(3, &mut got).unwrap();
        assert!(got[block..3 * block].iter().all(|byte| *byte == 0), "{method}");
        assert!(got[..block] == data[..block] && got[3 * block..] == data[3 * block..], "{method}");
        nvm.flush().unwrap();
        assert!(nvm.read(nvm.blocks(), &mut got[..block]).is_err());
    }
}

#[test]
fn several_threads_on_queues_of_their_own_lose_nothing() {
    for run in ["caller", "thread"] {
        let device = byway::embedded::open(&format!("ram:256M?transfer=inline&run={run}")).unwrap();
        std::thread::scope(|scope| {
            for thread in 0u32..4 {
                let mut kv = device.kv(None).unwrap();
                scope.spawn(move || {
                    for n in 0..2000 {
                        let key = thread << 16 | n;
                        kv.put(&key.to_be_bytes(), &pattern(key.into(), n as usize % 300)).unwrap();
                    }
                });
            }
        });
        let mut kv = device.kv(None).unwrap();
        for thread in 0u32..4 {
            for n in 0..2000 {
                let key = thread << 16 | n;
                assert_eq!(
                    kv.get(&key.to_be_bytes()).unwrap().unwrap(),
                    pattern(key.into(), n as usize % 300),
                    "{run}"
                );
            }
        }
    }
}

#[test]
fn one_seed_replayed_twice_gives_one_ledger_one_clock_and_one_image() {
    let dir = tempfile::tempdir().unwrap();
    let replay = |name: &str| {
        let path = dir.path().join(name);
        let options = CreateOptions::new(64 << 20).uuid([3; 16]);
        byway::create(&path, &options).unwrap();
        let uri = format!("embedded:{}?transfer=adaptive&clock=virtual&profile=cosmos", path.display());
        let device = byway::embedded::open(&uri).unwrap();
        let mut kv = device.kv(None).unwrap();
        for n in 0u32..3000 {
            kv.put(&n.wrapping_mul(0x9e37_79b9).to_be_bytes(), &pattern(n.into(), n as usize * 13 % 3000))
                .unwrap();
        }
        let counted = (device.ledger(), device.now_ns());
        drop(kv);
        device.close().unwrap();
        (counted, std::fs::read(path).unwrap())
    };
    let (first, second) = (replay("a.img"), replay("b.img"));
    assert_eq!(first.0, second.0);
    assert!(first.1 == second.1, "the images differ");
    assert!(first.0.1 > 0, "virtual time has passed");
}

#[test]
fn several_namespaces_of_both_kinds_keep_separate_data() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.img");
    let nvm = NewNamespace { size_bytes: Some(16 << 20), ..NewNamespace::NVM };
    let options = CreateOptions::new(256 << 20).namespaces([NewNamespace::KV, nvm, NewNamespace::KV, nvm]);
    byway::create(&path, &options).unwrap();
    let device = byway::embedded::open(&format!("embedded:{}", path.display())).unwrap();
    let nsid = |n| Some(byway::Nsid::new(n).unwrap());
    let (mut one, mut three) = (device.kv(nsid(1)).unwrap(), device.kv(nsid(3)).unwrap());
    one.put(b"k", b"first").unwrap();
    three.put(b"k", b"third").unwrap();
    assert_eq!(one.get(b"k").unwrap().unwrap(), b"first");
    assert_eq!(three.get(b"k").unwrap().unwrap(), b"third");
    let (mut two, mut four) = (device.nvm(nsid(2)).unwrap(), device.nvm(nsid(4)).unwrap());
    two.write(0, &[2; 512]).unwrap();
    four.write(0, &[4; 512]).unwrap();
    let mut got = [0; 512];
    two.read(0, &mut got).unwrap();
    assert_eq!(got, [2; 512]);
    assert!(device.kv(nsid(2)).err().unwrap().to_string().contains("no key-value namespace"));
    assert!(device.kv(nsid(9)).err().unwrap().to_string().contains("no namespace 9"));
}

#[test]
fn get_many_returns_the_values_of_single_gets() {
    for run in ["caller", "thread"] {
        let device = byway::embedded::open(&format!("ram:64M?run={run}")).unwrap();
        let mut kv = device.kv(None).unwrap();
        let len = |n: u32| if n % 50 == 3 { 9000 } else { n as usize % 400 };
        for n in (0..1000u32).filter(|n| n % 10 != 0) {
            kv.put(&n.to_be_bytes(), &pattern(n.into(), len(n))).unwrap();
        }
        let keys: Vec<Key> = (0..1000u32).map(|n| Key::new(&(n * 7 % 1000).to_be_bytes()).unwrap()).collect();
        let mut seen = vec![0; keys.len()];
        let on = |at: usize, found: Option<&[u8]>| {
            let n = at as u32 * 7 % 1000;
            seen[at] += 1;
            assert_eq!(found, (!n.is_multiple_of(10)).then(|| pattern(n.into(), len(n))).as_deref(), "{n}");
        };
        kv.get_many(&keys, 512, on).unwrap();
        assert!(seen.iter().all(|times| *times == 1));
        kv.get_many(&[], 512, |_, _| panic!("no key was asked for")).unwrap();
    }
}

#[test]
fn get_many_on_a_shallow_queue_leaves_its_other_commands_outstanding() {
    let device = byway::embedded::open("ram:64M?depth=4").unwrap();
    let mut kv = device.kv(None).unwrap();
    let keys: Vec<Key> = (0..100u32).map(|n| Key::new(&n.to_be_bytes()).unwrap()).collect();
    keys.iter().for_each(|key| kv.put(key.as_bytes(), key.as_bytes()).unwrap());
    let exist = KvCommand::Exist { nsid: kv.nsid(), key: keys[0] };
    kv.queue().submit(exist.into(), 7).map_err(byway::Error::from).unwrap();
    let mut seen = Vec::new();
    kv.get_many(&keys, 4, |at, found| {
        assert_eq!(found, Some(keys[at].as_bytes()));
        seen.push(at);
    })
    .unwrap();
    assert!(seen.into_iter().eq(0..keys.len()));
    assert_eq!(kv.queue().outstanding(), 1);
    let finished = kv.queue().next_finished().unwrap().unwrap();
    assert_eq!((finished.tag, finished.result.is_ok()), (7, true));
}

#[test]
fn a_load_goes_by_every_method_and_is_never_longer_than_one_takes() {
    let methods = byway::embedded::open("ram:64M").unwrap().capabilities().methods;
    for method in methods.iter() {
        let device = byway::embedded::open(&format!("ram:64M?transfer={}", method.name())).unwrap();
        let mut kv = device.kv(None).unwrap();
        let pairs = (0..2000u32).map(|n| (Key::new(&n.to_be_bytes()).unwrap(), [n as u8; 100]));
        assert_eq!(kv.load(pairs).unwrap(), 2000, "{method}");
        assert_eq!(kv.get(&1999u32.to_be_bytes()).unwrap(), Some(vec![1999u32 as u8; 100]), "{method}");
    }
}

#[test]
fn a_load_stores_every_pair_in_whatever_order_and_of_whatever_length() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    byway::create(&image, &CreateOptions::new(256 << 20)).unwrap();
    let uri = format!("embedded:{}?memtable=256K&cache=256K", image.display());
    let key = |n: u32| Key::new(&n.wrapping_mul(0x9e37_79b9).to_be_bytes()).unwrap();
    let value = |n: u32| vec![n as u8; if n % 5000 == 7 { 200_000 } else { n as usize % 300 }];
    {
        let device = byway::embedded::open(&uri).unwrap();
        let mut kv = device.kv(None).unwrap();
        let pairs = (0..20_000).chain(0..100).map(|n| (key(n), value(n)));
        assert_eq!(kv.load(pairs).unwrap(), 20_100);
    }
    let device = byway::embedded::open(&uri).unwrap();
    let mut kv = device.kv(None).unwrap();
    for n in (0..20_000).step_by(7) {
        assert_eq!(kv.get(key(n).as_bytes()).unwrap(), Some(value(n)), "{n}");
    }
    let listed: Vec<Key> = kv.keys(None).map(|key| key.unwrap()).collect();
    assert_eq!(listed.len(), 20_000);
    assert!(listed.is_sorted());
}

#[test]
fn bulk_puts_and_byte_stores_are_read_back_like_any_other() {
    let device = byway::embedded::open("ram:64M").unwrap();
    let mut kv = device.kv(None).unwrap();
    let values: Vec<Vec<u8>> = (0..50).map(|n| pattern(n, n as usize)).collect();
    let pairs: Vec<(Key, &[u8])> =
        (0u32..).zip(&values).map(|(n, v)| (Key::new(&n.to_be_bytes()).unwrap(), v.as_slice())).collect();
    kv.put_bulk(&pairs).unwrap();
    kv.put_by_bytes(b"bytes", &pattern(77, 100)).unwrap();
    for (key, wanted) in &pairs {
        assert_eq!(kv.get(key.as_bytes()).unwrap().as_deref(), Some(*wanted));
    }
    assert_eq!(kv.get(b"bytes").unwrap().unwrap(), pattern(77, 100));
}

#[test]
fn an_image_may_describe_a_device_that_is_kept_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    for media in [Media::Ram, Media::Null] {
        let path = dir.path().join(format!("{media:?}.img"));
        let nvm = NewNamespace { size_bytes: Some(16 << 20), ..NewNamespace::NVM };
        let namespaces = vec![NewNamespace::KV, nvm];
        let options = CreateOptions::new(128 << 20).namespaces(namespaces).media(media);
        byway::create(&path, &options).unwrap();
        let uri = format!("embedded:{}", path.display());
        for _ in 0..2 {
            let device = byway::embedded::open(&uri).unwrap();
            assert_eq!(device.namespaces().unwrap().len(), 2, "{media:?}");
            assert!(byway::embedded::open(&uri).err().unwrap().to_string().contains("in use"), "{media:?}");
            let mut kv = device.kv(None).unwrap();
            assert!(!kv.exists(b"k").unwrap(), "{media:?}: empty at every opening");
            kv.put(b"k", b"v").unwrap();
            device.nvm(None).unwrap().write(0, &[1; 512]).unwrap();
        }
    }
}
