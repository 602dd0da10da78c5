//! Which column of a table is the key, and which the value.

use crate::encoding::Encoding;

/// What is known of a file's columns beforehand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    /// Name of the key's column; without it one that is called `key`, `key_hex` or `key_base64`.
    pub key: Option<String>,
    /// Name of the value's column; without it one that is called `value`, `value_hex` or `value_base64`, unless the key's is named.
    /// If there is none, the value is the whole row, as a JSON object.
    pub value: Option<String>,
    /// How keys stand in their column; `None` for what its name says.
    pub key_encoding: Option<Encoding>,
    /// How values stand in theirs.
    pub value_encoding: Option<Encoding>,
    /// Names of the columns of a CSV file whose first line is a record.
    pub names: Option<Vec<String>>,
    /// What parts the columns of a CSV file; `None` for a comma.
    pub delimiter: Option<u8>,
}

/// A column of a file, and how bytes stand in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub index: usize,
    pub encoding: Encoding,
}

/// The columns that records are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chosen {
    pub key: Column,
    /// None: the value is the whole row.
    pub value: Option<Column>,
}

impl Columns {
    /// The columns among those of a file.
    ///
    /// # Errors
    /// A name that no column has, as a sentence.
    pub(crate) fn choose(&self, names: &[String]) -> Result<Chosen, String> {
        let listed = || names.join(", ");
        let key = match &self.key {
            Some(name) => Some(named(name, names)?),
            None => by_default("key", names),
        };
        let key = key.ok_or_else(|| format!("name the key's column by --key: there are {}", listed()))?;
        let value = match (&self.value, &self.key) {
            (Some(name), _) => Some(named(name, names)?),
            (None, Some(_)) => None,
            (None, None) => by_default("value", names),
        };
        let with = |column: Column, encoding: Option<Encoding>| Column {
            encoding: encoding.unwrap_or(column.encoding),
            ..column
        };
        Ok(Chosen {
            key: with(key, self.key_encoding),
            value: value.map(|value| with(value, self.value_encoding)),
        })
    }
}

fn named(name: &str, names: &[String]) -> Result<Column, String> {
    let index = names.iter().position(|there| there == name);
    let index =
        index.ok_or_else(|| format!("no column is called {name:?}: there are {}", names.join(", ")))?;
    Ok(Column { index, encoding: Encoding::Text })
}

/// The column that has a name of ours, which says its encoding.
fn by_default(name: &str, names: &[String]) -> Option<Column> {
    [Encoding::Text, Encoding::Hex, Encoding::Base64].into_iter().find_map(|encoding| {
        let wanted = format!("{name}{}", encoding.suffix());
        names.iter().position(|there| *there == wanted).map(|index| Column { index, encoding })
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        text.split(',').map(str::to_owned).collect()
    }

    #[test]
    fn columns_of_our_names_say_their_encoding() {
        let chosen = Columns::default().choose(&names("value_base64,key_hex")).unwrap();
        assert_eq!(chosen.key, Column { index: 1, encoding: Encoding::Hex });
        assert_eq!(chosen.value, Some(Column { index: 0, encoding: Encoding::Base64 }));
    }

    #[test]
    fn value_is_the_whole_row_where_the_key_alone_is_named() {
        let by_id = Columns { key: Some("id".into()), ..Columns::default() };
        let chosen = by_id.choose(&names("id,value,city")).unwrap();
        assert_eq!((chosen.key.index, chosen.value), (0, None));
    }

    #[test]
    fn missing_column_is_named_with_those_there_are() {
        let said = Columns::default().choose(&names("id,city")).unwrap_err();
        assert!(said.contains("--key") && said.contains("id, city"), "{said}");
        let by_name = Columns { key: Some("nr".into()), ..Columns::default() };
        assert!(by_name.choose(&names("id,city")).unwrap_err().contains("\"nr\""));
    }
}
