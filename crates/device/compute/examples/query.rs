//! Runs queries on a Parquet file.
//!
//! `query FILE 'SELECT …'` prints CSV. `query FILE` and `query FILE - THREADS` answer each line of their input, which is a query:
//! `ok N` and N bytes of Arrow IPC, or `error` and a sentence.

use std::io::{self, BufRead, Write};
use std::num::NonZero;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use byway_compute::{Cancellation, Format, Limits, Object, Query, QueryError, QueryResult};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(path) = arguments.next() else {
        eprintln!("usage: query FILE ['SELECT …' [THREADS [ROUNDS]] | - [THREADS]]");
        return ExitCode::from(2);
    };
    let done = match arguments.next() {
        Some(sql) if sql != "-" => show(&path, &sql, &mut arguments),
        _ => answer(&path, &mut arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

type Done = Result<(), Box<dyn std::error::Error>>;

fn object(path: &str) -> io::Result<Arc<dyn Object>> {
    Ok(Arc::new(Bytes::from(std::fs::read(path)?)))
}

/// Prints the result of `sql`, and how long each round took.
fn show(path: &str, sql: &str, arguments: &mut impl Iterator<Item = String>) -> Done {
    let limits = limits(arguments);
    let object = object(path)?;
    for round in 0..number(arguments).get() {
        let began = Instant::now();
        let result = run(&object, sql, Format::Csv { header: true }, &limits)?;
        let took = began.elapsed();
        if round == 0 {
            print!("{}", String::from_utf8_lossy(&result.bytes));
        }
        eprintln!("{} rows, {} bytes read, {} us", result.rows, result.read_bytes, took.as_micros());
    }
    Ok(())
}

/// The next argument, one where there is none.
fn number(arguments: &mut impl Iterator<Item = String>) -> NonZero<usize> {
    arguments.next().and_then(|number| number.parse().ok()).unwrap_or(NonZero::<usize>::MIN)
}

/// The limits of a device by default, with as many threads as the next argument says.
fn limits(arguments: &mut impl Iterator<Item = String>) -> Limits {
    let mut limits = Limits::default();
    limits.threads = number(arguments);
    limits
}

/// Answers the queries of standard input.
fn answer(path: &str, arguments: &mut impl Iterator<Item = String>) -> Done {
    let limits = limits(arguments);
    let object = object(path)?;
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        match run(&object, &line?, Format::ArrowStream, &limits) {
            Ok(result) => {
                writeln!(out, "ok {}", result.bytes.len())?;
                out.write_all(&result.bytes)?;
            }
            Err(error) => writeln!(out, "error {error}")?,
        }
        out.flush()?;
    }
    Ok(())
}

fn run(
    object: &Arc<dyn Object>,
    sql: &str,
    format: Format,
    limits: &Limits,
) -> Result<QueryResult, QueryError> {
    Query::parse(sql, limits)?.run(object, format, limits, &Cancellation::default())
}
