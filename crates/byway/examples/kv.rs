//! Keys and values: kv [URI]

use byway::Key;

fn main() -> byway::Result<()> {
    let uri = std::env::args().nth(1).unwrap_or_else(|| "embedded-ram:64M?transfer=inline".into());
    let device = byway::open(&uri)?;
    let mut kv = device.kv(None)?;
    let pairs = [
        (b"0041", "LATIN CAPITAL LETTER A"),
        (b"0042", "LATIN CAPITAL LETTER B"),
        (b"00df", "LATIN SMALL LETTER SHARP S"),
    ];
    for (key, value) in pairs {
        kv.put(key, value.as_bytes())?;
    }
    let value = kv.get(b"00df")?.unwrap_or_default();
    println!("00df: {}", String::from_utf8_lossy(&value));

    let keys: Vec<Key> = kv.keys_with_prefix(b"004", None)?.collect::<byway::Result<_>>()?;
    for key in keys {
        let value = kv.get(key.as_bytes())?.unwrap_or_default();
        println!("  {key} {}", String::from_utf8_lossy(&value));
    }
    kv.delete(b"0041")?;
    println!("0041 is {}", if kv.exists(b"0041")? { "there" } else { "gone" });
    Ok(())
}
