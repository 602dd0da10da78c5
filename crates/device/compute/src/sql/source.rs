//! The text of a query as tokens, with the place of each.

use std::sync::Arc;

use sqlparser::dialect::GenericDialect;
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan, Tokenizer};

use crate::error::Refusal;

/// What the parser takes a text as: identifiers as in ANSI SQL, functions of no vendor.
pub(super) static DIALECT: GenericDialect = GenericDialect {};

/// Most tokens of a query. A chain of operators makes a tree as deep as it is long, and dropping it recurses.
const TOKENS_MAX: usize = 2048;

/// A place in the text: line and column, both from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    pub line: u64,
    pub column: u64,
}

impl From<Location> for Position {
    fn from(at: Location) -> Self {
        Self { line: at.line, column: at.column }
    }
}

impl From<Span> for Position {
    fn from(span: Span) -> Self {
        span.start.into()
    }
}

/// A text and its tokens. A clone is the same text.
#[derive(Debug, Clone)]
pub(crate) struct Text {
    tokens: Arc<[TokenWithSpan]>,
    len_bytes: usize,
    /// Names of the object: what FROM calls it, and its alias.
    tables: Vec<String>,
}

impl Text {
    /// Cuts a text of at most `max_bytes` into tokens.
    pub fn tokenize(text: &str, max_bytes: usize) -> Result<Self, Refusal> {
        let start = Position { line: 1, column: 1 };
        if text.len() > max_bytes {
            let why = format!("the text has {} bytes, and the device takes {max_bytes}", text.len());
            return Err(refusal(first_word(text), start, why));
        }
        let tokens = Tokenizer::new(&DIALECT, text)
            .tokenize_with_location()
            .map_err(|error| refusal(text_at(text, error.location), error.location.into(), error.message))?;
        let tokens: Arc<[_]> = tokens.into_iter().filter(is_significant).collect();
        match tokens.get(TOKENS_MAX) {
            None => Ok(Self { tokens, len_bytes: text.len(), tables: Vec::new() }),
            Some(over) => {
                let why = format!("the query has more than {TOKENS_MAX} tokens");
                Err(refusal(over.token.to_string(), over.span.into(), why))
            }
        }
    }

    /// Its length in bytes.
    pub fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// The text of a query whose FROM names the object so.
    pub fn with_tables(self, tables: Vec<String>) -> Self {
        Self { tables, ..self }
    }

    /// Whether the object has that name.
    pub fn has_table(&self, name: &str) -> bool {
        self.tables.iter().any(|table| table.eq_ignore_ascii_case(name))
    }

    /// The tokens, without white space and comments.
    pub fn tokens(&self) -> &[TokenWithSpan] {
        &self.tokens
    }

    /// A refusal at the token that begins at or behind `at`.
    pub fn refuse(&self, at: impl Into<Position>, why: impl Into<String>) -> Refusal {
        let at = at.into();
        let behind = |token: &&TokenWithSpan| {
            let start = Position::from(token.span);
            (start.line, start.column) >= (at.line, at.column)
        };
        self.refuse_token(self.tokens.iter().find(behind), why.into())
    }

    /// A refusal at the first of `words` in the text, which are keywords.
    pub fn refuse_first_of(&self, words: &[Keyword]) -> Option<Refusal> {
        let token = self.tokens.iter().find(|token| is_keyword(&token.token, words))?;
        Some(self.refuse_token(Some(token), "the device does not take this clause".to_owned()))
    }

    /// A refusal at `token`, or at the end of the text.
    pub fn refuse_token(&self, token: Option<&TokenWithSpan>, why: String) -> Refusal {
        match token {
            Some(token) => refusal(token.token.to_string(), token.span.into(), why),
            None => {
                let end =
                    self.tokens.last().map_or(Position { line: 1, column: 1 }, |last| last.span.end.into());
                refusal("end of the query".to_owned(), end, why)
            }
        }
    }
}

fn refusal(token: String, at: Position, why: String) -> Refusal {
    Refusal { token, line: at.line, column: at.column, why }
}

fn is_significant(token: &TokenWithSpan) -> bool {
    !matches!(token.token, Token::Whitespace(_) | Token::EOF)
}

fn is_keyword(token: &Token, words: &[Keyword]) -> bool {
    matches!(token, Token::Word(word) if word.quote_style.is_none() && words.contains(&word.keyword))
}

/// The character at which the tokenizer stopped.
fn text_at(text: &str, at: Location) -> String {
    let line = text.lines().nth(at.line.saturating_sub(1) as usize).unwrap_or_default();
    let rest = line.chars().skip(at.column.saturating_sub(1) as usize);
    let token: String = rest.take_while(|c| !c.is_whitespace()).take(32).collect();
    if token.is_empty() { "end of the query".to_owned() } else { token }
}

fn first_word(text: &str) -> String {
    text.split_whitespace().next().unwrap_or_default().chars().take(32).collect()
}
