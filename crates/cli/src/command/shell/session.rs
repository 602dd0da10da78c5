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

use super::super::kv_device::{Shown, no_key};
use super::super::kv_ranges::{self, Counted, count_keys, delete_keys, print_pairs};
use super::help;
use super::words::{typed, words};

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
        match (about.names.first().copied().unwrap_or_default(), arguments) {
            ("get", [key]) => self.get(key, out)?,
            ("put", [key, value, conditions @ ..]) => self.put(key, value, conditions, out)?,
            ("del", [_, ..]) => arguments.iter().try_for_each(|key| self.delete(key, out))?,
            ("exists", [key]) => self.exists(key, out)?,
            ("list", []) => self.list(b"", u64::MAX, out)?,
            ("list", [prefix]) => self.list(prefix, u64::MAX, out)?,
            ("list", [prefix, limit]) => self.list(prefix, number(limit)?, out)?,
            ("scan", [] | [_] | [_, _] | [_, _, _]) => self.scan(arguments, out)?,
            ("count", []) => self.count(b"", out)?,
            ("count", [prefix]) => self.count(prefix, out)?,
            ("info", []) => self.info(out)?,
            ("begin", []) => self.begin(out)?,
            ("commit", []) => self.commit(out)?,
            ("discard", []) => self.discard(out)?,
            ("delete-range", _) => self.delete_range(arguments, out)?,
            ("format", [form]) => self.set_form(form)?,
            ("timing", [on]) => self.timing = is_on(on)?,
            ("format" | "timing", []) => self.show_settings(out)?,
            ("help", []) => put!(out, "{}", help::all())?,
            ("help", [name]) => {
                let found = help::command(name);
                let found = found.ok_or_else(|| anyhow!("there is no command {}", name.escape_ascii()))?;
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

    const fn shown(&self) -> Shown {
        Shown { hex: matches!(self.form, Form::Hex), json: matches!(self.form, Form::Json) }
    }

    fn get(&mut self, key: &[u8], out: &mut impl Write) -> Result<()> {
        let key = self.bytes(key)?;
        let value = self.kv.get(&key)?.ok_or_else(|| no_key(&key.escape_ascii().to_string()))?;
        match self.form {
            Form::Json => print_json(out, &JsonRecord::of_key(&key, false).with_value(&value))?,
            Form::Hex => writeln!(out, "{}", kv_ranges::text(&value, true))?,
            Form::Text if self.is_read => put!(out, "{}\n", String::from_utf8_lossy(&value))?,
            Form::Text => out.write_all(&[&value[..], b"\n"].concat())?,
        }
        Ok(())
    }

    fn put(&mut self, key: &[u8], value: &[u8], conditions: &[Vec<u8>], out: &mut impl Write) -> Result<()> {
        let (key, value) = (self.bytes(key)?, self.bytes(value)?);
        let mut options = StoreOptions::NONE;
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
        let key = self.bytes(key)?;
        match &mut self.batch {
            Some(batch) => batch.delete(&key)?,
            None if !self.kv.exists(&key)? => return Err(no_key(&key.escape_ascii().to_string()).into()),
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
        let key = self.bytes(key)?;
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

    fn list(&mut self, prefix: &[u8], limit: u64, out: &mut impl Write) -> Result<()> {
        let (prefix, shown) = (self.prefix(prefix)?, self.shown());
        for key in self.kv.keys_with_prefix(&prefix, None)?.take(usize::try_from(limit).unwrap_or(usize::MAX))
        {
            self.interrupt.checked("not all keys were listed")?;
            shown.write(&key?, out)?;
        }
        Ok(())
    }

    fn scan(&mut self, arguments: &[Vec<u8>], out: &mut impl Write) -> Result<()> {
        let bound = |at: usize| {
            arguments.get(at).filter(|word| !word.is_empty()).map(|word| self.bytes(word)).transpose()
        };
        let range = range(bound(0)?, bound(1)?)?;
        let limit = arguments.get(2).map(|limit| number(limit)).transpose()?;
        let shown = self.shown();
        let what = kv_ranges::Shown { options: ScanOptions::default().limit(limit), json: shown.json };
        print_pairs(&mut self.kv, range, shown.hex, &what, out, self.interrupt)
    }

    fn count(&mut self, prefix: &[u8], out: &mut impl Write) -> Result<()> {
        let range = KeyRange::prefix(&self.prefix(prefix)?)?;
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

    fn delete_range(&mut self, arguments: &[Vec<u8>], out: &mut impl Write) -> Result<()> {
        ensure!(self.batch.is_none(), "a range is deleted outside of batches alone");
        let range = match arguments {
            [all] if all == b"--all" => KeyRange::ALL,
            [option, prefix] if option == b"--prefix" => KeyRange::prefix(&self.bytes(prefix)?)?,
            [from, to] if !from.is_empty() && !to.is_empty() => {
                range(Some(self.bytes(from)?), Some(self.bytes(to)?))?
            }
            _ => bail!("usage: delete-range FROM TO, delete-range --prefix PREFIX, or delete-range --all"),
        };
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
        let typed =
            |key: Key| if hex { kv_ranges::text(key.as_bytes(), true) } else { typed(key.as_bytes()) };
        let keys = self.kv.keys_with_prefix(&prefix, None)?.take(most);
        Ok(keys.map(|key| key.map(typed)).collect::<byway::Result<_>>()?)
    }
}

fn range(from: Option<Vec<u8>>, to: Option<Vec<u8>>) -> Result<KeyRange> {
    Ok(match (from, to) {
        (None, None) => KeyRange::ALL,
        (Some(from), None) => KeyRange::new(from..)?,
        (None, Some(to)) => KeyRange::new(..to)?,
        (Some(from), Some(to)) => KeyRange::new(from..to)?,
    })
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
