//! Expressions whose names and types are known.

use std::collections::BTreeSet;

use arrow_array::ArrayRef;
use arrow_schema::DataType;

use crate::sql::{ArithmeticOp, CompareOp, Literal, LogicOp, Pattern};

/// An expression over the columns of a batch. Its operands have the types that its operator needs.
#[derive(Debug, Clone)]
pub(crate) enum Bound {
    Column { index: usize, data_type: DataType },
    Constant(Constant),
    Negate(Box<Self>),
    Arithmetic { op: ArithmeticOp, operands: Box<[Self; 2]>, data_type: DataType },
    Compare { op: CompareOp, operands: Box<[Self; 2]> },
    Logic { op: LogicOp, operands: Vec<Self> },
    Not(Box<Self>),
    IsNull(Box<Self>),
    Like { value: Box<Self>, pattern: Pattern },
    Cast { value: Box<Self>, to: DataType },
}

/// A value that is the same for every row.
#[derive(Debug, Clone)]
pub(crate) struct Constant {
    /// The value: an array of one element.
    pub value: ArrayRef,
    /// The literal that it was made of, which may have another type where another is needed.
    pub literal: Option<Literal>,
}

impl Bound {
    /// The type of its value.
    pub fn data_type(&self) -> DataType {
        match self {
            Self::Column { data_type, .. } | Self::Arithmetic { data_type, .. } => data_type.clone(),
            Self::Constant(constant) => constant.value.data_type().clone(),
            Self::Negate(value) => value.data_type(),
            Self::Cast { to, .. } => to.clone(),
            Self::Compare { .. }
            | Self::Logic { .. }
            | Self::Not(_)
            | Self::IsNull(_)
            | Self::Like { .. } => DataType::Boolean,
        }
    }

    /// Its operands.
    pub fn operands(&self) -> &[Self] {
        match self {
            Self::Column { .. } | Self::Constant(_) => &[],
            Self::Arithmetic { operands, .. } | Self::Compare { operands, .. } => operands.as_slice(),
            Self::Logic { operands, .. } => operands,
            Self::Negate(value)
            | Self::Not(value)
            | Self::IsNull(value)
            | Self::Like { value, .. }
            | Self::Cast { value, .. } => std::slice::from_ref(value),
        }
    }

    fn operands_mut(&mut self) -> &mut [Self] {
        match self {
            Self::Column { .. } | Self::Constant(_) => &mut [],
            Self::Arithmetic { operands, .. } | Self::Compare { operands, .. } => operands.as_mut_slice(),
            Self::Logic { operands, .. } => operands,
            Self::Negate(value)
            | Self::Not(value)
            | Self::IsNull(value)
            | Self::Like { value, .. }
            | Self::Cast { value, .. } => std::slice::from_mut(value),
        }
    }

    /// Adds the columns that it reads to `columns`.
    pub fn note_columns(&self, columns: &mut BTreeSet<usize>) {
        if let Self::Column { index, .. } = self {
            columns.insert(*index);
        }
        self.operands().iter().for_each(|operand| operand.note_columns(columns));
    }

    /// Renumbers its columns: column `columns[n]` becomes `n`, the place that it has in a batch of those columns.
    pub fn renumber(&mut self, columns: &[usize]) {
        if let Self::Column { index, .. } = self {
            *index = columns.iter().position(|column| column == index).unwrap_or(*index);
        }
        self.operands_mut().iter_mut().for_each(|operand| operand.renumber(columns));
    }

    /// Whether it is the same for every row.
    pub fn is_constant(&self) -> bool {
        matches!(self, Self::Constant(_))
    }

    /// Whether two expressions are the same by form.
    pub fn is_same(&self, other: &Self) -> bool {
        let same_node = match (self, other) {
            (Self::Column { index: a, .. }, Self::Column { index: b, .. }) => a == b,
            (Self::Constant(a), Self::Constant(b)) => a.value.as_ref() == b.value.as_ref(),
            (Self::Arithmetic { op: a, .. }, Self::Arithmetic { op: b, .. }) => a == b,
            (Self::Compare { op: a, .. }, Self::Compare { op: b, .. }) => a == b,
            (Self::Logic { op: a, .. }, Self::Logic { op: b, .. }) => a == b,
            (Self::Like { pattern: a, .. }, Self::Like { pattern: b, .. }) => a == b,
            (Self::Cast { to: a, .. }, Self::Cast { to: b, .. }) => a == b,
            (Self::Negate(_), Self::Negate(_))
            | (Self::Not(_), Self::Not(_))
            | (Self::IsNull(_), Self::IsNull(_)) => true,
            _ => false,
        };
        let (mine, theirs) = (self.operands(), other.operands());
        same_node && mine.len() == theirs.len() && mine.iter().zip(theirs).all(|(a, b)| a.is_same(b))
    }
}
