//! Bits that flip anywhere in the image: what they hit is named, and nothing wrong is ever handed out.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::common::{MIB, create, extent, nvm, open, read_unit, unit_of, write_unit};
use byway_flash::{Flash, FlashError, ImageError, MediaKind, OpenOptions, RunOptions};

pub const UNITS: u64 = 90;

/// An image with some units in flash, some in the buffer and some never written.
fn image_at(path: &Path, close: bool) {
    let mut flash = create(MediaKind::File(path.to_path_buf()), 4 * MIB, &[nvm(4 * MIB)]);
    let extent = extent(&flash, 1);
    for unit in 0..UNITS {
        write_unit(&mut flash, extent, unit, unit).unwrap();
    }
    if close {
        flash.close().unwrap();
    }
}

/// Ranges of a file that hold bytes other than zero.
fn used_pieces(path: &Path) -> Vec<u64> {
    let file = fs::File::open(path).unwrap();
    let len = file.metadata().unwrap().len();
    let mut pieces = Vec::new();
    let mut at = 0;
    while let Ok(data) = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(at)) {
        at = data / 64 * 64;
        let mut piece = vec![0; 4096.min((len - at) as usize)];
        file.read_exact_at(&mut piece, at).unwrap();
        for (i, line) in piece.chunks(64).enumerate() {
            if line.iter().any(|byte| *byte != 0) {
                pieces.push(at + i as u64 * 64);
            }
        }
        at += 4096;
    }
    pieces
}

pub fn flip(path: &Path, bit: u64) {
    let file = fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, bit / 8).unwrap();
    file.write_all_at(&[byte[0] ^ 1 << (bit % 8)], bit / 8).unwrap();
}

/// Reads every unit: right, or an error that names the damage.
pub fn nothing_wrong_is_read(flash: &mut Flash, bit: u64) -> u64 {
    let extent = extent(flash, 1);
    let mut named = 0;
    for unit in 0..UNITS + 10 {
        let right = if unit < UNITS { unit_of(unit) } else { vec![0; 4096] };
        match read_unit(flash, extent, unit) {
            Ok(found) => assert!(found == right, "bit {bit} changed unit {unit} unnoticed"),
            Err(FlashError::Media { .. } | FlashError::Lost { .. }) => named += 1,
            Err(error) => panic!("bit {bit}: {error}"),
        }
    }
    named
}

fn flip_everywhere(close: bool, read_only: bool) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    image_at(&path, close);
    let (mut refused, mut named) = (0, 0);
    for (i, line) in used_pieces(&path).into_iter().enumerate().step_by(5) {
        let bit = line * 8 + (i as u64).wrapping_mul(0x9E37_79B9) % 512;
        flip(&path, bit);
        match Flash::open(&path, OpenOptions::default().read_only(read_only).timing(false)) {
            Ok(mut flash) => named += nothing_wrong_is_read(&mut flash, bit),
            Err(FlashError::Image(ImageError::Damaged { .. } | ImageError::NotAnImage { .. })) => {
                refused += 1
            }
            Err(FlashError::Image(ImageError::OtherVersion { .. })) => refused += 1,
            Err(error) => panic!("bit {bit}: {error}"),
        }
        flip(&path, bit);
    }
    assert!(refused > 0 && named > 0, "{refused} refused, {named} named");
}

#[test]
fn a_flipped_bit_in_a_closed_image_is_named_or_harmless() {
    flip_everywhere(true, true);
}

#[test]
fn a_flipped_bit_in_an_image_in_use_is_named_or_harmless() {
    flip_everywhere(false, true);
}

#[test]
fn writing_goes_on_beside_damage() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    image_at(&path, false);
    let lines = used_pieces(&path);
    // The last quarter of the file holds spare records and pages.
    for line in &lines[lines.len() / 2..] {
        if line % 8192 == 0 {
            flip(&path, line * 8 + 3);
        }
    }
    let mut flash = open(&path).unwrap();
    assert!(nothing_wrong_is_read(&mut flash, 0) > 0);
    let extent = extent(&flash, 1);
    for round in 0..8 {
        for unit in UNITS..4 * MIB / 4096 {
            write_unit(&mut flash, extent, unit, unit + round).unwrap();
        }
    }
    for unit in UNITS..4 * MIB / 4096 {
        assert_eq!(read_unit(&mut flash, extent, unit).unwrap(), unit_of(unit + 7));
    }
    for unit in 0..UNITS {
        if let Ok(found) = read_unit(&mut flash, extent, unit) {
            assert_eq!(found, unit_of(unit));
        }
        write_unit(&mut flash, extent, unit, unit + 1).unwrap();
        assert_eq!(read_unit(&mut flash, extent, unit).unwrap(), unit_of(unit + 1), "written anew");
    }
}

#[test]
fn setting_a_flipped_bit_of_the_map_right_brings_nothing_back_that_was_trimmed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    image_at(&path, false);
    let mut flash = open(&path).unwrap();
    let extent = extent(&flash, 1);
    let is_trimmed = |unit: u64| unit % 3 == 1;
    (0..UNITS).filter(|unit| is_trimmed(*unit)).for_each(|unit| flash.trim(extent, unit..unit + 1).unwrap());
    let map = flash.regions().into_iter().find(|(name, _)| *name == "map").unwrap().1;
    flash.close().unwrap();
    drop(flash);
    let lines = used_pieces(&path).into_iter().filter(|line| map.contains(line));
    let mut repaired = 0;
    for (i, byte) in lines.flat_map(|line| line..line + 64).enumerate() {
        let bit = byte * 8 + i as u64 % 8;
        flip(&path, bit);
        let (mut flash, _) = Flash::open_to_check(&path, false, RunOptions::default()).unwrap();
        repaired += flash.repair(&mut |_, _, _| {}).unwrap().len();
        for unit in 0..UNITS {
            let right = if is_trimmed(unit) { vec![0; 4096] } else { unit_of(unit) };
            assert!(read_unit(&mut flash, extent, unit).unwrap() == right, "bit {bit} changed unit {unit}");
        }
        flip(&path, bit);
    }
    assert!(repaired > 0);
}
