//! What one put of 32 bytes moves over the link, by each transfer method.

fn main() -> byway::Result<()> {
    for method in byway::embedded::open("embedded-ram:64M")?.capabilities().methods.iter() {
        let device = byway::embedded::open(&format!("embedded-ram:64M?transfer={method}"))?;
        let mut kv = device.kv(None)?;
        let before = device.ledger();
        kv.put(b"0041", &[b'x'; 32])?;
        let cost = device.ledger().since(&before);
        println!("{:>14} {:6} {:6}", method.name(), cost.payload_bytes(), cost.wire_bytes());
    }
    Ok(())
}
