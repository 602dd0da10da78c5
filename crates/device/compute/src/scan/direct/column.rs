//! One column of a row group, some rows at a time.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal64Type, Float32Type, Float64Type, Int32Type, Int64Type,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
};
use arrow_array::{ArrayRef, DictionaryArray, PrimitiveArray};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use arrow_schema::{DataType, TimeUnit};

use super::super::page_header::{PageHeader, PageKind};
use super::super::reader::ObjectReader;
use super::hybrid::HybridDecoder;
use super::page::{Codec, PageReader, ValueEncoding};
use super::selection::Selection;
use super::values::{PageValues, StoredType};
use crate::error::QueryError;

/// Reads a column of a row group.
pub(super) struct Column {
    pages: PageReader,
    stored: StoredType,
    data_type: DataType,
    /// Bytes of the object where pages are that were not reached.
    unread: Range<u64>,
    page: Page,
    /// Values of the dictionary, once it was read.
    dictionary: Option<PageValues>,
    /// Memory for a dictionary, from another row group.
    recycled: Option<PageValues>,
    /// Values of the page at hand, if it has no dictionary indices.
    plain: PageValues,
    rows: Rows,
    /// The buffer of the last array, to be used again once nothing else holds it.
    output: Option<Buffer>,
}

/// The page at hand.
struct Page {
    start: u64,
    header: Option<PageHeader>,
    /// Rows that are left of it.
    rows_left: usize,
    /// Rows before those at hand that were passed over unread.
    rows_skipped: usize,
    body: Option<Body>,
}

impl Page {
    /// No page yet: the first is at `start`.
    fn before(start: u64) -> Self {
        Self { start, header: None, rows_left: 0, rows_skipped: 0, body: None }
    }
}

/// A page that was read.
struct Body {
    definition_levels: Option<HybridDecoder>,
    indices: Indices,
}

/// Which value comes next.
enum Indices {
    Dictionary(HybridDecoder),
    /// The value of a plain page with this number.
    Plain(usize),
}

/// The rows at hand.
#[derive(Default)]
struct Rows {
    /// How many were read; none before they are needed.
    count: usize,
    /// Where the values of all rows follow one another, the index of the first.
    begin: Option<usize>,
    /// Else for each row the index of its value.
    indices: Vec<u32>,
    /// Rows with values, if some have none.
    valid: Option<BooleanBuffer>,
}

fn damaged(why: &str) -> QueryError {
    QueryError::Damaged(why.to_owned())
}

impl Column {
    /// The column whose pages are in `bytes` of the object, as arrays of `data_type`.
    pub fn new(pages: PageReader, stored: StoredType, data_type: DataType, bytes: Range<u64>) -> Self {
        let plain = PageValues::empty(stored);
        Self {
            pages,
            stored,
            data_type,
            page: Page::before(bytes.start),
            unread: bytes,
            dictionary: None,
            recycled: None,
            plain,
            rows: Rows::default(),
            output: None,
        }
    }

    /// Has it read the same column of another row group or object, in the memory that it has.
    pub fn restart(&mut self, reader: ObjectReader, codec: Codec, bytes: Range<u64>) {
        self.pages.restart(reader, codec);
        (self.page, self.unread) = (Page::before(bytes.start), bytes);
        self.recycled = self.dictionary.take().or(self.recycled.take());
        (self.rows.count, self.rows.begin, self.rows.valid) = (0, None, None);
    }

    /// Bytes of memory that the column has.
    pub fn held_bytes(&self) -> usize {
        let tables = [self.dictionary.as_ref(), self.recycled.as_ref(), Some(&self.plain)];
        let tables: usize = tables.into_iter().flatten().map(PageValues::held_bytes).sum();
        let output = self.output.as_ref().map_or(0, Buffer::capacity);
        self.pages.held_bytes() + tables + self.rows.indices.capacity() * size_of::<u32>() + output
    }

    /// Rows that are left of the page at hand, at least one.
    pub fn page_rows_left(&mut self) -> Result<usize, QueryError> {
        while self.page.rows_left == 0 {
            self.next_page()?;
        }
        Ok(self.page.rows_left)
    }

    /// Passes over `count` rows, of which the page at hand has so many.
    pub fn skip(&mut self, count: usize) {
        self.page.rows_left -= count;
        if self.rows.count == 0 {
            self.page.rows_skipped += count;
        }
        self.rows.count = 0;
    }

    fn next_page(&mut self) -> Result<(), QueryError> {
        if self.unread.is_empty() {
            return Err(damaged("a column has fewer rows than its row group"));
        }
        let start = self.unread.start;
        let header = self.pages.header(start)?;
        self.unread.start = start + (header.header_bytes + header.stored_bytes) as u64;
        if self.unread.start > self.unread.end {
            return Err(damaged("a page ends behind its column"));
        }
        match header.kind {
            PageKind::Dictionary { values, .. } => self.read_dictionary(start, &header, values)?,
            PageKind::Data { rows, .. } | PageKind::DataV2 { rows, .. } => {
                self.page =
                    Page { start, header: Some(header), rows_left: rows, rows_skipped: 0, body: None };
            }
            PageKind::Other => {}
        }
        Ok(())
    }

    fn read_dictionary(&mut self, start: u64, header: &PageHeader, values: usize) -> Result<(), QueryError> {
        if self.dictionary.is_some() {
            return Err(damaged("a column has two dictionaries"));
        }
        self.pages.read_dictionary(start, header)?;
        let mut table = self.recycled.take().unwrap_or_else(|| PageValues::empty(self.stored));
        table.read(self.pages.page(), values..=values)?;
        self.dictionary = Some(table);
        Ok(())
    }

    /// Reads the next `count` rows, of which the page at hand has so many, unless they were read.
    pub fn read(&mut self, count: usize) -> Result<(), QueryError> {
        if self.rows.count == count {
            return Ok(());
        }
        if self.page.body.is_none() {
            self.read_page()?;
        }
        let skipped = std::mem::take(&mut self.page.rows_skipped);
        self.read_rows(skipped, true)?;
        self.read_rows(count, false)?;
        self.rows.count = count;
        Ok(())
    }

    fn read_page(&mut self) -> Result<(), QueryError> {
        let header = self.page.header.ok_or_else(|| damaged("a page of rows is none"))?;
        let parts = self.pages.read_rows(self.page.start, &header)?;
        let indices = match parts.encoding {
            ValueEncoding::Plain => {
                self.plain.read(&self.pages.page()[parts.bytes], 0..=parts.rows)?;
                Indices::Plain(0)
            }
            ValueEncoding::Dictionary => {
                let width = self.pages.page().get(parts.bytes.start).copied();
                let width = width.ok_or_else(|| damaged("a page has no dictionary indices"))?;
                Indices::Dictionary(HybridDecoder::new(width, parts.bytes.start + 1..parts.bytes.end)?)
            }
        };
        self.page.body = Some(Body { definition_levels: parts.definition_levels, indices });
        Ok(())
    }

    /// Reads which value each of the next `count` rows has; only goes on behind them where they are skipped.
    fn read_rows(&mut self, count: usize, is_skipped: bool) -> Result<(), QueryError> {
        let Some(body) = &mut self.page.body else { return Err(damaged("a page of rows is none")) };
        let (page, rows) = (self.pages.page(), &mut self.rows);
        let step_rows = if is_skipped { STEP_ROWS } else { count.max(1) };
        let mut left = count;
        rows.begin = None;
        while left > 0 {
            let step = left.min(step_rows);
            let values = rows.read_definition_levels(page, body.definition_levels.as_mut(), step)?;
            match &mut body.indices {
                Indices::Dictionary(decoder) if is_skipped => decoder.skip(page, values)?,
                Indices::Dictionary(decoder) => {
                    rows.indices.resize(rows.indices.len().max(values), 0);
                    decoder.read(page, &mut rows.indices[..values])?;
                }
                Indices::Plain(next) => {
                    rows.begin = (!is_skipped).then_some(*next);
                    *next += values;
                }
            }
            left -= step;
        }
        if !is_skipped {
            rows.scatter(count);
            self.check_indices(count)?;
        }
        Ok(())
    }

    /// Every row has an index of a value.
    fn check_indices(&self, count: usize) -> Result<(), QueryError> {
        let greatest = match self.rows.begin {
            Some(begin) => begin + count - 1,
            None => {
                self.rows.indices[..count].iter().fold(0, |greatest, index| greatest.max(*index)) as usize
            }
        };
        match self.values() {
            Some(table) if greatest < table.len() || self.rows.has_no_value() => Ok(()),
            _ => Err(damaged("a page has a dictionary index without a value")),
        }
    }

    /// The values that the indices at hand refer to.
    fn values(&self) -> Option<&PageValues> {
        match self.page.body.as_ref()?.indices {
            Indices::Dictionary(_) => self.dictionary.as_ref(),
            Indices::Plain(_) => Some(&self.plain),
        }
    }

    /// A function that makes an array of the dictionary's values, and the index of each row at hand; `None` for pages without a dictionary or rows with NULL.
    pub fn dictionary_indices(&self) -> Option<(impl Fn() -> ArrayRef + '_, &[u32])> {
        let has_indices =
            matches!(self.page.body.as_ref()?.indices, Indices::Dictionary(_)) && self.rows.valid.is_none();
        let dictionary = self.dictionary.as_ref().filter(|_| has_indices)?;
        Some((|| dictionary.array(&self.data_type), &self.rows.indices[..self.rows.count]))
    }
}

/// Rows that are passed over at a time.
const STEP_ROWS: usize = 4096;

impl Rows {
    /// Reads which of the next `count` rows have a value, and gives how many have one.
    fn read_definition_levels(
        &mut self,
        page: &[u8],
        levels: Option<&mut HybridDecoder>,
        count: usize,
    ) -> Result<usize, QueryError> {
        self.valid = None;
        let Some(decoder) = levels else { return Ok(count) };
        self.indices.resize(self.indices.len().max(count), 0);
        let levels = &mut self.indices[..count];
        decoder.read(page, levels)?;
        let values = levels.iter().sum::<u32>() as usize;
        if values < count {
            self.valid = Some(BooleanBuffer::collect_bool(count, |row| levels[row] == 1));
        }
        Ok(values)
    }

    /// Moves the indices of values to the rows that have them: rows with NULL get index 0.
    fn scatter(&mut self, count: usize) {
        let Some(valid) = &self.valid else { return };
        // Values that follow one another do not where some rows have none.
        if let Some(begin) = self.begin.take() {
            self.indices.clear();
            self.indices.extend((begin..begin + valid.count_set_bits()).map(|index| index as u32));
        }
        self.indices.resize(self.indices.len().max(count), 0);
        let mut next = valid.count_set_bits();
        for row in (0..count).rev() {
            self.indices[row] = if valid.value(row) {
                next -= 1;
                self.indices[next]
            } else {
                0
            };
        }
    }

    /// Calls `take` with the value of each selected row that has one.
    #[inline]
    fn each<N: Copy>(&self, table: &[N], selection: &Selection, mut take: impl FnMut(N)) {
        match (selection.rows(), self.begin, &self.valid) {
            (None, Some(begin), None) => table[begin..begin + self.count].iter().copied().for_each(take),
            (Some(rows), Some(begin), None) => rows.iter().for_each(|row| take(table[begin + *row as usize])),
            (None, ..) => (0..self.count).filter_map(|row| self.value(table, row)).for_each(take),
            (Some(rows), ..) => {
                rows.iter().filter_map(|row| self.value(table, *row as usize)).for_each(&mut take);
            }
        }
    }

    fn value<N: Copy>(&self, table: &[N], row: usize) -> Option<N> {
        let has_value = self.valid.as_ref().is_none_or(|valid| valid.value(row));
        let index = self.begin.map_or_else(|| self.indices[row] as usize, |begin| begin + row);
        has_value.then(|| table[index])
    }

    /// How many of the selected rows have a value.
    fn values_in(&self, selection: &Selection) -> usize {
        match (&self.valid, selection.rows()) {
            (None, _) => selection.len(),
            (Some(valid), None) => valid.count_set_bits(),
            (Some(valid), Some(rows)) => rows.iter().filter(|row| valid.value(**row as usize)).count(),
        }
    }

    fn has_no_value(&self) -> bool {
        self.valid.as_ref().is_some_and(|valid| valid.count_set_bits() == 0)
    }

    fn nulls(&self, selection: &Selection) -> Option<NullBuffer> {
        let valid = self.valid.as_ref()?;
        Some(NullBuffer::new(match selection.rows() {
            None => valid.clone(),
            Some(rows) => BooleanBuffer::collect_bool(rows.len(), |at| valid.value(rows[at] as usize)),
        }))
    }

    /// The value of each selected row.
    fn gather<T: Copy + Default>(&self, table: &[T], selection: &Selection, into: &mut Vec<T>) {
        into.clear();
        match (selection.rows(), self.begin) {
            _ if table.is_empty() => into.resize(selection.len(), T::default()),
            (None, Some(begin)) => into.extend_from_slice(&table[begin..begin + self.count]),
            (Some(rows), Some(begin)) => into.extend(rows.iter().map(|row| table[begin + *row as usize])),
            (None, None) => {
                into.extend(self.indices[..self.count].iter().map(|index| table[*index as usize]));
            }
            (Some(rows), None) => {
                into.extend(rows.iter().map(|row| table[self.indices[*row as usize] as usize]));
            }
        }
    }

    /// The index of each selected row's value.
    fn keys(&self, selection: &Selection, into: &mut Vec<i32>) {
        into.clear();
        let key =
            |row: usize| self.begin.map_or_else(|| self.indices[row], |begin| (begin + row) as u32) as i32;
        match selection.rows() {
            None => into.extend((0..self.count).map(key)),
            Some(rows) => into.extend(rows.iter().map(|row| key(*row as usize))),
        }
    }
}

impl Column {
    /// The values of the selected rows, which were read.
    pub fn array(&mut self, selection: &Selection) -> Result<ArrayRef, QueryError> {
        match &self.data_type {
            DataType::Int32 => self.primitive::<Int32Type>(selection),
            DataType::Int64 => self.primitive::<Int64Type>(selection),
            DataType::Float32 => self.primitive::<Float32Type>(selection),
            DataType::Float64 => self.primitive::<Float64Type>(selection),
            DataType::Date32 => self.primitive::<Date32Type>(selection),
            DataType::Decimal64(..) => self.primitive::<Decimal64Type>(selection),
            DataType::Timestamp(TimeUnit::Millisecond, _) => {
                self.primitive::<TimestampMillisecondType>(selection)
            }
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                self.primitive::<TimestampMicrosecondType>(selection)
            }
            DataType::Timestamp(TimeUnit::Nanosecond, _) => {
                self.primitive::<TimestampNanosecondType>(selection)
            }
            _ => self.dictionary_strings(selection),
        }
    }

    /// Calls `take` with the number of each selected row that has one. The column is one of such numbers, and was read.
    #[inline]
    pub fn each_number<N: Copy + 'static>(&self, selection: &Selection, take: impl FnMut(N)) {
        if let Some(table) = self.values().and_then(PageValues::numbers::<N>) {
            self.rows.each(table, selection, take);
        }
    }

    /// The numbers of all rows at hand, if the column is one of such numbers, and they follow one another.
    pub fn contiguous_numbers<N: 'static>(&self) -> Option<&[N]> {
        let begin = self.rows.begin.filter(|_| self.rows.valid.is_none())?;
        self.values()?.numbers::<N>()?.get(begin..begin + self.rows.count)
    }

    /// How many of the selected rows have a value.
    pub fn values_in(&self, selection: &Selection) -> usize {
        self.rows.values_in(selection)
    }

    fn primitive<T: ArrowPrimitiveType<Native: Copy + Default>>(
        &mut self,
        selection: &Selection,
    ) -> Result<ArrayRef, QueryError> {
        let mut values = self.recycled_output::<T::Native>();
        let table = self.values().and_then(PageValues::numbers::<T::Native>);
        self.rows.gather(table.ok_or_else(|| damaged("a page was not read"))?, selection, &mut values);
        let values = ScalarBuffer::from(values);
        self.output = Some(values.inner().clone());
        let array = PrimitiveArray::<T>::try_new(values, self.rows.nulls(selection))?;
        Ok(Arc::new(array.with_data_type(self.data_type.clone())))
    }

    /// Strings, as keys of a dictionary.
    fn dictionary_strings(&mut self, selection: &Selection) -> Result<ArrayRef, QueryError> {
        let mut keys = self.recycled_output::<i32>();
        self.rows.keys(selection, &mut keys);
        let keys = ScalarBuffer::from(keys);
        self.output = Some(keys.inner().clone());
        let keys = PrimitiveArray::<Int32Type>::try_new(keys, self.rows.nulls(selection))?;
        let values = self.values().ok_or_else(|| damaged("a page was not read"))?.array(&DataType::Utf8);
        Ok(Arc::new(DictionaryArray::try_new(keys, values)?))
    }

    /// The buffer of the last array, if nothing holds it any more.
    fn recycled_output<N: arrow_buffer::ArrowNativeType>(&mut self) -> Vec<N> {
        self.output.take().and_then(|output| output.into_vec().ok()).unwrap_or_default()
    }
}
