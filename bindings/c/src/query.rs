//! Queries: SQL that a device executes over an object of its own.

use std::ffi::{c_char, c_int, c_void};

use byway::spec::vendor::QueryFormat;
use byway::{Result, SqlOptions, SqlResult};

use crate::arg::{bytes, handle, invalid, text};
use crate::error::border;
use crate::kv::{byway_kv, kv_of};
use crate::nvm::byway_nvm;
use crate::sized::{self, crossing};

/// How the result of a query is written. Zeroes, but for the size, are CSV without a line of names.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct byway_query_options {
    /// sizeof(byway_query_options).
    pub size: usize,
    /// BYWAY_QUERY_CSV, BYWAY_QUERY_JSON_LINES or BYWAY_QUERY_ARROW_STREAM.
    pub format: u32,
    /// 0, or BYWAY_QUERY_HEADER, BYWAY_QUERY_EXPLAIN.
    pub flags: u32,
}
crossing!(byway_query_options of 16);

/// A line per row.
pub const BYWAY_QUERY_CSV: u32 = 0;

/// A JSON object per row.
pub const BYWAY_QUERY_JSON_LINES: u32 = 1;

/// A stream of Arrow IPC.
pub const BYWAY_QUERY_ARROW_STREAM: u32 = 2;

/// CSV: the first line names the columns.
pub const BYWAY_QUERY_HEADER: u32 = 1;

/// The result says what the query would read and move, instead of its rows.
pub const BYWAY_QUERY_EXPLAIN: u32 = 2;

/// What byway_kv_query() and byway_nvm_query() call for each part of a result, which lives until it returns; anything but 0 ends the
/// query. It must not use the handle that is being queried.
pub type byway_part_callback =
    Option<unsafe extern "C" fn(context: *mut c_void, part: *const c_void, part_bytes: usize) -> c_int>;

/// Has the device execute `sql` over the value of a key, a Parquet file, and calls `on` for each part of the result, as they come. The
/// result of a call that fails is none, whatever parts came. `options` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_kv_query(
    kv: *mut byway_kv,
    key: *const c_void,
    key_bytes: usize,
    sql: *const c_char,
    options: *const byway_query_options,
    on: byway_part_callback,
    context: *mut c_void,
) -> c_int {
    border(|| {
        let on = on.ok_or_else(|| invalid("on is NULL"))?;
        // SAFETY: by the contract.
        let (queried, key, sql) = unsafe { (kv_of(kv)?, bytes(key, key_bytes, "key")?, text(sql, "sql")?) };
        // SAFETY: by the contract.
        let options = unsafe { options_of(options) }?;
        queried.calling = true;
        let result = queried.kv.query(key, sql, options);
        // SAFETY: the program's own function, called as it is declared; it does not come back to this handle.
        let given = result
            .and_then(|result| give(result, |part| unsafe { on(context, part.as_ptr().cast(), part.len()) }));
        queried.calling = false;
        given
    })
}

/// As byway_kv_query(), over the `bytes` bytes from block `slba` on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_nvm_query(
    nvm: *mut byway_nvm,
    slba: u64,
    bytes: u64,
    sql: *const c_char,
    options: *const byway_query_options,
    on: byway_part_callback,
    context: *mut c_void,
) -> c_int {
    border(|| {
        let on = on.ok_or_else(|| invalid("on is NULL"))?;
        // SAFETY: by the contract.
        let (nvm, sql, options) = unsafe { (handle(nvm, "nvm")?, text(sql, "sql")?, options_of(options)?) };
        let result = nvm.nvm.query(slba, bytes, sql, options)?;
        // SAFETY: the program's own function, called as it is declared; it does not come back to this handle.
        give(result, |part| unsafe { on(context, part.as_ptr().cast(), part.len()) })
    })
}

fn give(mut result: SqlResult<'_>, mut on: impl FnMut(&[u8]) -> c_int) -> Result<c_int> {
    while let Some(part) = result.next_part()? {
        if on(part) != 0 {
            break;
        }
    }
    Ok(0)
}

/// The options that a program gives; none for NULL.
///
/// # Safety
/// `given` is NULL, or points to a structure that is as long as it says.
unsafe fn options_of(given: *const byway_query_options) -> Result<SqlOptions> {
    if given.is_null() {
        return Ok(SqlOptions::default());
    }
    // SAFETY: the caller's word.
    let given = unsafe { sized::read(given) }?;
    let format = u8::try_from(given.format).ok().map(QueryFormat).filter(|format| format.name().is_some());
    let format = format.ok_or_else(|| invalid(format!("{} is no format of a result", given.format)))?;
    if given.flags & !(BYWAY_QUERY_HEADER | BYWAY_QUERY_EXPLAIN) != 0 {
        return Err(invalid(format!("flags {:#x} are not those of a query", given.flags)));
    }
    let options = SqlOptions::default().format(format);
    Ok(options.header(given.flags & BYWAY_QUERY_HEADER != 0).explain(given.flags & BYWAY_QUERY_EXPLAIN != 0))
}
