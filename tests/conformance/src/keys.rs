//! Calls to a key-value namespace, whatever carries them: they say what a map would.

use std::collections::BTreeMap;

use byway::{ErrorKind, Key, Kv, StoreOptions};

fn any_value(n: u32) -> Vec<u8> {
    let len = [0, 1, 30, 127, 128, 4096, 4097, 20_000][n as usize % 8];
    (0..len).map(|at| (at as u32 + n) as u8).collect()
}

/// Every call to an empty namespace, beside a map that says what each answers.
pub fn every_call(kv: &mut Kv) {
    let mut model = BTreeMap::new();
    for n in 0..60 {
        let key = format!("{}-{n:03}", ["a", "b", "bc"][n as usize % 3]);
        kv.put(key.as_bytes(), &any_value(n)).unwrap();
        model.insert(key.into_bytes(), any_value(n));
    }
    for (key, value) in &model {
        assert_eq!(kv.get(key).unwrap().as_ref(), Some(value));
        assert!(kv.exists(key).unwrap());
    }
    assert_eq!(kv.get(b"nothing").unwrap(), None);
    assert!(!kv.exists(b"nothing").unwrap());
    let mut short = [0; 10];
    assert_eq!(kv.get_into(b"b-007", &mut short).unwrap(), Some(20_000));
    assert_eq!(short.as_slice(), &any_value(7)[..10]);
    let must_not = StoreOptions::NONE.must_not_exist(true);
    assert_eq!(kv.put_if(b"b-007", b"other", must_not).unwrap_err().kind(), ErrorKind::KeyExists);
    conditions_and_lists(kv, &mut model);
    many(kv, &model);
    let too_long = kv.put(b"key", &vec![0; 9 << 20]).unwrap_err();
    assert_eq!(too_long.kind(), ErrorKind::TooLarge, "{too_long}");
    assert_eq!(kv.put(b"seventeen bytes!!", b"").unwrap_err().kind(), ErrorKind::TooLarge);
    assert_eq!(kv.put(b"", b"").unwrap_err().kind(), ErrorKind::InvalidArgument);
}

/// Gets and lists on a queue with inline reads, beside a queue without: whichever way a result comes, calls say the same. The values are
/// of every length around what stands behind a completion, and the ring is short, so that results wrap, and find no room.
pub fn every_inline_read(with: &mut Kv, without: &mut Kv) {
    let value = |len: u32| -> Vec<u8> { (0..len).map(|at| (at * 5 + len) as u8).collect() };
    let lens = || (0u32..40).chain([104, 105, 106, 120, 224, 225, 226, 300, 4096, 5000]);
    for len in lens() {
        with.put(&len.to_be_bytes(), &value(len)).unwrap();
    }
    for round in 0..3 {
        for len in lens() {
            let key = len.to_be_bytes();
            assert_eq!(with.get(&key).unwrap(), Some(value(len)), "round {round}, {len} bytes");
            assert_eq!(without.get(&key).unwrap(), Some(value(len)));
            let mut short = vec![0; len as usize / 2];
            assert_eq!(with.get_into(&key, &mut short).unwrap(), Some(len as usize));
            assert_eq!(short, value(len)[..len as usize / 2]);
        }
        assert_eq!(with.get(b"nothing").unwrap(), None);
        let listed = |kv: &mut Kv| kv.keys(None).map(|key| key.unwrap()).collect::<Vec<Key>>();
        assert_eq!(listed(with), listed(without));
        let keys: Vec<Key> = lens().map(|len| Key::new(&len.to_be_bytes()).unwrap()).collect();
        let mut seen = 0;
        with.get_many(&keys, 256, |at, found| {
            let whole = value(u32::from_be_bytes(keys[at].as_bytes().try_into().unwrap()));
            assert_eq!(found, Some(&whole[..]));
            seen += 1;
        })
        .unwrap();
        assert_eq!(seen, keys.len());
    }
}

fn conditions_and_lists(kv: &mut Kv, model: &mut BTreeMap<Vec<u8>, Vec<u8>>) {
    for key in [b"a-003", b"bc-02"] {
        kv.delete(key).unwrap();
        kv.delete(key).unwrap();
        model.remove(key.as_slice());
    }
    let listed: Vec<Vec<u8>> = kv.keys(None).map(|key| key.unwrap().as_bytes().to_vec()).collect();
    assert!(listed.iter().eq(model.keys()));
    let start = Some(Key::new(b"b-031").unwrap());
    let listed = kv.keys_with_prefix(b"b-", start).unwrap().map(|key| key.unwrap().as_bytes().to_vec());
    let wanted = model.keys().filter(|key| key.starts_with(b"b-") && key.as_slice() >= b"b-031".as_slice());
    assert!(listed.eq(wanted.cloned()));
}

fn many(kv: &mut Kv, model: &BTreeMap<Vec<u8>, Vec<u8>>) {
    let keys: Vec<Key> = model.keys().map(|key| Key::new(key).unwrap()).collect();
    let mut seen = 0;
    kv.get_many(&keys, 4096, |at, value| {
        assert_eq!(value, model.get(keys[at].as_bytes()).map(Vec::as_slice));
        seen += 1;
    })
    .unwrap();
    assert_eq!(seen, keys.len());
    let pairs: Vec<(Key, Vec<u8>)> =
        (0..40).map(|n| (Key::new(&[b'z', n]).unwrap(), any_value(n.into()))).collect();
    assert_eq!(kv.load(pairs.iter().map(|(key, value)| (*key, value))).unwrap(), 40);
    let borrowed: Vec<(Key, &[u8])> =
        pairs.iter().take(3).map(|(key, value)| (*key, value.as_slice())).collect();
    kv.put_bulk(&borrowed).unwrap();
    for (key, value) in &pairs {
        assert_eq!(kv.get(key.as_bytes()).unwrap().as_ref(), Some(value));
    }
}
