//! A command of NVMe, made and read again; `no_std`, and nothing else of Byway.
use byway_spec::{Command, Completion, Status};

fn main() {
    let mut read = Command::new(0x02, 7, 1);
    read.set_prps(0x1000, 0);
    assert_eq!(Command::from_bytes(&read.to_bytes()), read);
    let completion = Completion::from_bytes(&[0; 16]);
    assert_eq!(completion.status(), Status::SUCCESS);
    println!("a Read of {} bytes, a completion of {}", read.to_bytes().len(), completion.to_bytes().len());
}
