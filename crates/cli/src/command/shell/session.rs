//! Commands of the shell on one namespace.

use std::io::Write;
use std::time::Instant;

use anyhow::{Result, anyhow, bail, ensure};
use byway::{
    Batch, Capabilities, Device, Identity, Key, KeyRange, Kv, Namespace, NamespaceKind, ScanOptions,
    StoreOptions,
};
use byway_console::records::{JsonRecord, parse_hex};
use byway_console::size;
use byway_console::terminal::{Interrupt, print_json};
use serde::Serialize;
use serde_json::json;

use super::super::kv_device::{Shown, checked_key, no_key, text};
use super::super::kv_ranges::{self, Counted, count_keys, delete_keys, print_pairs, range_of};
use super::help;
use super::options::Options;
use super::words::{typed, words};

/// Keys or pairs that a listing shows at a terminal, where no limit is set.
const SHOWN_PAIRS: u64 = 100;

/// What comes after a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// The next one.
    GoOn,
    /// The end.
    Quit,
}

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Text,
    Json,
    Hex,
}

/// A namespace, and what was set and begun.
pub struct Session<'a> {
    kv: Kv,
    about: About,
    form: Form,
    timing: bool,
    batch: Option<Batch>,
    /// Whether a person reads the results.
    is_read: bool,
    interrupt: &'a Interrupt,
}

/// What `info` prints.
#[derive(Serialize)]
struct About {
    device: String,
    model: String,
    serial: String,
    nsid: u32,
    size_bytes: u64,
    used_bytes: u64,
    key_max_bytes: u16,
    value_max_bytes: u32,
    atomic_batches: bool,
}

impl About {
    fn of(uri: &str, identity: &Identity, namespace: &Namespace, can: &Capabilities) -> Self {
        let (key_max_bytes, value_max_bytes) = match namespace.kind {
            NamespaceKind::Kv { key_max_bytes, value_max_bytes, .. } => (key_max_bytes, value_max_bytes),
            _ => (0, 0),
        };
        Self {
            device: uri.to_owned(),
            model: identity.model.clone(),
            serial: identity.serial.clone(),
            nsid: namespace.nsid.get(),
            size_bytes: namespace.size_bytes,
            used_bytes: namespace.used_bytes,
            key_max_bytes,
            value_max_bytes,
            atomic_batches: can.kv.store_many_atomic,
        }
    }
}

impl<'a> Session<'a> {
    /// Commands on a device's namespace, whose results a person reads or a program.
    ///
    /// # Errors
    /// A device without keys and values.
    pub fn new(uri: &str, device: &Device, is_read: bool, interrupt: &'a Interrupt) -> Result<Self> {
        use byway::Backend;
        let kv = device.kv(None)?;
        let about = About::of(uri, device.identity(), &device.namespace(kv.nsid())?, device.capabilities());
        Ok(Self { kv, about, form: Form::Text, timing: false, batch: None, is_read, interrupt })
    }

    /// Changes that wait for a commit, where a batch was begun.
    pub fn waiting(&self) -> Option<usize> {
        self.batch.as_ref().map(Batch::len)
    }

    /// Does the command of a line.
    ///
    /// # Errors
    /// A line that is no command, what the device refuses, an answer that is no, an interruption.
    pub fn line(&mut self, line: &str, out: &mut impl Write) -> Result<Then> {
        let words = words(line).map_err(|why| anyhow!(why))?;
        let start = Instant::now();
        // `batch begin` is `begin`.
        let words = match words.as_slice() {
            [first, rest @ ..] if first == b"batch" && !rest.is_empty() => rest,
            words => words,
        };
        let Some((name, arguments)) = words.split_first() else { return Ok(Then::GoOn) };
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        let then = self.command(&name, arguments, out);
        out.flush()?;
        if self.timing {
            note!("({:.3} ms)", start.elapsed().as_secs_f64() * 1e3);
        }
        then
    }

    fn command(&mut self, name: &str, arguments: &[Vec<u8>], out: &mut impl Write) -> Result<Then> {
        let Some(about) = help::command(name.as_bytes()) else {
            bail!("there is no command {name}: `help` lists those there are")
        };
        let (options, arguments) = Options::of(about, arguments).map_err(|why| anyhow!(why))?;
        let arguments = arguments.as_slice();
        match (about.names.first().copied().unwrap_or_default(), arguments) {
            ("get", [key]) => self.get(key, out)?,
            ("put", [key, value, conditions @ ..]) => self.put(key, value, conditions, &options, out)?,
            ("del", [_, ..]) => arguments.iter().try_for_each(|key| self.delete(key, out))?,
            ("exists", [key]) => self.exists(key, out)?,
            ("list", [] | [_] | [_, _]) => self.list(arguments, &options, out)?,
            ("scan", [] | [_] | [_, _] | [_, _, _]) => self.scan(arguments, &options, out)?,
            ("count", [] | [_]) => self.count(arguments, &options, out)?,
            ("info", []) => self.info(out)?,
            ("begin", []) => self.begin(out)?,
            ("commit", []) => self.commit(out)?,
            ("discard", []) => self.discard(out)?,
            ("delete-range", _) => self.delete_range(arguments, &options, out)?,
            ("format", [form]) => self.set_form(form)?,
            ("timing", [on]) => self.timing = is_on(on)?,
            ("format" | "timing", []) => self.show_settings(out)?,
            ("help", []) => put!(out, "{}", help::all())?,
            ("help", [name]) => {
                let found = help::command(name);
                let found = found.ok_or_else(|| anyhow!("there is no command {}", text(name, false)))?;
                put!(out, "{}", found.whole())?;
            }
            ("quit", []) => return Ok(Then::Quit),
            _ => bail!("usage: {}", about.whole().lines().next().unwrap_or_default()),
        }
        Ok(Then::GoOn)
    }

    /// The bytes that a word stands for.
    fn bytes(&self, word: &[u8]) -> Result<Vec<u8>> {
        if self.form != Form::Hex {
            return Ok(word.to_vec());
        }
        parse_hex(&String::from_utf8_lossy(word)).map_err(|why| anyhow!(why))
    }

    /// The key that a word stands for.
    fn key(&self, word: &[u8]) -> Result<Vec<u8>> {
        let key = self.bytes(word)?;
        checked_key(&key)?;
        Ok(key)
    }

    const fn shown(&self) -> Shown {
        Shown { hex: matches!(self.form, Form::Hex), json: matches!(self.form, Form::Json) }
    }

    fn get(&mut self, key: &[u8], out: &mut impl Write) -> Result<()> {
        let key = self.key(key)?;
        let value = self.kv.get(&key)?.ok_or_else(|| no_key(&text(&key, false)))?;
        match self.form {
            Form::Json => print_json(out, &JsonRecord::of_key(&key, false).with_value(&value))?,
            Form::Hex => writeln!(out, "{}", text(&value, true))?,
            Form::Text if self.is_read => put!(out, "{}\n", String::from_utf8_lossy(&value))?,
            Form::Text => out.write_all(&[&value[..], b"\n"].concat())?,
        }
        Ok(())
    }

    fn put(
        &mut self,
        key: &[u8],
        value: &[u8],
        conditions: &[Vec<u8>],
        given: &Options,
        out: &mut impl Write,
    ) -> Result<()> {
        let (key, value) = (self.key(key)?, self.bytes(value)?);
        let mut options = StoreOptions::NONE;
        let named = ["--if-absent", "--if-present"].into_iter().filter(|name| given.has(name));
        let conditions: Vec<_> = conditions.iter().cloned().chain(named.map(|name| name.into())).collect();
        let conditions = conditions.as_slice();
        for condition in conditions {
            options = match condition.to_ascii_lowercase().as_slice() {
                b"nx" | b"--if-absent" => options.must_not_exist(true),
                b"xx" | b"--if-present" => options.must_exist(true),
                other => bail!("{} is no condition: nx (--if-absent) or xx (--if-present)", typed(other)),
            };
        }
        ensure!(conditions.len() < 2, "one condition at most: nx or xx");
        match &mut self.batch {
            Some(_) if !conditions.is_empty() => bail!("a put of a batch has no condition"),
            Some(batch) => batch.put(&key, &value)?,
            None => self.kv.put_if(&key, &value, options)?,
        }
        self.done(json!({ "value_bytes": value.len() }), &key, out)
    }

    fn delete(&mut self, key: &[u8], out: &mut impl Write) -> Result<()> {
        let key = self.key(key)?;
        match &mut self.batch {
            Some(batch) => batch.delete(&key)?,
            None if !self.kv.exists(&key)? => return Err(no_key(&text(&key, false)).into()),
            None => self.kv.delete(&key)?,
        }
        self.done(json!({ "deleted": true }), &key, out)
    }

    /// Says that a change is done, or waits for the commit.
    fn done(&self, what: serde_json::Value, key: &[u8], out: &mut impl Write) -> Result<()> {
        #[derive(Serialize)]
        struct Done<'a> {
            #[serde(flatten)]
            key: JsonRecord<'a>,
            #[serde(flatten)]
            what: serde_json::Value,
        }
        match (self.form, self.batch.is_some()) {
            (Form::Json, true) => print_json(
                out,
                &Done { key: JsonRecord::of_key(key, false), what: json!({ "queued": true }) },
            )?,
            (Form::Json, false) => print_json(out, &Done { key: JsonRecord::of_key(key, false), what })?,
            (_, true) => writeln!(out, "QUEUED")?,
            (_, false) => writeln!(out, "OK")?,
        }
        Ok(())
    }

    fn exists(&mut self, key: &[u8], out: &mut impl Write) -> Result<()> {
        let key = self.key(key)?;
        let exists = self.kv.exists(&key)?;
        match self.form {
            Form::Json => print_json(out, &json!({ "exists": exists }))?,
            _ => writeln!(out, "{}", if exists { "yes" } else { "no" })?,
        }
        Ok(())
    }

    /// A prefix as it is typed, without the star that other shells want behind it.
    fn prefix(&self, word: &[u8]) -> Result<Vec<u8>> {
        self.bytes(word.strip_suffix(b"*").unwrap_or(word))
    }

    /// The value of an option that is a key, a prefix or a bound.
    fn option(&self, options: &Options, name: &str) -> Result<Option<Vec<u8>>> {
        options.value(name).map(|word| self.bytes(word)).transpose()
    }

    /// Pairs to print at most, by an option or a word; and those that a person sees who says neither.
    fn limits(&self, options: &Options, word: Option<&Vec<u8>>) -> Result<(Option<u64>, Option<u64>)> {
        let limit = match (options.value("--limit"), word) {
            (Some(_), Some(_)) => bail!("the limit is said twice"),
            (Some(limit), None) => Some(number(limit)?),
            (None, word) => word.map(|word| number(word)).transpose()?,
        };
        Ok((limit, limit.is_none().then_some(SHOWN_PAIRS).filter(|_| self.is_read)))
    }

    fn list(&mut self, arguments: &[Vec<u8>], options: &Options, out: &mut impl Write) -> Result<()> {
        let prefix = self.one_prefix(arguments.first(), options)?.unwrap_or_default();
        let from = self.option(options, "--from")?.map(|from| checked_key(&from)).transpose()?;
        let (limit, page) = self.limits(options, arguments.get(1))?;
        let (shown, mut printed) = (self.shown(), 0);
        let most = usize::try_from(limit.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
        for key in self.kv.keys_with_prefix(&prefix, from)?.take(most) {
            self.interrupt.checked("not all keys were listed")?;
            let key = key?;
            if page == Some(printed) {
                kv_ranges::note_more(printed, out)?;
                break;
            }
            shown.write(&key, out)?;
            printed += 1;
        }
        Ok(())
    }

    /// The prefix that a word or an option says.
    fn one_prefix(&self, word: Option<&Vec<u8>>, options: &Options) -> Result<Option<Vec<u8>>> {
        match (word, self.option(options, "--prefix")?) {
            (Some(_), Some(_)) => bail!("the prefix is said twice"),
            (Some(word), None) => Ok(Some(self.prefix(word)?)),
            (None, prefix) => Ok(prefix),
        }
    }

    /// The range of `--prefix`, `--from` and `--to`, and of words: a prefix with a star, or bounds.
    fn range(&self, arguments: &[Vec<u8>], options: &Options) -> Result<KeyRange> {
        let bound = |at: usize, name: &str| match arguments.get(at).filter(|word| !word.is_empty()) {
            Some(_) if options.value(name).is_some() => bail!("{name} is said twice"),
            Some(word) => self.bytes(word).map(Some),
            None => self.option(options, name),
        };
        match arguments.first() {
            Some(pattern) if pattern.ends_with(b"*") => {
                let prefix = self.one_prefix(Some(pattern), options)?;
                range_of(prefix, self.option(options, "--from")?, self.option(options, "--to")?)
            }
            _ => range_of(self.option(options, "--prefix")?, bound(0, "--from")?, bound(1, "--to")?),
        }
    }

    fn scan(&mut self, arguments: &[Vec<u8>], options: &Options, out: &mut impl Write) -> Result<()> {
        // A limit follows the words of the range.
        let is_pattern = arguments.first().is_some_and(|first| first.ends_with(b"*"));
        let (bounds, rest) = arguments.split_at(arguments.len().min(if is_pattern { 1 } else { 2 }));
        ensure!(rest.len() < 2, "usage: scan PREFIX* [LIMIT]");
        let range = self.range(bounds, options)?;
        let (limit, page) = self.limits(options, rest.first())?;
        let scan = ScanOptions::default().backward(options.has("--reverse")).keys_only(options.has("--keys"));
        let shown = self.shown();
        let what = kv_ranges::Shown { options: scan.limit(limit), json: shown.json, page };
        print_pairs(&mut self.kv, range, shown.hex, &what, out, self.interrupt)
    }

    fn count(&mut self, arguments: &[Vec<u8>], options: &Options, out: &mut impl Write) -> Result<()> {
        let prefix = self.one_prefix(arguments.first(), options)?;
        let range = range_of(prefix, self.option(options, "--from")?, self.option(options, "--to")?)?;
        let keys = count_keys(&mut self.kv, range, self.interrupt)?;
        Counted::Count(keys).print(self.form == Form::Json, out)
    }

    fn info(&self, out: &mut impl Write) -> Result<()> {
        let about = &self.about;
        if self.form == Form::Json {
            return Ok(print_json(out, about)?);
        }
        put!(out, "{}: {}, serial number {}\n", about.device, about.model, about.serial)?;
        put!(
            out,
            "namespace {}: {}, of which {} were in use when it was opened\n",
            about.nsid,
            size::human(about.size_bytes),
            size::human(about.used_bytes)
        )?;
        let batches = if about.atomic_batches { "batches are atomic" } else { "no batches" };
        put!(
            out,
            "keys of 1 to {} bytes, values of up to {}; {batches}\n",
            about.key_max_bytes,
            size::human(about.value_max_bytes.into())
        )?;
        Ok(())
    }

    fn begin(&mut self, out: &mut impl Write) -> Result<()> {
        ensure!(self.batch.is_none(), "a batch was begun already: commit or discard it first");
        ensure!(self.about.atomic_batches, "the device has no atomic Store Many, which batches need");
        self.batch = Some(Batch::new());
        self.say("begun", 0, out)
    }

    fn commit(&mut self, out: &mut impl Write) -> Result<()> {
        let batch = self.batch.take().ok_or_else(|| anyhow!("no batch was begun"))?;
        self.kv.commit(&batch).map_err(|error| error.doing("nothing of the batch is stored"))?;
        self.say("committed", batch.len(), out)
    }

    fn discard(&mut self, out: &mut impl Write) -> Result<()> {
        let batch = self.batch.take().ok_or_else(|| anyhow!("no batch was begun"))?;
        self.say("discarded", batch.len(), out)
    }

    fn say(&self, what: &str, changes: usize, out: &mut impl Write) -> Result<()> {
        match (self.form, what) {
            (Form::Json, _) => print_json(out, &json!({ what: changes }))?,
            (_, "begun") => writeln!(out, "OK")?,
            _ => writeln!(out, "OK, {} {what}", size::counted(changes as u64, "change"))?,
        }
        Ok(())
    }

    fn delete_range(&mut self, arguments: &[Vec<u8>], options: &Options, out: &mut impl Write) -> Result<()> {
        ensure!(self.batch.is_none(), "a range is deleted outside of batches alone");
        let is_bounded = ["--prefix", "--from", "--to"].iter().any(|name| options.value(name).is_some());
        let range = match arguments {
            [] if options.has("--all") && !is_bounded => KeyRange::ALL,
            [] if is_bounded && !options.has("--all") => self.range(&[], options)?,
            [from, to] if !from.is_empty() && !to.is_empty() && !is_bounded && !options.has("--all") => {
                range_of(None, Some(self.bytes(from)?), Some(self.bytes(to)?))?
            }
            _ => bail!(
                "usage: delete-range FROM TO, delete-range --prefix PREFIX (or --from, --to), or delete-range --all"
            ),
        };
        ensure!(
            options.has("--all") || range != KeyRange::ALL,
            "the range is all keys: say delete-range --all"
        );
        let deleted = delete_keys(&mut self.kv, range, self.interrupt)?;
        Counted::Deleted(deleted).print(self.form == Form::Json, out)
    }

    fn set_form(&mut self, form: &[u8]) -> Result<()> {
        self.form = match form {
            b"text" => Form::Text,
            b"json" => Form::Json,
            b"hex" => Form::Hex,
            other => bail!("{} is no format: text, json or hex", typed(other)),
        };
        Ok(())
    }

    fn show_settings(&self, out: &mut impl Write) -> Result<()> {
        let timing = if self.timing { "on" } else { "off" };
        Ok(put!(out, "format {}, timing {timing}\n", format!("{:?}", self.form).to_lowercase())?)
    }

    /// Keys that begin as a word does, as they are typed.
    pub fn keys_from(&mut self, word: &[u8], most: usize) -> Result<Vec<String>> {
        let (prefix, hex) = (self.bytes(word)?, self.form == Form::Hex);
        let typed = |key: Key| if hex { text(key.as_bytes(), true) } else { typed(key.as_bytes()) };
        let keys = self.kv.keys_with_prefix(&prefix, None)?.take(most);
        Ok(keys.map(|key| key.map(typed)).collect::<byway::Result<_>>()?)
    }
}

fn number(word: &[u8]) -> Result<u64> {
    let text = String::from_utf8_lossy(word);
    byway_console::number::parse::<u64>(&text).map_err(|error| anyhow!("{error}"))
}

fn is_on(word: &[u8]) -> Result<bool> {
    match word {
        b"on" => Ok(true),
        b"off" => Ok(false),
        other => bail!("timing is on or off, not {}", typed(other)),
    }
}
