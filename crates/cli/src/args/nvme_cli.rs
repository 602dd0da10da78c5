//! Spellings of nvme-cli, understood beside our own by every command that has the option.

use std::any::TypeId;

use clap::builder::{ArgPredicate, PossibleValuesParser};
use clap::{Arg, ArgAction, Command, ValueHint};

use crate::target::Target;

/// `--output-format` and `-o`, whose value `json` is `--json`, and `binary` is `--raw`.
const FORMAT: &str = "output_format";

/// A command tree whose commands take `-n` and `--namespace-id` for `--ns`, `-o json` for `--json`, `-b` for `--raw`, and `-H`.
pub fn with_its_spellings(command: Command) -> Command {
    let has = |id: &str| command.get_arguments().any(|arg| arg.get_id() == id);
    let has_short_o = command.get_arguments().any(|arg| arg.get_short() == Some('o'));
    let (has_json, has_raw) = (has("json"), has("raw"));
    let command = command.mut_args(spelled).mut_subcommands(with_its_spellings);
    if !has_json {
        return command;
    }
    let values = if has_raw { &["normal", "json", "binary"][..] } else { &["normal", "json"] };
    let format = Arg::new(FORMAT).long("output-format").value_name("FORMAT").hide(true);
    let format = format.value_parser(PossibleValuesParser::new(values));
    let command = command.arg(if has_short_o { format } else { format.short('o') });
    let command = command.mut_arg("json", |json| by_format(json, "json"));
    if !has_raw {
        return command;
    }
    // Answers are decoded as they are.
    let readable = Arg::new("human_readable").long("human-readable").short('H').hide(true);
    command.mut_arg("raw", |raw| by_format(raw, "binary")).arg(readable.action(ArgAction::SetTrue))
}

fn by_format(flag: Arg, format: &'static str) -> Arg {
    flag.default_value_if(FORMAT, ArgPredicate::Equals(format.into()), "true")
}

fn spelled(arg: Arg) -> Arg {
    let is_device = arg.get_value_parser().type_id() == TypeId::of::<Target>();
    let arg = if is_device { arg.value_hint(ValueHint::AnyPath) } else { arg };
    match arg.get_long() {
        Some("ns") => arg.short('n').alias("namespace-id"),
        Some("raw") => arg.short('b').alias("raw-binary"),
        _ => arg,
    }
}
