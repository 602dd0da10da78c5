//! Lists the devices that this machine has; none is opened.

fn main() -> byway::Result<()> {
    let found = byway::scan()?;
    for one in &found {
        let model = one.model.as_deref().unwrap_or_default();
        println!("{:20} {:10} {} bytes {model}", one.uri, one.kind.name(), one.size_bytes.unwrap_or(0));
    }
    println!("{} devices", found.len());
    Ok(())
}
