//! The metrics and labels that an expression of PromQL names. It knows the part of the language that our dashboards and rules use, and
//! panics at anything else.
#![allow(dead_code)]

use std::collections::{BTreeMap, BTreeSet};

const FUNCTIONS: [&str; 12] = [
    "absent",
    "avg",
    "changes",
    "count",
    "histogram_quantile",
    "increase",
    "label_values",
    "max",
    "min",
    "rate",
    "sum",
    "max_over_time",
];
const OPERATORS: [&str; 4] = ["and", "or", "unless", "offset"];
/// What a list of labels follows.
const LISTS: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];

/// A metric's label and the texts that it is compared with: `Some` where they are whole values.
pub type Matcher = (String, Option<Vec<String>>);

/// What an expression names.
#[derive(Debug, Default)]
pub struct Names {
    /// Metrics, each with the labels by which it is selected.
    pub metrics: BTreeMap<String, Vec<Matcher>>,
    /// Labels of lists, as `by (command)`.
    pub lists: BTreeSet<String>,
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Word(String),
    Text(String),
    Sign(String),
}

fn tokens(expression: &str) -> Vec<Token> {
    let letters: Vec<char> = expression.chars().collect();
    let is_word = |letter: &char| letter.is_ascii_alphanumeric() || "_:.$".contains(*letter);
    let (mut tokens, mut at) = (Vec::new(), 0);
    while at < letters.len() {
        let run = |from: usize, wanted: &dyn Fn(&char) -> bool| {
            letters[from..].iter().take_while(|letter| wanted(letter)).collect::<String>()
        };
        match letters[at] {
            letter if letter.is_whitespace() => at += 1,
            '"' => {
                let text = run(at + 1, &|letter| *letter != '"');
                assert!(!text.contains('\\'), "escapes are not known: {expression}");
                at += text.chars().count() + 2;
                assert!(at <= letters.len(), "a quote is not closed: {expression}");
                tokens.push(Token::Text(text));
            }
            letter if is_word(&letter) => {
                let word = run(at, &is_word);
                at += word.chars().count();
                tokens.push(Token::Word(word));
            }
            letter if "=!~<>".contains(letter) => {
                let sign = run(at, &|letter| "=!~<>".contains(*letter));
                at += sign.chars().count();
                tokens.push(Token::Sign(sign));
            }
            letter if "(){}[],+-*/".contains(letter) => {
                tokens.push(Token::Sign(letter.to_string()));
                at += 1;
            }
            other => panic!("{other:?} is not known: {expression}"),
        }
    }
    tokens
}

/// What `expression` names.
pub fn names(expression: &str) -> Names {
    let tokens = tokens(expression);
    let sign = |at: usize| matches!(tokens.get(at), Some(Token::Sign(sign)) if sign == "{").then_some(());
    let (mut names, mut at) = (Names::default(), 0);
    while at < tokens.len() {
        let Token::Word(word) = &tokens[at] else {
            at += 1;
            continue;
        };
        at += 1;
        if LISTS.contains(&word.as_str()) {
            at = labels_of_a_list(&tokens, at, &mut names.lists);
        } else if FUNCTIONS.contains(&word.as_str()) || OPERATORS.contains(&word.as_str()) || is_number(word)
        {
        } else if word.starts_with("byway_") || word.starts_with("process_") || word == "up" {
            let matchers = names.metrics.entry(word.clone()).or_default();
            if sign(at).is_some() {
                at = matchers_of_a_metric(&tokens, at + 1, matchers);
            }
        } else if tokens.get(at) == Some(&Token::Sign(")".to_owned())) {
            // The second argument of `label_values`.
            names.lists.insert(word.clone());
        } else {
            panic!("{word} is not known: {expression}");
        }
    }
    names
}

/// Numbers, times, and Grafana's interval.
fn is_number(word: &str) -> bool {
    word.starts_with(|letter: char| letter.is_ascii_digit()) || word == "$__rate_interval"
}

fn labels_of_a_list(tokens: &[Token], mut at: usize, labels: &mut BTreeSet<String>) -> usize {
    assert_eq!(tokens[at], Token::Sign("(".to_owned()));
    loop {
        at += 1;
        match &tokens[at] {
            Token::Word(label) => {
                labels.insert(label.clone());
            }
            Token::Sign(sign) if sign == "," => {}
            Token::Sign(sign) if sign == ")" => return at + 1,
            other => panic!("{other:?} in a list of labels"),
        }
    }
}

fn matchers_of_a_metric(tokens: &[Token], mut at: usize, matchers: &mut Vec<Matcher>) -> usize {
    loop {
        match &tokens[at..] {
            [Token::Sign(end), ..] if end == "}" => return at + 1,
            [Token::Sign(comma), ..] if comma == "," => at += 1,
            [Token::Word(label), Token::Sign(operator), Token::Text(text), ..] => {
                matchers.push((label.clone(), values(operator, text)));
                at += 3;
            }
            other => panic!("{other:?} in the labels of a metric"),
        }
    }
}

/// The values that a matcher names; `None` for a pattern, and for a variable of the dashboard.
fn values(operator: &str, text: &str) -> Option<Vec<String>> {
    let is_plain = text.chars().all(|letter| letter.is_ascii_alphanumeric() || "_|".contains(letter));
    match operator {
        "=" | "!=" if !text.contains('$') => Some(vec![text.to_owned()]),
        "=~" | "!~" if is_plain => Some(text.split('|').map(str::to_owned).collect()),
        _ => None,
    }
}
