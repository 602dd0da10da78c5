//! A decoded structure: each field with its name, its value for programs, and the same for people.

use std::borrow::Cow;
use std::fmt;

use byway_console::size;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

/// Fields of a structure, in its order.
#[derive(Clone, Debug, Default)]
pub struct Fields(Vec<Field>);

#[derive(Clone, Debug)]
struct Field {
    name: Cow<'static, str>,
    value: Value,
    shown: String,
    about: Cow<'static, str>,
}

impl Fields {
    /// A field whose value is shown in its own way.
    pub fn with(
        mut self,
        name: impl Into<Cow<'static, str>>,
        value: impl Into<Value>,
        shown: impl Into<String>,
        about: impl Into<Cow<'static, str>>,
    ) -> Self {
        let (name, value, shown, about) = (name.into(), value.into(), shown.into(), about.into());
        self.0.push(Field { name, value, shown, about });
        self
    }

    /// A number that counts.
    pub fn number(
        self,
        name: impl Into<Cow<'static, str>>,
        number: impl Into<u128>,
        about: impl Into<Cow<'static, str>>,
    ) -> Self {
        let number = number.into();
        self.with(name, json_number(number), number.to_string(), about)
    }

    /// A number of bytes.
    pub fn bytes(
        self,
        name: impl Into<Cow<'static, str>>,
        bytes: impl Into<u128>,
        about: impl Into<Cow<'static, str>>,
    ) -> Self {
        let bytes = bytes.into();
        let shown = u64::try_from(bytes).map_or_else(|_| format!("{bytes} B"), size::human);
        self.with(name, json_number(bytes), shown, about)
    }

    /// A number whose bits, or whose name in hexadecimal, is what is known of it.
    pub fn hex(
        self,
        name: impl Into<Cow<'static, str>>,
        number: impl Into<u64>,
        about: impl Into<Cow<'static, str>>,
    ) -> Self {
        let number = number.into();
        self.with(name, number, format!("{number:#x}"), about)
    }

    /// Text, shown without its padding.
    pub fn text(
        self,
        name: impl Into<Cow<'static, str>>,
        bytes: &[u8],
        about: impl Into<Cow<'static, str>>,
    ) -> Self {
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        let text = String::from_utf8_lossy(bytes.get(..end).unwrap_or(bytes)).trim().to_owned();
        self.with(name, text.clone(), text.escape_debug().to_string(), about)
    }

    /// An identifier of some bytes; as null where all are zero, which means that there is none.
    pub fn identifier(
        self,
        name: impl Into<Cow<'static, str>>,
        bytes: &[u8],
        about: impl Into<Cow<'static, str>>,
    ) -> Self {
        if bytes.iter().all(|byte| *byte == 0) {
            return self.with(name, Value::Null, "none", about);
        }
        let digits = byway_console::records::to_hex(bytes);
        self.with(name, digits.clone(), digits, about)
    }

    /// Whether something is so.
    pub fn flag(
        self,
        name: impl Into<Cow<'static, str>>,
        is: bool,
        about: impl Into<Cow<'static, str>>,
    ) -> Self {
        self.with(name, is, if is { "yes" } else { "no" }, about)
    }

    /// Which of the bits that are known are set, by their words; the others by their number.
    pub fn bits(
        self,
        name: impl Into<Cow<'static, str>>,
        bits: impl Into<u64>,
        words: &[&'static str],
        about: impl Into<Cow<'static, str>>,
    ) -> Self {
        let bits = bits.into();
        let word = |bit: usize| match words.get(bit) {
            Some(word) if !word.is_empty() => (*word).to_owned(),
            _ => format!("bit {bit}"),
        };
        let set: Vec<String> = (0..64).filter(|bit| bits >> bit & 1 == 1).map(word).collect();
        let shown = if set.is_empty() { "none".to_owned() } else { set.join(", ") };
        self.with(name, set, shown, about)
    }

    /// Names of the fields.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|field| field.name.as_ref())
    }

    /// Values of the fields, as people read them.
    pub fn shown(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|field| field.shown.as_str())
    }

    fn width(&self, of: impl Fn(&Field) -> &str) -> usize {
        self.0.iter().map(|field| of(field).chars().count()).max().unwrap_or(0)
    }
}

/// A number as programs read it: as text where JSON's readers would round it.
fn json_number(number: u128) -> Value {
    u64::try_from(number).map_or_else(|_| Value::from(number.to_string()), Value::from)
}

/// Name, value and what it is about, aligned. Long values push no column away.
impl fmt::Display for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LONG: usize = 28;
        let names = self.width(|field| &field.name);
        let values = self.width(|field| if field.shown.chars().count() > LONG { "" } else { &field.shown });
        for Field { name, shown, about, .. } in &self.0 {
            let line = format!("{name:<names$}  {shown:<values$}  {about}");
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// An object: a value under each name.
impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for field in &self.0 {
            map.serialize_entry(&field.name, &field.value)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_aligned_for_people_and_named_for_programs() {
        let fields = Fields::default()
            .bytes("mdts_bytes", 1u64 << 20, "longest transfer")
            .bits("oacs", 0b1010u16, &["security", "format"], "optional admin commands")
            .text("mn", b"Byway  \0", "model");
        let wanted = "mdts_bytes  1 MiB          longest transfer\n\
                      oacs        format, bit 3  optional admin commands\n\
                      mn          Byway          model\n";
        assert_eq!(fields.to_string(), wanted);
        let json = serde_json::to_value(&fields).map(|json| json.to_string()).unwrap_or_default();
        assert_eq!(json, r#"{"mdts_bytes":1048576,"mn":"Byway","oacs":["format","bit 3"]}"#);
    }

    #[test]
    fn a_number_of_more_than_64_bits_is_text_to_programs() {
        assert_eq!(json_number(1 << 64), Value::from("18446744073709551616"));
        assert_eq!(json_number(7), Value::from(7));
    }
}
