//! What a page says that it needs, read before the Parquet library makes room for it.
//!
//! A page's header is a struct of Thrift's compact protocol (Parquet format, `PageHeader`). Writers state each field once, in
//! ascending order; the library takes the last of several. So anything else is refused.

/// What the header of a page says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PageHeader {
    /// Bytes of the header itself.
    pub header_bytes: usize,
    /// Bytes of the page as it is stored.
    pub stored_bytes: usize,
    /// Bytes without compression.
    pub uncompressed_bytes: usize,
    pub kind: PageKind,
}

/// What a page holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PageKind {
    /// Values of a dictionary: the library makes room for all of them.
    Dictionary { values: usize, encoding: Encoding },
    /// Rows, compressed with their levels.
    Data { rows: usize, encoding: Encoding, levels: Encoding },
    /// Rows behind levels that are not compressed.
    DataV2 { rows: usize, encoding: Encoding, level_bytes: usize, is_compressed: bool },
    /// What no reader needs.
    Other,
}

/// How values are written (Parquet format, `Encoding`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Encoding(usize);

impl Encoding {
    pub const PLAIN: Self = Self(0);
    pub const PLAIN_DICTIONARY: Self = Self(2);
    pub const RLE: Self = Self(3);
    pub const RLE_DICTIONARY: Self = Self(8);
}

impl PageHeader {
    /// Values of a dictionary, if the page is one.
    pub fn dictionary_values(&self) -> usize {
        match self.kind {
            PageKind::Dictionary { values, .. } => values,
            _ => 0,
        }
    }
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

/// Fields of `PageHeader`.
const TYPE: i16 = 1;
const UNCOMPRESSED_PAGE_SIZE: i16 = 2;
const COMPRESSED_PAGE_SIZE: i16 = 3;
const DATA_PAGE_HEADER: i16 = 5;
const DICTIONARY_PAGE_HEADER: i16 = 7;
const DATA_PAGE_HEADER_V2: i16 = 8;

/// Fields of a header of a kind of page that are read, by number; an absent one is `None`.
type Fields = [Option<usize>; 8];

/// Reads the header that `head` begins with.
pub(super) fn read(head: &[u8]) -> Parsed<PageHeader> {
    let mut cursor = Cursor { rest: head };
    let (mut page, mut data, mut dictionary, mut data_v2) = (Fields::default(), None, None, None);
    cursor.fields(|cursor, field, kind| match (field, kind) {
        (DATA_PAGE_HEADER, Kind::STRUCT) => cursor.numbers().map(|fields| data = Some(fields)),
        (DICTIONARY_PAGE_HEADER, Kind::STRUCT) => cursor.numbers().map(|fields| dictionary = Some(fields)),
        (DATA_PAGE_HEADER_V2, Kind::STRUCT) => cursor.numbers().map(|fields| data_v2 = Some(fields)),
        _ => cursor.number(&mut page, field, kind),
    })?;
    let kind = match (needed(&page, TYPE)?, data, dictionary, data_v2) {
        (0, Some(fields), ..) => data_kind(&fields)?,
        (2, _, Some(fields), _) => dictionary_kind(&fields)?,
        (3, .., Some(fields)) => data_v2_kind(&fields)?,
        (0 | 2 | 3, ..) => return Err(NoHeader::Wrong),
        _ => PageKind::Other,
    };
    Ok(PageHeader {
        header_bytes: head.len() - cursor.rest.len(),
        stored_bytes: needed(&page, COMPRESSED_PAGE_SIZE)?,
        uncompressed_bytes: needed(&page, UNCOMPRESSED_PAGE_SIZE)?,
        kind,
    })
}

fn needed(fields: &Fields, field: i16) -> Parsed<usize> {
    fields.get(field as usize - 1).copied().flatten().ok_or(NoHeader::Wrong)
}

/// `DataPageHeader`.
fn data_kind(fields: &Fields) -> Parsed<PageKind> {
    let encoding = |field| needed(fields, field).map(Encoding);
    Ok(PageKind::Data { rows: needed(fields, 1)?, encoding: encoding(2)?, levels: encoding(3)? })
}

/// `DictionaryPageHeader`.
fn dictionary_kind(fields: &Fields) -> Parsed<PageKind> {
    Ok(PageKind::Dictionary { values: needed(fields, 1)?, encoding: Encoding(needed(fields, 2)?) })
}

/// `DataPageHeaderV2`. The columns are flat: a row is a value, and levels of repetition have no bytes.
fn data_v2_kind(fields: &Fields) -> Parsed<PageKind> {
    if needed(fields, 6)? != 0 {
        return Err(NoHeader::Wrong);
    }
    Ok(PageKind::DataV2 {
        rows: needed(fields, 1)?,
        encoding: Encoding(needed(fields, 4)?),
        level_bytes: needed(fields, 5)?,
        is_compressed: fields[6] != Some(0),
    })
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

    /// A 32-bit integer, `None` where it is negative.
    fn integer(&mut self) -> Parsed<Option<usize>> {
        let zigzag = u32::try_from(self.varint()?).map_err(|_| NoHeader::Wrong)?;
        let value = (zigzag >> 1) as i32 ^ -((zigzag & 1) as i32);
        Ok(usize::try_from(value).ok())
    }

    /// The numbers and truth values of a struct whose other fields are skipped.
    fn numbers(&mut self) -> Parsed<Fields> {
        let mut fields = Fields::default();
        self.fields(|cursor, field, kind| cursor.number(&mut fields, field, kind))?;
        Ok(fields)
    }

    /// Reads one field into `fields`, or skips it where it is no number of theirs.
    fn number(&mut self, fields: &mut Fields, field: i16, kind: Kind) -> Parsed<()> {
        let place = usize::try_from(field - 1).ok().and_then(|place| fields.get_mut(place));
        match (place, kind) {
            (Some(place), Kind::INTEGER) => *place = self.integer()?,
            (Some(place), Kind::TRUE | Kind::FALSE) => *place = Some(usize::from(kind == Kind::TRUE)),
            _ => self.skip(kind, 0)?,
        }
        Ok(())
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
        let kind = PageKind::Data { rows: 10, encoding: Encoding::PLAIN, levels: Encoding::RLE };
        assert_eq!(
            read(&DATA),
            Ok(PageHeader { header_bytes: 17, stored_bytes: 8, uncompressed_bytes: 8192, kind })
        );
    }

    #[test]
    fn dictionary_page_needs_its_values() {
        let head = [
            0x15, 0x04, 0x15, 0x10, 0x15, 0x10, 0x4c, 0x15, 0xfe, 0xff, 0xff, 0xff, 0x0f, 0x15, 0x00, 0x00,
            0x00,
        ];
        assert_eq!(read(&head).map(|header| header.dictionary_values()), Ok(i32::MAX as usize));
    }

    #[test]
    fn header_that_ends_anywhere_is_cut() {
        for end in 0..DATA.len() {
            assert_eq!(read(&DATA[..end]), Err(NoHeader::Cut), "{end}");
        }
    }

    #[test]
    fn field_that_is_repeated_or_negative_is_refused() {
        // Behind the third field the second again, by its number.
        let repeated = [0x15, 0x04, 0x15, 0x10, 0x15, 0x10, 0x05, 0x04, 0xfe, 0xff, 0xff, 0xff, 0x0f, 0x00];
        assert_eq!(read(&repeated), Err(NoHeader::Wrong));
        assert_eq!(read(&[0x15, 0x04, 0x15, 0x01, 0x15, 0x10, 0x00]), Err(NoHeader::Wrong));
        assert_eq!(read(&[0x1f, 0x00]), Err(NoHeader::Wrong));
    }
}
