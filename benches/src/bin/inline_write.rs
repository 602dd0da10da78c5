//! One 512-byte write by `inline`, in process, clock and ledger off, to an NVM namespace on null media: nanoseconds
//! from call to completion.
use byway_benches::median_ns;

fn main() -> byway::Result<()> {
    let only = std::env::args().nth(1);
    for (what, uri) in [
        ("inline, ledger off", "null:1G?transfer=inline&ledger=off&flash=off"),
        ("inline, ledger on", "null:1G?transfer=inline&ledger=on&flash=off"),
        ("prp, ledger off", "null:1G?transfer=prp&ledger=off&flash=off"),
    ]
    .into_iter()
    .filter(|(what, _)| only.as_ref().is_none_or(|only| what.contains(only.as_str())))
    {
        let device = byway::open(uri)?;
        let mut nvm = device.nvm(None)?;
        let data = [0x5a; 512];
        let mut failed = None;
        let ns = median_ns(31, 200_000, |n| {
            if let Err(error) = nvm.write(u64::from(n % 1000), &data) {
                failed = Some(error);
            }
        });
        if let Some(error) = failed {
            return Err(error);
        }
        println!("{what}: {ns:.1} ns");
    }
    for (what, uri) in [
        ("kv put 32 B hybrid, ledger off, ram", "ram:1G?transfer=hybrid&ledger=off&flash=off"),
        ("kv put 32 B hybrid, ledger on, ram", "ram:1G?transfer=hybrid&ledger=on&flash=off"),
        ("kv put 32 B inline, ledger off, ram", "ram:1G?transfer=inline&ledger=off&flash=off"),
        ("kv put 32 B prp, ledger off, ram", "ram:1G?transfer=prp&ledger=off&flash=off"),
    ]
    .into_iter()
    .filter(|(what, _)| only.as_ref().is_none_or(|only| what.contains(only.as_str())))
    {
        let device = byway::open(uri)?;
        let mut kv = device.kv(None)?;
        let mut n = 0u32;
        let ns = median_ns(5, 100_000, |_| {
            n += 1;
            kv.put(&n.wrapping_mul(0x9e37_79b9).to_le_bytes(), &[7; 32]).ok();
        });
        println!("{what}: {ns:.1} ns");
    }
    Ok(())
}
