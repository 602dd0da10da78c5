//! `retention=`: data that is read too often is lost, or moved before.

use byway::embedded::EmbeddedDevice;

const MIB: usize = 1 << 20;

/// A device whose blocks endure 500 reads, with a written block namespace.
fn written(uri: &str) -> EmbeddedDevice {
    let device = byway::embedded::open(uri).unwrap();
    let mut nvm = device.nvm(None).unwrap();
    let lbas_per_mib = MIB as u64 / u64::from(nvm.lba_bytes());
    let mebibytes = nvm.blocks() / lbas_per_mib;
    for at in 0..mebibytes {
        nvm.write(at * lbas_per_mib, &vec![at as u8 + 1; MIB]).unwrap();
    }
    drop(nvm);
    device
}

/// Reads the first block `times` times; the error of the first read that fails.
fn read_over_and_over(device: &EmbeddedDevice, times: u32) -> Option<byway::Error> {
    let mut nvm = device.nvm(None).unwrap();
    let mut block = vec![0; nvm.lba_bytes() as usize];
    let error = (0..times).find_map(|_| nvm.read(0, &mut block).err());
    assert!(error.is_some() || block.iter().all(|byte| *byte == 1));
    error
}

#[test]
fn block_read_too_often_fails_with_an_unrecovered_read_error() {
    let device = written("ram:64M?retention=reads=500");
    let error = read_over_and_over(&device, 2000).expect("the block has faded");
    assert!(error.to_string().to_lowercase().contains("unrecovered read error"), "{error}");
}

#[test]
fn block_read_too_often_is_moved_first_with_refresh() {
    let device = written("ram:64M?retention=reads=500,refresh");
    assert!(read_over_and_over(&device, 20_000).is_none());
}
