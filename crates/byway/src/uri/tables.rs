//! The options of each kind of URI: name, values, meaning and default, for errors and help.

/// What every option is called, what it may be, and what it decides: for errors and help.
pub const OPTIONS: [(&str, &str, &str); 33] = [
    ("transfer", "METHOD", "how payloads cross the link [adaptive]"),
    ("policy", "bytes|time|threshold", "by what adaptive chooses [bytes]"),
    ("tau", "BYTES", "policy=threshold: from this size on prp is taken"),
    ("alpha", "FACTOR", "policy=threshold: above 1 for less traffic [1]"),
    ("below", "METHOD", "policy=threshold: what is taken below [piggyback]"),
    ("inline-read", "on|off", "whether short results stand behind their completions [off]"),
    ("profile", "NAME", "whose times and habits are modelled [the image's]"),
    ("link", "GENxWIDTH", "the link alone, gen1x1 to gen6x16"),
    ("mps", "BYTES", "its maximum payload size, exactly"),
    ("mrrs", "BYTES", "its maximum read request size, exactly"),
    ("clock", "off|virtual|paced", "whether time is modelled, and waited for [off]"),
    ("ns", "NUMBER", "which namespace [the first that fits]"),
    ("run", "caller|thread", "who runs the device [caller]"),
    ("upkeep", "off|idle|thread", "who compacts and merges ahead: none, idle threads, one more [idle]"),
    (
        "compute",
        "THREADS",
        "that execute one query; 0 for a device without queries [one a processor, at most 4]",
    ),
    ("exec", "NUMBER:PROGRAM,...", "programs that may run over values of namespaces"),
    ("program-time", "SECONDS", "longest time of a program [20]"),
    ("ledger", "on|off", "whether the link is counted [on]"),
    ("sgl", "on|off", "whether SGLs are announced and taken [on]"),
    ("flash", "on|off", "whether the NAND array takes modelled time [on]"),
    ("packing", "POLICY", "all, selective or the default [selective-backfill]"),
    ("gc", "greedy|cost-benefit", "how garbage collection chooses [greedy]"),
    ("inject", "RULES", "operations of the flash that fail"),
    ("flush", "process|command|media", "what an acknowledgement survives [process]"),
    ("depth", "COUNT", "commands outstanding on a queue [128]"),
    ("ring", "ENTRIES", "of a submission ring"),
    ("reads", "mapped|checked", "whether the medium is read as memory, or every read is verified [mapped]"),
    ("prefault", "on|off", "whether memory of a RAM disk is taken at once, not as it is written [off]"),
    ("memtable", "SIZE", "RAM of index entries not on flash yet, beside copies of values [60M]"),
    ("cache", "SIZE", "RAM for pages of the index [64M]"),
    (
        "retention",
        "LIMITS",
        "page reads of a block, and pages programmed after it, past which its data is lost",
    ),
    ("readonly", "1|0", "open an image to read it, many at once [0]"),
    ("follow", "1|0", "read an image beside the process that writes it, without a lock [0]"),
];

/// Older names of options, understood for one release, and their new ones.
pub(crate) const RENAMED: [(&str, &str); 1] = [("fading", "retention")];

/// What each option of blocks is called, what it may be, and what it decides: for errors and help.
pub const BLOCK_OPTIONS: [(&str, &str, &str); 15] = [
    ("backend", "NAME", "by which interface [the fastest that can]"),
    ("readonly", "1|0", "for reading alone [0]"),
    ("direct", "1|0", "past the page cache [0]"),
    ("lba", "BYTES", "of a logical block"),
    ("create", "SIZE", "make a file of this size"),
    ("depth", "COUNT", "commands outstanding on a queue [128]"),
    ("ns", "NUMBER", "which namespace [the first]"),
    (
        "transfer",
        "METHOD",
        "how values cross, where commands are passed through: prp, piggyback-pt, adaptive [prp]",
    ),
    ("threads", "COUNT", "of the pool, with backend=threads"),
    ("fixed-file", "1|0", "the kernel looks the file up once, with io_uring [1]"),
    ("fixed-buffers", "COUNT", "buffers that the kernel knows beforehand, with io_uring [0]"),
    ("sqpoll", "MILLISECONDS", "a thread of the kernel takes commands and sleeps after this, with io_uring"),
    ("sqpoll-cpu", "NUMBER", "the processor of that thread"),
    ("iopoll", "1|0", "completions are polled for, with io_uring: of a file or block device, direct=1 [0]"),
    ("one-thread", "1|0", "each queue is used by one thread, with io_uring [0]"),
];

/// Options of rings.
pub(crate) const IO_URING_OPTIONS: &[&str] =
    &["fixed-file", "fixed-buffers", "sqpoll", "sqpoll-cpu", "iopoll", "one-thread"];

/// Options of rings that carry commands.
pub(crate) const IO_URING_CMD_OPTIONS: &[&str] =
    &["fixed-file", "fixed-buffers", "sqpoll", "sqpoll-cpu", "iopoll", "one-thread", "transfer"];

/// Options of the host: those of [`OPTIONS`] that do not configure the device itself.
pub const PCIE_OPTIONS: [&str; 9] =
    ["transfer", "policy", "tau", "alpha", "below", "inline-read", "ns", "depth", "ring"];

/// What each option of `tcp://` is called, what it may be, and what it decides: for errors and help.
pub const TCP_OPTIONS: [(&str, &str, &str); 17] = [
    ("ns", "NUMBER", "which namespace [the first that fits]"),
    ("depth", "COUNT", "commands outstanding on a queue [128]"),
    ("queues", "COUNT", "most queues to ask the controller for [128]"),
    ("hostnqn", "NQN", "the name of this host [that of /etc/nvme/hostnqn]"),
    ("hostid", "UUID", "the identifier of this host [the one in its name]"),
    ("dhchap-secret", "SECRET", "what this host shows who it is by (DH-HMAC-CHAP) [nothing]"),
    ("dhchap-ctrl-secret", "SECRET", "what the controller must show who it is by [nothing]"),
    ("dhchap-secret-file", "PATH", "a file with the first, or with the first and the second"),
    ("tls-key", "KEY", "the key by which every connection is a TLS connection [in the clear]"),
    ("tls-key-file", "PATH", "a file with it"),
    ("tls-identity", "0|1", "version of the key's identity; -compat behind it: as libnvme until 2025 [1]"),
    ("concat", "on|off", "the key of TLS is derived by dhchap-secret, not given [off]"),
    ("digests", "none|header|data|both", "what every connection is checked by [none]"),
    ("keep-alive", "SECONDS", "without a sign of life the controller ends; 0 for never [5]"),
    ("ctrl-loss-tmo", "SECONDS", "how long a lost controller is looked for [600]"),
    ("timeout", "SECONDS", "how long connecting may take [10]"),
    ("idle", "adaptive|sleep|poll", "what a queue does while its program waits [adaptive]"),
];

/// Options that apply to a discovery service.
pub(crate) const DISCOVERY_OPTIONS: [&str; 10] = [
    "hostnqn",
    "hostid",
    "dhchap-secret",
    "dhchap-ctrl-secret",
    "dhchap-secret-file",
    "tls-key",
    "tls-key-file",
    "tls-identity",
    "digests",
    "timeout",
];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    type Options = Vec<(&'static str, &'static str, &'static str)>;

    /// An option as some kinds of URIs have it, and its default in each column.
    struct Row {
        name: &'static str,
        values: &'static str,
        meaning: &'static str,
        defaults: [Option<String>; 4],
    }

    /// The options of each column of the page.
    fn columns() -> [Options; 4] {
        let pcie = OPTIONS.into_iter().filter(|(name, ..)| PCIE_OPTIONS.contains(name)).collect();
        [OPTIONS.to_vec(), pcie, TCP_OPTIONS.to_vec(), BLOCK_OPTIONS.to_vec()]
    }

    /// One row for each option and meaning, those of one name together.
    fn rows() -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::new();
        for (column, options) in columns().into_iter().enumerate() {
            for (name, values, about) in options {
                let (meaning, default) = about.split_once(" [").unwrap_or((about, "none]"));
                let same = |row: &Row| (row.name, row.values, row.meaning) == (name, values, meaning);
                let at = rows.iter().position(same).unwrap_or_else(|| {
                    let behind =
                        rows.iter().rposition(|row| row.name == name).map_or(rows.len(), |last| last + 1);
                    rows.insert(behind, Row { name, values, meaning, defaults: [const { None }; 4] });
                    behind
                });
                rows[at].defaults[column] = Some(default.trim_end_matches(']').to_owned());
            }
        }
        rows
    }

    fn table() -> String {
        let line = |row: &Row| {
            let defaults = row.defaults.iter().map(|default| default.clone().unwrap_or_default());
            let values = row.values.replace('|', "\\|");
            let cells = [format!("`{}=`", row.name), format!("`{values}`"), row.meaning.to_owned()];
            let cells: Vec<String> = cells.into_iter().chain(defaults).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        rows().iter().map(line).collect()
    }

    #[test]
    fn page_of_options_has_every_option_with_its_defaults() {
        let page = include_str!("../../../../docs/reference/uri-options.md");
        let table = table();
        assert!(page.contains(&table), "docs/reference/uri-options.md should have these rows:\n{table}");
        assert_eq!(page.matches("=`").count(), rows().len(), "and no others");
    }
}
