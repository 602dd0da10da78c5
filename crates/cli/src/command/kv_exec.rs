//! `byway kv exec`: a program that a device runs over the value of a key.

use std::io::Write;

use anyhow::{Context, Result};
use byway::ErrorKind;
use byway::spec::Status;
use byway_console::files;
use byway_console::records::{JsonRecord, to_hex};
use byway_console::terminal::{Interrupt, print_if_json, print_json};
use serde::Serialize;

use super::answer;
use super::kv::{parse_key, show};
use super::kv_device::{no_key, open_to_read};
use crate::args;

/// A program that has run.
#[derive(Serialize)]
struct Ran<'a> {
    #[serde(flatten)]
    key: JsonRecord<'a>,
    program: u32,
    /// Length of the whole output.
    output_bytes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_hex: Option<String>,
}

impl<'a> Ran<'a> {
    fn with_output(self, output: &'a [u8]) -> Self {
        match std::str::from_utf8(output) {
            Ok(text) => Self { output: Some(text), ..self },
            Err(_) => Self { output_hex: Some(to_hex(output)), ..self },
        }
    }
}

/// Runs a program, and prints its output.
///
/// # Errors
/// A file that cannot be read or exists already, no such key, a program that may not run or was stopped; what the device says.
pub fn run(exec: &args::Exec, out: &mut impl Write, interrupt: &Interrupt) -> Result<()> {
    let key = parse_key(&exec.key)?;
    let input = match (&exec.input_hex, &exec.input) {
        (Some(hex), _) => hex.0.clone(),
        (None, Some(path)) => files::read(path, interrupt)?,
        (None, None) => Vec::new(),
    };
    let mut output = vec![0; exec.output_max_bytes as usize];
    let output_bytes = output_of(exec, &key, &input, &mut output)?;
    output.truncate(output_bytes);
    if output.len() < output_bytes {
        note!("byway: the output has {output_bytes} bytes, of which {} were taken", output.len());
    }
    let key = JsonRecord::of_key(&key, exec.key.hex);
    let ran = Ran { key, program: exec.program, output_bytes, output: None, output_hex: None };
    match &exec.output {
        Some(path) => {
            answer::write_file(path, &output)?;
            Ok(print_if_json(out, exec.json, &ran)?)
        }
        None if exec.json => Ok(print_json(out, &ran.with_output(&output))?),
        None => show(&output, out),
    }
}

/// Has the device run the program. The length of its whole output.
fn output_of(exec: &args::Exec, key: &[u8], input: &[u8], output: &mut [u8]) -> Result<usize> {
    let ran = open_to_read(&exec.device)?.exec(key, exec.program, input, output);
    match ran {
        Err(error) if error.kind() == ErrorKind::KeyNotFound => Err(no_key(&exec.key.key).into()),
        Err(error) if error.nvme_status().is_some_and(|status| status.is(Status::INVALID_OPCODE)) => {
            Err(error)
                .context("the namespace allows no programs: its server or image was opened without exec=")
        }
        ran => Ok(ran?),
    }
}
