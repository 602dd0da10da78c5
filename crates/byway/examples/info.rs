//! Opens a device and prints its identity: info [URI]

use byway::{Backend, NamespaceKind};

fn main() -> byway::Result<()> {
    let uri = std::env::args().nth(1).unwrap_or_else(|| "embedded-ram:64M".into());
    let device = match byway::open(&uri) {
        Ok(device) => device,
        Err(error) => {
            eprintln!(
                "refused by the {:?}, kind {:?}, status {:?}",
                error.origin(),
                error.kind(),
                error.nvme_status()
            );
            return Err(error);
        }
    };
    let chosen = device.chosen();
    println!("{}, by {}: {}", device.identity().model, chosen.backend, chosen.why);
    for passed_over in &chosen.passed_over {
        println!("  not by {}: {}", passed_over.backend, passed_over.why);
    }
    for namespace in device.namespaces()? {
        print!("namespace {}: {} bytes", namespace.nsid, namespace.size_bytes);
        match namespace.kind {
            NamespaceKind::Nvm { lba_bytes, blocks } => println!(", {blocks} blocks of {lba_bytes} bytes"),
            NamespaceKind::Kv { key_max_bytes, .. } => println!(", keys of up to {key_max_bytes} bytes"),
            _ => println!(),
        }
    }
    Ok(())
}
