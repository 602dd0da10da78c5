//! The commands of the shell, and what is said of them.

/// One command.
pub struct About {
    /// Its name, and other names for it.
    pub names: &'static [&'static str],
    /// What follows the name.
    pub arguments: &'static str,
    /// Its options, and whether a value follows each.
    pub options: &'static [(&'static str, bool)],
    /// What it does.
    pub what: &'static str,
    /// Lines that show it.
    pub examples: &'static [&'static str],
}

const fn about(
    names: &'static [&'static str],
    arguments: &'static str,
    what: &'static str,
    examples: &'static [&'static str],
) -> About {
    About { names, arguments, options: &[], what, examples }
}

impl About {
    const fn with(self, options: &'static [(&'static str, bool)]) -> Self {
        Self { options, ..self }
    }
}

/// Every command, in the order of `help`.
pub const COMMANDS: &[About] = &[
    about(&["get"], "KEY", "Print the value of a key.", &["get sensor-7"]),
    about(
        &["put", "set"],
        "KEY VALUE [--if-absent | nx | --if-present | xx]",
        "Store a value, perhaps only if the key exists or does not.",
        &["put sensor-7 21.5", "set greeting 'good day' nx"],
    )
    .with(&[("--if-absent", false), ("--if-present", false)]),
    about(&["del", "delete", "rm"], "KEY...", "Delete keys.", &["del sensor-7"]),
    about(&["exists"], "KEY", "Say whether a key exists.", &["exists sensor-7"]),
    about(
        &["list", "keys"],
        "[PREFIX] [LIMIT] [--prefix PREFIX] [--from KEY] [--limit COUNT]",
        "Print keys in order; a * at the end of the prefix is left out.",
        &["list", "keys sensor-* 10"],
    )
    .with(&[("--prefix", true), ("--from", true), ("--limit", true)]),
    about(
        &["scan"],
        "[PREFIX* | FROM [TO]] [LIMIT] [--prefix PREFIX | --from KEY --to KEY] [--limit COUNT] [--reverse] [--keys]",
        "Print keys and values in order: those of a prefix, or from a key on, up to a key without it; \"\" for no bound.",
        &["scan", "scan sensor-* 10", "scan a c", "scan --from a --to c --limit 10"],
    )
    .with(&[
        ("--prefix", true),
        ("--from", true),
        ("--to", true),
        ("--limit", true),
        ("--reverse", false),
        ("--keys", false),
    ]),
    about(
        &["count", "dbsize"],
        "[PREFIX] [--prefix PREFIX | --from KEY --to KEY]",
        "Count keys, one by one.",
        &["count", "count sensor-"],
    )
    .with(&[("--prefix", true), ("--from", true), ("--to", true)]),
    about(&["info", "stats"], "", "Say what the device and the namespace are.", &["info"]),
    about(
        &["begin", "multi"],
        "",
        "Collect puts and deletions from here on, to be done all or not at all (also: batch begin).",
        &["begin"],
    ),
    about(&["commit", "exec"], "", "Do what was collected since begin (also: batch commit).", &["commit"]),
    about(&["discard"], "", "Forget what was collected since begin (also: batch discard).", &["discard"]),
    about(
        &["delete-range", "deleterange"],
        "FROM TO | --prefix PREFIX | --from KEY --to KEY | --all",
        "Delete the keys of a range, and print how many there were. It is not atomic.",
        &["delete-range 2024 2025", "delete-range --prefix sensor-"],
    )
    .with(&[("--prefix", true), ("--from", true), ("--to", true), ("--all", false)]),
    about(
        &["format"],
        "[text | json | hex]",
        "How results are printed; in hex, keys and values are typed as hexadecimal digits too.",
        &["format json"],
    ),
    about(&["timing"], "[on | off]", "Say on standard error how long each command took.", &["timing on"]),
    about(&["help", "?"], "[COMMAND]", "List the commands, or explain one.", &["help put"]),
    about(&["quit", "exit"], "", "Leave, as Ctrl-D does.", &["quit"]),
];

/// The command of a name.
pub fn command(name: &[u8]) -> Option<&'static About> {
    COMMANDS.iter().find(|about| about.names.iter().any(|there| there.as_bytes() == name))
}

/// A line for each command.
pub fn all() -> String {
    let line = |about: &About| format!("  {:46} {}\n", about.usage(), about.what);
    let lines: String = COMMANDS.iter().map(line).collect();
    format!(
        "{lines}A word with blanks stands in quotes, and words that begin with -- stand behind a word --. `help COMMAND` has examples.\n"
    )
}

impl About {
    fn usage(&self) -> String {
        format!("{} {}", self.names.first().copied().unwrap_or_default(), self.arguments)
            .trim_end()
            .to_owned()
    }

    /// What there is to say of it.
    pub fn whole(&self) -> String {
        let others = match self.names.get(1..).unwrap_or_default() {
            [] => String::new(),
            others => format!("Also: {}\n", others.join(", ")),
        };
        let examples: String = self.examples.iter().map(|example| format!("  {example}\n")).collect();
        format!("{}\n{}\n{others}Examples:\n{examples}", self.usage(), self.what)
    }
}
