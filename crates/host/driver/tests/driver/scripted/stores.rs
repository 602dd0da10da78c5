//! What a scripted device was sent, put together again.

use byway_spec::vendor::{self, VendorOpcode};

use super::{HEADER_BYTES, SEGMENT_BYTES, ScriptedBus, WINDOW_BYTES};

/// What stores were sent, put together again as the device would.
pub fn stores(bus: &ScriptedBus) -> Vec<(Vec<u8>, Vec<u8>)> {
    let fetched = bus.state().fetched.clone();
    let mut stores: Vec<(Vec<u8>, usize, Vec<u8>)> = Vec::new();
    let mut position = 0;
    for command in &fetched {
        let entry = &command.entry;
        let key = entry.key()[..usize::from(entry.cdw11.to_le_bytes()[0]).min(16)].to_vec();
        let (len, key_len) = (entry.cdw10 as usize, key.len() as u64);
        let in_window = |position: &mut u64| {
            let record = (HEADER_BYTES + key_len + len as u64).next_multiple_of(8);
            if *position % SEGMENT_BYTES + record > SEGMENT_BYTES {
                *position = position.next_multiple_of(SEGMENT_BYTES);
            }
            let at = WINDOW_BYTES + (*position + HEADER_BYTES + key_len) % WINDOW_BYTES;
            *position += record;
            let mut bytes = vec![0; len];
            bus.memory.read_at(at as usize, &mut bytes).unwrap();
            bytes
        };
        match VendorOpcode(entry.opcode()) {
            VendorOpcode(0x01) => stores.push((key, len, command.data.clone())),
            VendorOpcode::KV_WRITE_PIGGYBACK => stores.push((key, len, vendor::unpack_write(entry).to_vec())),
            VendorOpcode::KV_WRITE_PT => stores.push((key, len, vendor::unpack_write_pt(entry).to_vec())),
            VendorOpcode::KV_STORE_PRP_TAIL => stores.push((key, len, command.data.clone())),
            VendorOpcode::KV_STORE_CXL => stores.push((key, len, in_window(&mut position))),
            VendorOpcode::KV_STORE_CXL_PIGGYBACK => {
                let mut bytes = in_window(&mut position);
                let first = vendor::unpack_write(entry);
                let here = len.min(35);
                bytes[..here].copy_from_slice(&first[..here]);
                stores.push((key, len, bytes));
            }
            VendorOpcode::KV_TRANSFER => {
                let (_, len, bytes) = stores.last_mut().unwrap();
                bytes.truncate(*len);
                bytes.extend_from_slice(&vendor::unpack_transfer(entry));
            }
            VendorOpcode::KV_TRANSFER_PT => {
                let (_, _, bytes) = stores.last_mut().unwrap();
                let (place, fragment) = vendor::unpack_transfer_pt(entry);
                assert_eq!(bytes.len(), 11 + 28 * usize::from(place.fragment()));
                bytes.extend_from_slice(&fragment);
            }
            other => panic!("{other:?}"),
        }
    }
    stores
        .into_iter()
        .map(|(key, len, mut bytes)| {
            bytes.truncate(len);
            (key, bytes)
        })
        .collect()
}
