//! Bits that flip in units that wait in leases, between the kill of their process and the next opening under the same boot.

use std::ops::Range;
use std::path::Path;

use crate::common::{MIB, extent, nvm, small_profile, unit_of, write_unit};
use crate::damage::{UNITS, flip, nothing_wrong_is_read};
use byway_flash::{Flash, FlashOptions, MediaKind, OpenOptions};

const HEADER_BYTES: u64 = 512;
/// Fields of a slot's header: its positions have a word in each.
const OWNERS: u64 = 8;
const CHECKSUMS: u64 = 160;
const NUMBERS: u64 = 320;
const LEASE: u64 = 448;
/// Headers come first.
const DATA: u64 = 64 << 10;

/// Writes the image of a killed process in which units wait in two leases, most of them newer than what the map names. Says where its
/// unit buffer is.
fn image_of_killed_at(path: &Path) -> Range<u64> {
    let options = FlashOptions::new(4 * MIB, small_profile(), MediaKind::File(path.into())).timing(false);
    let mut flash = Flash::create(options, &[nvm(4 * MIB)]).unwrap();
    let blocks = extent(&flash, 1);
    (0..UNITS).filter(|unit| *unit != 4).for_each(|unit| {
        let seed = if unit < 8 { unit + 1000 } else { unit };
        write_unit(&mut flash, blocks, unit, seed).unwrap();
    });
    let leases = [0, 1].map(|_| flash.open_block_lease().unwrap());
    leases.iter().for_each(|lease| flash.renew_block_lease(lease).unwrap());
    let reader = flash.block_reader(blocks).unwrap();
    let write = |lease: usize, unit: u64, seed: u64| {
        assert!(reader.write_by(&leases[lease], unit * 4096, &unit_of(seed), || true));
    };
    (0..8).for_each(|unit| write(unit as usize % 2, unit, if unit == 3 { 2000 } else { unit }));
    write(0, 3, 3);
    flash.regions().into_iter().find(|(name, _)| *name == "unit buffer").unwrap().1
}

/// First bytes of the headers of leased slots in an image, with the positions that are filled.
fn leased_headers(image: &[u8], buffer: &Range<u64>) -> Vec<(u64, u64)> {
    let word = |at: u64| u64::from_le_bytes(*image[at as usize..].first_chunk().unwrap());
    let headers = (0..32).map(|slot| buffer.start + slot * HEADER_BYTES);
    headers.filter(|header| word(header + LEASE) != 0).map(|header| (header, word(header))).collect()
}

fn look_at(path: &Path) -> Flash {
    Flash::open(path, OpenOptions::default().read_only(true).timing(false)).unwrap()
}

#[test]
fn flipped_bit_of_a_waiting_unit_is_set_right_or_reported_after_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    let buffer = image_of_killed_at(&path);
    let (mut waiting, mut damaged) = (0, 0);
    for (header, filled) in leased_headers(&std::fs::read(&path).unwrap(), &buffer) {
        let fields = (0..filled)
            .flat_map(|position| [OWNERS, CHECKSUMS, NUMBERS].map(|field| header + field + position * 8));
        for word in fields.chain([header, header + LEASE]) {
            for bit in (word / 8 % 5..64).step_by(5).map(|bit| word * 8 + bit) {
                flip(&path, bit);
                let mut flash = look_at(&path);
                assert_eq!(nothing_wrong_is_read(&mut flash, bit), 0, "bit {bit} of a header");
                flip(&path, bit);
            }
        }
        let slot = (header - buffer.start) / HEADER_BYTES;
        for position in 0..filled {
            let bit = (buffer.start + DATA + slot * 16384 + position * 4096) * 8 + 4096 + position;
            flip(&path, bit);
            damaged += nothing_wrong_is_read(&mut look_at(&path), bit);
            flip(&path, bit);
        }
        waiting += filled;
    }
    // One of them is older than another of its block.
    assert_eq!((waiting, damaged), (9, 8));
}

#[test]
fn waiting_unit_with_two_flipped_bits_of_its_owner_is_counted_as_lost_after_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    let buffer = image_of_killed_at(&path);
    assert_eq!(look_at(&path).recovery().lost, 0);
    let (header, _) = leased_headers(&std::fs::read(&path).unwrap(), &buffer)[0];
    [0, 1].into_iter().for_each(|bit| flip(&path, (header + OWNERS) * 8 + bit));
    for read_only in [true, false] {
        let options = OpenOptions::default().read_only(read_only).timing(false);
        let flash = Flash::open(&path, options).unwrap();
        assert_eq!((flash.recovery().lost, flash.counters().media_errors), (1, 1));
    }
}
