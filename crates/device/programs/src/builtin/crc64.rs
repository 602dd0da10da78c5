//! CRC-64/NVME (NVM Command Set 1.1, 64-bit guard), eight bytes at a time by tables (slicing-by-8).

/// The polynomial, lowest power in the highest bit.
const POLYNOMIAL: u64 = 0x9a6c_9329_ac4b_c9b5;

/// `TABLES[n][byte]`: what `byte` adds to the checksum when `n` bytes follow it.
static TABLES: [[u64; 256]; 8] = tables();

const fn tables() -> [[u64; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        tables[0][byte] = after_eight_bits(byte as u64);
        byte += 1;
    }
    let mut index = 256;
    while index < 8 * 256 {
        let before = tables[index / 256 - 1][index % 256];
        tables[index / 256][index % 256] = before >> 8 ^ tables[0][(before & 0xff) as usize];
        index += 1;
    }
    tables
}

const fn after_eight_bits(mut crc: u64) -> u64 {
    let mut bit = 0;
    while bit < 8 {
        crc = crc >> 1 ^ if crc & 1 == 1 { POLYNOMIAL } else { 0 };
        bit += 1;
    }
    crc
}

/// The checksum of what `crc` is the checksum of, followed by `bytes`.
pub(super) fn crc64_append(crc: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let crc = words.iter().fold(!crc, |crc, word| {
        let mixed = (crc ^ u64::from_le_bytes(*word)).to_le_bytes();
        mixed.iter().zip(TABLES.iter().rev()).fold(0, |sum, (byte, table)| sum ^ table[usize::from(*byte)])
    });
    let crc = rest.iter().fold(crc, |crc, byte| crc >> 8 ^ TABLES[0][usize::from(crc as u8 ^ byte)]);
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_the_specification() {
        // The test cases that the NVM Command Set has for the 64-bit guard.
        assert_eq!(crc64_append(0, &[0; 4096]), 0x6482_d367_eb22_b64e);
        assert_eq!(crc64_append(0, &[0xff; 4096]), 0xc0dd_ba73_02ec_a3ac);
        let rising: Vec<u8> = (0..4096).map(|index| index as u8).collect();
        assert_eq!(crc64_append(0, &rising), 0x3e72_9f5f_6750_449c);
    }

    #[test]
    fn a_checksum_in_pieces_is_that_of_the_whole() {
        let text = b"123456789";
        assert_eq!(crc64_append(0, text), 0xae8b_1486_0a79_9888);
        assert_eq!(crc64_append(crc64_append(0, &text[..4]), &text[4..]), 0xae8b_1486_0a79_9888);
    }
}
