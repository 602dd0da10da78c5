//! Negative numbers: no option takes one, and the sentence that refuses one says so.

use std::any::TypeId;
use std::time::Duration;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, Error};

/// A command whose numeric options take `-5` as their value, so that their parsers refuse it. The parser of arguments would
/// advise to write `--` before it, which leads to another error.
pub fn as_values(command: Command) -> Command {
    command.mut_args(as_value).mut_subcommands(as_values)
}

fn as_value(arg: Arg) -> Arg {
    let types = [
        TypeId::of::<u8>(),
        TypeId::of::<u16>(),
        TypeId::of::<u32>(),
        TypeId::of::<u64>(),
        TypeId::of::<usize>(),
        TypeId::of::<f32>(),
        TypeId::of::<f64>(),
        TypeId::of::<Duration>(),
    ];
    let parsed = arg.get_value_parser().type_id();
    if types.iter().any(|number| parsed == *number) { arg.allow_negative_numbers(true) } else { arg }
}

/// An error with a tip, where a negative number is what is wrong.
pub fn explained(mut error: Error) -> Error {
    let place = match error.kind() {
        ErrorKind::ValueValidation => ContextKind::InvalidValue,
        // A size with a unit, such as -5M.
        ErrorKind::UnknownArgument => ContextKind::InvalidArg,
        _ => return error,
    };
    if matches!(error.get(place), Some(ContextValue::String(text)) if is_negative(text)) {
        let tip = StyledStr::from("numbers and sizes are positive");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    }
    error
}

fn is_negative(text: &str) -> bool {
    text.strip_prefix('-').is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
}
