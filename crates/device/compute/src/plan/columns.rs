//! The columns of an object, by name.

use arrow_schema::{DataType, Schema};

use super::types::readable;
use crate::sql::Name;

/// Columns of an object in its order.
#[derive(Debug)]
pub(crate) struct Columns {
    columns: Vec<ColumnOf>,
}

#[derive(Debug)]
struct ColumnOf {
    name: String,
    /// The type that it is read as; else the name of a type that is not read.
    data_type: Result<DataType, String>,
}

impl Columns {
    /// The columns of a file with `schema`.
    pub fn new(schema: &Schema) -> Self {
        let columns = schema.fields().iter().map(|field| ColumnOf {
            name: field.name().clone(),
            data_type: readable(field.data_type()).ok_or_else(|| field.data_type().to_string()),
        });
        Self { columns: columns.collect() }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.columns.len()
    }

    /// The name of column `index`.
    pub fn name(&self, index: usize) -> &str {
        self.columns.get(index).map_or("", |column| &column.name)
    }

    /// Index and type of the column that `name` names: exactly, or else without regard to case.
    ///
    /// # Errors
    /// Why there is none that could be read.
    pub fn find(&self, name: &Name) -> Result<(usize, DataType), String> {
        let exactly = |column: &ColumnOf| column.name == name.text;
        let loosely = |column: &ColumnOf| column.name.eq_ignore_ascii_case(&name.text);
        let index = self.columns.iter().position(exactly).or_else(|| self.columns.iter().position(loosely));
        let index = index.ok_or_else(|| format!("the object has no such column: it has {}", self.names()))?;
        self.type_of(index).map(|data_type| (index, data_type))
    }

    /// The type that column `index` is read as.
    ///
    /// # Errors
    /// Why it is not read.
    pub fn type_of(&self, index: usize) -> Result<DataType, String> {
        match self.columns.get(index).map(|column| &column.data_type) {
            Some(Ok(data_type)) => Ok(data_type.clone()),
            Some(Err(stored)) => Err(format!("the device does not read columns of type {stored}")),
            None => Err("the object has no such column".to_owned()),
        }
    }

    fn names(&self) -> String {
        const SHOWN: usize = 12;
        let shown: Vec<_> = self.columns.iter().take(SHOWN).map(|column| column.name.as_str()).collect();
        let more = if self.columns.len() > SHOWN { ", …" } else { "" };
        format!("{}{more}", shown.join(", "))
    }
}
