//! The `byway` command.

fn main() {}
