//! One tree for values that come from a file (TOML) or over the control socket (JSON), so that the
//! same code reads and checks both.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

/// A value and its place in its text.
#[derive(Clone, Debug)]
pub struct Node {
    /// Byte range in the text; empty for a value that has no text.
    pub span: Range<usize>,
    /// The value.
    pub value: Value,
}

/// A value.
#[derive(Clone, Debug)]
pub enum Value {
    /// A string.
    String(String),
    /// An integer; `None` where it does not fit into 128 bits.
    Integer(Option<i128>),
    /// A boolean.
    Boolean(bool),
    /// A list.
    Array(Vec<Node>),
    /// A table, in the order of the file.
    Table(Vec<Entry>),
    /// JSON's `null`, which TOML does not have.
    Null,
    /// A value that no setting takes.
    Other(&'static str),
}

/// A table's key and value.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The key's byte range in the text.
    pub span: Range<usize>,
    /// The key's value.
    pub node: Node,
}

impl Value {
    /// Returns the value's kind, with an article.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::String(_) => "a string",
            Self::Integer(_) => "a number",
            Self::Boolean(_) => "a boolean",
            Self::Array(_) => "a list",
            Self::Table(_) => "a table",
            Self::Null => "null",
            Self::Other(kind) => kind,
        }
    }
}

impl Node {
    /// Makes the tree of a TOML document.
    pub fn from_toml(table: &Spanned<DeTable<'_>>) -> Self {
        Self { span: table.span(), value: toml_table(table.get_ref()) }
    }

    /// Makes the tree of a JSON value, which has no positions.
    pub fn from_json(value: &serde_json::Value) -> Self {
        Self { span: 0..0, value: json_value(value) }
    }

    /// Returns whether the value came over the control socket; docs/reference/control.md gives the units of its
    /// numbers.
    pub fn is_of_request(&self) -> bool {
        self.span.is_empty()
    }
}

fn toml_table(table: &DeTable<'_>) -> Value {
    let mut entries: Vec<Entry> = table
        .iter()
        .map(|(key, value)| Entry {
            key: key.get_ref().to_string(),
            span: key.span(),
            node: Node { span: value.span(), value: toml_value(value.get_ref()) },
        })
        .collect();
    entries.sort_by_key(|entry| entry.span.start);
    Value::Table(entries)
}

fn toml_value(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Integer(number) => Value::Integer(integer(number)),
        DeValue::Float(_) => Value::Other("a fraction"),
        DeValue::Boolean(value) => Value::Boolean(*value),
        DeValue::Datetime(_) => Value::Other("a date"),
        DeValue::Array(items) => Value::Array(
            items
                .iter()
                .map(|item| Node { span: item.span(), value: toml_value(item.get_ref()) })
                .collect(),
        ),
        DeValue::Table(table) => toml_table(table),
    }
}

fn integer(number: &DeInteger<'_>) -> Option<i128> {
    i128::from_str_radix(number.as_str(), number.radix()).ok()
}

fn json_value(value: &serde_json::Value) -> Value {
    use serde_json::Value as Json;
    match value {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Boolean(*value),
        Json::Number(number) if number.is_f64() => Value::Other("a fraction"),
        Json::Number(number) => {
            Value::Integer(number.as_u64().map(i128::from).or(number.as_i64().map(i128::from)))
        }
        Json::String(text) => Value::String(text.clone()),
        Json::Array(items) => Value::Array(items.iter().map(Node::from_json).collect()),
        Json::Object(object) => Value::Table(
            object
                .iter()
                .map(|(key, value)| Entry {
                    key: key.clone(),
                    span: 0..0,
                    node: Node::from_json(value),
                })
                .collect(),
        ),
    }
}
