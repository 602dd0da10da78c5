//! Commands passed through: Identify, and a write and a read by their entries: raw [URI]

use byway::spec::Command as Entry;
use byway::{AdminCommand, Backend, BackendQueue, Buffer, Payload, RawCommand, RawData};

const IDENTIFY: u8 = 0x06;
const WRITE: u8 = 0x01;
const READ: u8 = 0x02;

fn main() -> byway::Result<()> {
    let uri = std::env::args().nth(1).unwrap_or_else(|| "embedded-ram:64M".into());
    let device = byway::open(&uri)?;

    let controller = Entry { cdw10: 1, ..Entry::new(IDENTIFY, 0, 0) };
    let outcome = device.admin(AdminCommand::raw(controller, RawData::FromDevice(device.buffer(4096)?)))?;
    let identify = outcome.buffer.unwrap_or(Buffer::zeroed(4096)?);
    println!("model {}", String::from_utf8_lossy(&identify.as_slice()[24..64]).trim_end());

    let namespace = device.nvm_namespace(None)?;
    let lba_bytes = device.nvm(Some(namespace.nsid))?.lba_bytes() as usize;
    let mut queue = device.default_queue()?;
    let entry = |opcode| Entry { cdw10: 7, ..Entry::new(opcode, 0, namespace.nsid.get()) };
    let written = RawData::ToDevice(Payload::copy_of(&vec![b'w'; lba_bytes])?);
    queue.execute(RawCommand { entry: entry(WRITE), data: written }.into())?;
    let into = RawData::FromDevice(device.buffer(lba_bytes)?);
    let outcome = queue.execute(RawCommand { entry: entry(READ), data: into }.into())?;
    let read = outcome.buffer.unwrap_or(Buffer::zeroed(lba_bytes)?);
    println!("block 7 begins with {}", String::from_utf8_lossy(&read.as_slice()[..4]));

    if let Err(error) = queue.execute(RawCommand { entry: entry(0x7f), data: RawData::None }.into()) {
        println!("{error}, said by the {:?}", error.origin());
    }
    Ok(())
}
