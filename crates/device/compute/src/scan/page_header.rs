//! What a page says that it needs, read before the Parquet library makes room for it.
//!
//! A page's header is a struct of Thrift's compact protocol (Parquet format, `PageHeader`). Writers state each field once, in
//! ascending order; the library takes the last of several. So anything else is refused.

/// What a page says that it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct PageNeeds {
    /// Bytes without compression.
    pub uncompressed_bytes: usize,
    /// Values of a dictionary: the library makes room for all of them.
    pub dictionary_values: usize,
}

/// Why there is no header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoHeader {
    /// It goes on behind the bytes at hand.
    Cut,
    /// These bytes are none.
    Wrong,
}

type Parsed<T> = Result<T, NoHeader>;

/// Deepest nesting of a header.
const DEPTH_MAX: u8 = 8;

/// Fields of `PageHeader` and of `DictionaryPageHeader`.
const UNCOMPRESSED_PAGE_SIZE: i16 = 2;
const DICTIONARY_PAGE_HEADER: i16 = 7;
const NUM_VALUES: i16 = 1;

/// Reads the header that `head` begins with.
pub(super) fn needs(head: &[u8]) -> Parsed<PageNeeds> {
    let mut cursor = Cursor { rest: head };
    let mut needs = PageNeeds::default();
    cursor.fields(|cursor, field, kind| match (field, kind) {
        (UNCOMPRESSED_PAGE_SIZE, Kind::INTEGER) => cursor.size().map(|size| needs.uncompressed_bytes = size),
        (DICTIONARY_PAGE_HEADER, Kind::STRUCT) => cursor.fields(|cursor, field, kind| match (field, kind) {
            (NUM_VALUES, Kind::INTEGER) => cursor.size().map(|size| needs.dictionary_values = size),
            _ => cursor.skip(kind, 0),
        }),
        _ => cursor.skip(kind, 0),
    })?;
    Ok(needs)
}

/// A type of the compact protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Kind(u8);

impl Kind {
    const TRUE: Self = Self(1);
    const FALSE: Self = Self(2);
    const BYTE: Self = Self(3);
    const SHORT: Self = Self(4);
    const INTEGER: Self = Self(5);
    const LONG: Self = Self(6);
    const DOUBLE: Self = Self(7);
    const BINARY: Self = Self(8);
    const LIST: Self = Self(9);
    const SET: Self = Self(10);
    const STRUCT: Self = Self(12);
}

/// Reads a struct of the compact protocol.
struct Cursor<'a> {
    rest: &'a [u8],
}

impl Cursor<'_> {
    fn byte(&mut self) -> Parsed<u8> {
        let (&byte, rest) = self.rest.split_first().ok_or(NoHeader::Cut)?;
        self.rest = rest;
        Ok(byte)
    }

    fn skip_bytes(&mut self, bytes: u64) -> Parsed<()> {
        let bytes = usize::try_from(bytes).map_err(|_| NoHeader::Wrong)?;
        self.rest = self.rest.get(bytes..).ok_or(NoHeader::Cut)?;
        Ok(())
    }

    fn varint(&mut self) -> Parsed<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(NoHeader::Wrong)
    }

    /// A 32-bit integer that is not negative.
    fn size(&mut self) -> Parsed<usize> {
        let zigzag = u32::try_from(self.varint()?).map_err(|_| NoHeader::Wrong)?;
        let value = (zigzag >> 1) as i32 ^ -((zigzag & 1) as i32);
        usize::try_from(value).map_err(|_| NoHeader::Wrong)
    }

    /// Gives each field of a struct to `read`, up to the struct's end.
    fn fields(&mut self, mut read: impl FnMut(&mut Self, i16, Kind) -> Parsed<()>) -> Parsed<()> {
        let mut field = 0_i16;
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Ok(());
            }
            // A field that names its number may name one that was there.
            let step = i16::from(head >> 4);
            if step == 0 {
                return Err(NoHeader::Wrong);
            }
            field = field.checked_add(step).ok_or(NoHeader::Wrong)?;
            read(self, field, Kind(head & 0x0f))?;
        }
    }

    fn skip(&mut self, kind: Kind, depth: u8) -> Parsed<()> {
        match kind {
            _ if depth == DEPTH_MAX => Err(NoHeader::Wrong),
            Kind::TRUE | Kind::FALSE => Ok(()),
            Kind::BYTE => self.skip_bytes(1),
            Kind::SHORT | Kind::INTEGER | Kind::LONG => self.varint().map(drop),
            Kind::DOUBLE => self.skip_bytes(8),
            Kind::BINARY => {
                let bytes = self.varint()?;
                self.skip_bytes(bytes)
            }
            Kind::LIST | Kind::SET => self.skip_list(depth),
            Kind::STRUCT => self.fields(|cursor, _, kind| cursor.skip(kind, depth + 1)),
            _ => Err(NoHeader::Wrong),
        }
    }

    fn skip_list(&mut self, depth: u8) -> Parsed<()> {
        let head = self.byte()?;
        let kind = Kind(head & 0x0f);
        let count = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
        // An element has a byte at least, also a truth value.
        if count > self.rest.len() as u64 {
            return Err(NoHeader::Cut);
        }
        for _ in 0..count {
            match kind {
                Kind::TRUE | Kind::FALSE => self.skip_bytes(1)?,
                _ => self.skip(kind, depth + 1)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Type, sizes and the header of a data page: number of values, encodings.
    const DATA: [u8; 17] = [
        0x15, 0x00, 0x15, 0x80, 0x80, 0x01, 0x15, 0x10, 0x2c, 0x15, 0x14, 0x15, 0x00, 0x15, 0x06, 0x00, 0x00,
    ];

    #[test]
    fn data_page_needs_its_size() {
        assert_eq!(needs(&DATA), Ok(PageNeeds { uncompressed_bytes: 8192, dictionary_values: 0 }));
    }

    #[test]
    fn dictionary_page_needs_its_values() {
        let head = [
            0x15, 0x04, 0x15, 0x10, 0x15, 0x10, 0x4c, 0x15, 0xfe, 0xff, 0xff, 0xff, 0x0f, 0x15, 0x00, 0x00,
            0x00,
        ];
        assert_eq!(
            needs(&head),
            Ok(PageNeeds { uncompressed_bytes: 8, dictionary_values: i32::MAX as usize })
        );
    }

    #[test]
    fn header_that_ends_anywhere_is_cut() {
        for end in 0..DATA.len() {
            assert_eq!(needs(&DATA[..end]), Err(NoHeader::Cut), "{end}");
        }
    }

    #[test]
    fn field_that_is_repeated_or_negative_is_refused() {
        // Behind the third field the second again, by its number.
        let repeated = [0x15, 0x04, 0x15, 0x10, 0x15, 0x10, 0x05, 0x04, 0xfe, 0xff, 0xff, 0xff, 0x0f, 0x00];
        assert_eq!(needs(&repeated), Err(NoHeader::Wrong));
        assert_eq!(needs(&[0x15, 0x04, 0x15, 0x01, 0x15, 0x10, 0x00]), Err(NoHeader::Wrong));
        assert_eq!(needs(&[0x1f, 0x00]), Err(NoHeader::Wrong));
    }
}
