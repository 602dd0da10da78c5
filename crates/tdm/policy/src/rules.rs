//! Rules: orders by path, one a line, such as `never /var/lib/app/**`.

use std::error::Error;
use std::fmt;
use std::path::Path;

use crate::level::Level;
use crate::order::Order;

/// An element of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece {
    /// This byte.
    Byte(u8),
    /// `?`: any one but a slash.
    One,
    /// `*`: any number, none a slash.
    Within,
    /// `**`: any number.
    Across,
}

/// An order for all files whose paths match a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    order: Order,
    pattern: Vec<Piece>,
}

impl Rule {
    /// `pattern` is a whole path: `?` matches a byte, `*` any bytes within a folder, `**` across folders.
    #[must_use]
    pub fn new(order: Order, pattern: &str) -> Self {
        let mut pieces = Vec::new();
        for byte in pattern.bytes() {
            match (byte, pieces.last()) {
                (b'*', Some(Piece::Within)) => {
                    pieces.pop();
                    pieces.push(Piece::Across);
                }
                (b'*', _) => pieces.push(Piece::Within),
                (b'?', _) => pieces.push(Piece::One),
                (byte, _) => pieces.push(Piece::Byte(byte)),
            }
        }
        Self { order, pattern: pieces }
    }

    /// Whether a path matches.
    #[must_use]
    pub fn is_about(&self, path: &Path) -> bool {
        // reached[n]: the bytes so far are like the first n pieces.
        let mut reached = vec![false; self.pattern.len() + 1];
        reached[0] = true;
        self.pass_empty(&mut reached);
        for byte in path.as_os_str().as_encoded_bytes() {
            let mut next = vec![false; reached.len()];
            for (at, piece) in self.pattern.iter().enumerate().filter(|(at, _)| reached[*at]) {
                match piece {
                    Piece::Byte(wanted) => next[at + 1] |= wanted == byte,
                    Piece::One => next[at + 1] |= *byte != b'/',
                    Piece::Within => next[at] |= *byte != b'/',
                    Piece::Across => next[at] = true,
                }
            }
            self.pass_empty(&mut next);
            reached = next;
        }
        reached.last() == Some(&true)
    }

    /// A star matches nothing, too.
    fn pass_empty(&self, reached: &mut [bool]) {
        for (at, piece) in self.pattern.iter().enumerate() {
            reached[at + 1] |= reached[at] && matches!(piece, Piece::Within | Piece::Across);
        }
    }
}

/// Rules in order: the first that matches a path holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules(Vec<Rule>);

/// A line that is not a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleError {
    /// Its number, from 1.
    pub line: usize,
    /// Its text.
    pub text: String,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} is not never, absorb or dax with a path from the root: {:?}", self.line, self.text)
    }
}

impl Error for RuleError {}

impl Rules {
    /// These rules before `others`.
    #[must_use]
    pub const fn new(rules: Vec<Rule>) -> Self {
        Self(rules)
    }

    /// Parses one rule a line: `never`, `absorb` or `dax`, and a pattern. Empty lines and those beginning with `#` are skipped.
    ///
    /// # Errors
    /// The first invalid line.
    pub fn parse(text: &str) -> Result<Self, RuleError> {
        let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
        let rules = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        rules
            .map(|(line, text)| parse_line(text).ok_or_else(|| RuleError { line, text: text.to_owned() }))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The order of a path.
    #[must_use]
    pub fn order(&self, path: &Path) -> Option<Order> {
        self.0.iter().find(|rule| rule.is_about(path)).map(|rule| rule.order)
    }
}

fn parse_line(line: &str) -> Option<Rule> {
    let (word, pattern) = line.split_once(char::is_whitespace)?;
    let pattern = pattern.trim();
    let order = match word {
        "never" => Order::Never,
        "absorb" => Order::Pin(Level::Absorb),
        "dax" => Order::Pin(Level::Dax),
        _ => return None,
    };
    (pattern.starts_with('/') || pattern.starts_with("**")).then(|| Rule::new(order, pattern))
}
