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
use super::hybrid::Runs;
use super::page::{PageReader, Values};
use super::selection::Selection;
use super::table::{Stored, Table};
use crate::error::QueryError;

/// Reads a column of a row group.
pub(super) struct Column {
    pages: PageReader,
    stored: Stored,
    data_type: DataType,
    /// Bytes of the object where pages are that were not reached.
    rest: Range<u64>,
    page: Page,
    /// Values that codes are of, once a page had codes.
    dictionary: Option<Table>,
    /// A table of another row group, to be used again.
    spare: Option<Table>,
    /// Values of the page at hand, if it is written without codes.
    plain: Table,
    rows: Rows,
    /// The buffer of the array that was given last, to be used again.
    given: Option<Buffer>,
}

/// The page at hand.
struct Page {
    start: u64,
    header: Option<PageHeader>,
    /// Rows that are left of it.
    left: usize,
    /// Rows before those at hand that were passed over unread.
    passed: usize,
    body: Option<Body>,
}

/// A page that was read.
struct Body {
    levels: Option<Runs>,
    codes: Codes,
}

/// Which value comes next.
enum Codes {
    Runs(Runs),
    /// The value of a plain page with this number.
    Next(usize),
}

/// The rows at hand.
#[derive(Default)]
struct Rows {
    /// How many were read; none before they are needed.
    count: usize,
    /// Where the values of all rows follow one another in the table, the place of the first.
    begin: Option<usize>,
    /// Else for each row the place of its value in the table.
    codes: Vec<u32>,
    /// Rows with values, if some have none.
    valid: Option<BooleanBuffer>,
}

fn damaged(why: &str) -> QueryError {
    QueryError::Damaged(why.to_owned())
}

impl Column {
    /// The column whose pages are in `bytes` of the object, as arrays of `data_type`.
    pub fn new(pages: PageReader, stored: Stored, data_type: DataType, bytes: Range<u64>) -> Self {
        let page = Page { start: bytes.start, header: None, left: 0, passed: 0, body: None };
        let plain = Table::empty(stored);
        Self {
            pages,
            stored,
            data_type,
            rest: bytes,
            page,
            dictionary: None,
            spare: None,
            plain,
            rows: Rows::default(),
            given: None,
        }
    }

    /// Takes over the memory of a column of another row group.
    pub fn take_memory(&mut self, old: Self) {
        self.pages.take_memory(old.pages);
        (self.rows.codes, self.given) = (old.rows.codes, old.given);
        if self.stored == old.stored {
            (self.plain, self.spare) = (old.plain, old.dictionary);
        }
    }

    /// Rows that are left of the page at hand, at least one.
    pub fn left(&mut self) -> Result<usize, QueryError> {
        while self.page.left == 0 {
            self.next_page()?;
        }
        Ok(self.page.left)
    }

    /// Passes over `count` rows, of which the page at hand has so many.
    pub fn pass(&mut self, count: usize) {
        self.page.left -= count;
        if self.rows.count == 0 {
            self.page.passed += count;
        }
        self.rows.count = 0;
    }

    fn next_page(&mut self) -> Result<(), QueryError> {
        if self.rest.is_empty() {
            return Err(damaged("a column has fewer rows than its row group"));
        }
        let start = self.rest.start;
        let header = self.pages.header(start)?;
        self.rest.start = start + (header.header_bytes + header.stored_bytes) as u64;
        if self.rest.start > self.rest.end {
            return Err(damaged("a page ends behind its column"));
        }
        match header.kind {
            PageKind::Dictionary { values, .. } => self.read_dictionary(start, &header, values)?,
            PageKind::Data { rows, .. } | PageKind::DataV2 { rows, .. } => {
                self.page = Page { start, header: Some(header), left: rows, passed: 0, body: None };
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
        let mut table = self.spare.take().unwrap_or_else(|| Table::empty(self.stored));
        table.read(self.pages.page(), Some(values))?;
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
        let passed = std::mem::take(&mut self.page.passed);
        self.read_rows(passed, true)?;
        self.read_rows(count, false)?;
        self.rows.count = count;
        Ok(())
    }

    fn read_page(&mut self) -> Result<(), QueryError> {
        let header = self.page.header.ok_or_else(|| damaged("a page of rows is none"))?;
        let parts = self.pages.read_rows(self.page.start, &header)?;
        let codes = match parts.values {
            Values::Plain => {
                self.plain.read(&self.pages.page()[parts.bytes], None)?;
                Codes::Next(0)
            }
            Values::Codes => {
                let width = self.pages.page().get(parts.bytes.start).copied();
                let width = width.ok_or_else(|| damaged("a page has no codes"))?;
                Codes::Runs(Runs::new(width, parts.bytes.start + 1..parts.bytes.end)?)
            }
        };
        self.page.body = Some(Body { levels: parts.levels, codes });
        Ok(())
    }

    /// Reads which value each of the next `count` rows has; only goes on behind them where they are `passed`.
    fn read_rows(&mut self, count: usize, is_passed: bool) -> Result<(), QueryError> {
        let Some(body) = &mut self.page.body else { return Err(damaged("a page of rows is none")) };
        let (page, rows) = (self.pages.page(), &mut self.rows);
        let step_rows = if is_passed { STEP_ROWS } else { count.max(1) };
        let mut left = count;
        rows.begin = None;
        while left > 0 {
            let step = left.min(step_rows);
            let values = rows.levels(page, body.levels.as_mut(), step)?;
            match &mut body.codes {
                Codes::Runs(runs) if is_passed => runs.skip(page, values)?,
                Codes::Runs(runs) => {
                    rows.codes.resize(rows.codes.len().max(values), 0);
                    runs.read(page, &mut rows.codes[..values])?;
                }
                Codes::Next(next) => {
                    rows.begin = (!is_passed).then_some(*next);
                    *next += values;
                }
            }
            left -= step;
        }
        if !is_passed {
            rows.spread(count);
            self.check_codes(count)?;
        }
        Ok(())
    }

    /// Every row's code has a value.
    fn check_codes(&self, count: usize) -> Result<(), QueryError> {
        let greatest = match self.rows.begin {
            Some(begin) => begin + count - 1,
            None => self.rows.codes[..count].iter().fold(0, |greatest, code| greatest.max(*code)) as usize,
        };
        match self.table() {
            Some(table) if greatest < table.len() || self.rows.has_no_value() => Ok(()),
            _ => Err(damaged("a page has codes of no value")),
        }
    }

    /// The values that codes are of.
    fn table(&self) -> Option<&Table> {
        match self.page.body.as_ref()?.codes {
            Codes::Runs(_) => self.dictionary.as_ref(),
            Codes::Next(_) => Some(&self.plain),
        }
    }

    /// What makes an array of the dictionary's values, and the code of each row at hand, if all rows have one.
    pub fn coded(&self) -> Option<(impl Fn() -> ArrayRef + '_, &[u32])> {
        let has_codes = matches!(self.page.body.as_ref()?.codes, Codes::Runs(_)) && self.rows.valid.is_none();
        let dictionary = self.dictionary.as_ref().filter(|_| has_codes)?;
        Some((|| dictionary.array(&self.data_type), &self.rows.codes[..self.rows.count]))
    }

    /// The type of its arrays.
    pub fn data_type(&self) -> DataType {
        self.data_type.clone()
    }
}

/// Rows that are passed over at a time.
const STEP_ROWS: usize = 4096;

impl Rows {
    /// Reads which of the next `count` rows have a value, and gives how many have one.
    fn levels(&mut self, page: &[u8], levels: Option<&mut Runs>, count: usize) -> Result<usize, QueryError> {
        self.valid = None;
        let Some(runs) = levels else { return Ok(count) };
        self.codes.resize(self.codes.len().max(count), 0);
        let levels = &mut self.codes[..count];
        runs.read(page, levels)?;
        let values = levels.iter().sum::<u32>() as usize;
        if values < count {
            self.valid = Some(BooleanBuffer::collect_bool(count, |row| levels[row] == 1));
        }
        Ok(values)
    }

    /// Moves the codes of values to the rows that have them.
    fn spread(&mut self, count: usize) {
        let Some(valid) = &self.valid else { return };
        // Values that follow one another do not where some rows have none.
        if let Some(begin) = self.begin.take() {
            self.codes.clear();
            self.codes.extend((begin..begin + valid.count_set_bits()).map(|place| place as u32));
        }
        self.codes.resize(self.codes.len().max(count), 0);
        let mut next = valid.count_set_bits();
        for row in (0..count).rev() {
            self.codes[row] = if valid.value(row) {
                next -= 1;
                self.codes[next]
            } else {
                0
            };
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
                into.extend(self.codes[..self.count].iter().map(|code| table[*code as usize]));
            }
            (Some(rows), None) => {
                into.extend(rows.iter().map(|row| table[self.codes[*row as usize] as usize]));
            }
        }
    }

    /// The place of each selected row's value.
    fn places(&self, selection: &Selection, into: &mut Vec<i32>) {
        into.clear();
        let place =
            |row: usize| self.begin.map_or_else(|| self.codes[row], |begin| (begin + row) as u32) as i32;
        match selection.rows() {
            None => into.extend((0..self.count).map(place)),
            Some(rows) => into.extend(rows.iter().map(|row| place(*row as usize))),
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
            _ => self.names(selection),
        }
    }

    fn primitive<T: ArrowPrimitiveType<Native: Copy + Default>>(
        &mut self,
        selection: &Selection,
    ) -> Result<ArrayRef, QueryError> {
        let mut values = self.spare::<T::Native>();
        let table = self.table().and_then(Table::numbers::<T::Native>);
        self.rows.gather(table.ok_or_else(|| damaged("a page was not read"))?, selection, &mut values);
        let values = ScalarBuffer::from(values);
        self.given = Some(values.inner().clone());
        let array = PrimitiveArray::<T>::try_new(values, self.rows.nulls(selection))?;
        Ok(Arc::new(array.with_data_type(self.data_type.clone())))
    }

    /// Strings as numbers in a dictionary.
    fn names(&mut self, selection: &Selection) -> Result<ArrayRef, QueryError> {
        let mut keys = self.spare::<i32>();
        self.rows.places(selection, &mut keys);
        let keys = ScalarBuffer::from(keys);
        self.given = Some(keys.inner().clone());
        let keys = PrimitiveArray::<Int32Type>::try_new(keys, self.rows.nulls(selection))?;
        let values = self.table().ok_or_else(|| damaged("a page was not read"))?.array(&DataType::Utf8);
        Ok(Arc::new(DictionaryArray::try_new(keys, values)?))
    }

    /// The buffer that was given last, if nothing holds it any more.
    fn spare<N: arrow_buffer::ArrowNativeType>(&mut self) -> Vec<N> {
        self.given.take().and_then(|given| given.into_vec().ok()).unwrap_or_default()
    }
}
