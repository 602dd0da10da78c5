//! What an export that did not end has written.

use crate::source::{Position, Source, SourceError};

/// The whole records at the beginning of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Where the last of them ends.
    pub end: Position,
    /// Its key.
    pub last_key: Vec<u8>,
}

/// The records of an unfinished file that are whole for certain: all but the last, which may lack its end. None where there are
/// fewer than two.
///
/// # Errors
/// A file that cannot be read, and one that has a wrong record before the last.
pub fn whole_records(source: &mut dyn Source) -> Result<Option<Kept>, SourceError> {
    let (mut kept, mut last) = (None, None);
    while let Some(record) = source.next_record() {
        kept = last.take();
        match record {
            Ok(record) => last = Some(Kept { end: source.position(), last_key: record.key }),
            // Behind a torn record is nothing.
            Err(error @ SourceError::Record { .. }) => match source.next_record() {
                Some(_) => return Err(error),
                None => return Ok(kept),
            },
            Err(error) => return Err(error),
        }
    }
    Ok(kept)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::columns::Columns;
    use crate::format::FileFormat;
    use crate::open;
    use crate::source::tests::Bytes;

    #[test]
    fn file_that_ends_anywhere_has_whole_records_before_the_torn_one() {
        for (format, text) in [
            (FileFormat::Csv, "key,value\na,1\nb,\"2\n\"\"two\"\"\n\"\nc,3\n"),
            (
                FileFormat::Jsonl,
                "{\"key\":\"a\",\"value\":\"1\"}\n{\"key\":\"b\",\"value\":\"2\"}\n{\"key\":\"c\",\"value\":\"3\"}\n",
            ),
            (FileFormat::Tsv, "a\t1\nb\t2\nc\t3\n"),
        ] {
            let ends: Vec<usize> = {
                let mut source =
                    open(&Bytes(text.into()), format, &Columns::default(), Position::default()).unwrap();
                let mut ends = Vec::new();
                while source.next_record().is_some() {
                    ends.push(source.position().bytes as usize);
                }
                ends
            };
            assert_eq!(ends.len(), 3);
            for cut in "key,value\n".len()..=text.len() {
                let Ok(mut source) = open(
                    &Bytes(text.as_bytes()[..cut].to_vec()),
                    format,
                    &Columns::default(),
                    Position::default(),
                ) else {
                    continue;
                };
                let kept = whole_records(source.as_mut()).unwrap();
                let end = kept.as_ref().map_or(0, |kept| kept.end.bytes as usize);
                // Never torn, and at most the record before the cut is written once more.
                assert!(end == 0 || (ends.contains(&end) && end <= cut), "{format:?} cut at {cut}: {kept:?}");
                let whole = ends.iter().filter(|end| **end <= cut).count();
                let wanted = if whole > 1 { ends[whole - 2] } else { 0 };
                assert!(end >= wanted, "{format:?} cut at {cut}: {end} is before {wanted}");
            }
        }
    }
}
