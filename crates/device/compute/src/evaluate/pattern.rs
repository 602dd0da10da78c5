//! LIKE and ILIKE.

use std::sync::Arc;

use arrow_array::{Scalar, StringArray};
use arrow_schema::ArrowError;
use arrow_string::like::{ilike, like};

use super::Value;
use crate::sql::Pattern;

pub(super) fn value(operand: &Value, pattern: &Pattern) -> Result<Value, ArrowError> {
    let text = Scalar::new(StringArray::from(vec![pattern.text.as_str()]));
    let matched = if pattern.ignores_case { ilike(operand, &text) } else { like(operand, &text) }?;
    Ok(operand.with(Arc::new(matched)))
}
