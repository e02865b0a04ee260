//! Tables of the configuration: each key is bound to its field in one place, from which it is read,
//! written to text, and shown in answers.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::amounts::{format_duration, format_size};
use crate::keys::{ConfigKey, Values};
use crate::protocol::params::Settings;
use arbitration::limit::Rate;
use fabric::controller::Sources;
use serde_json::{Map, Value as Json, json};
use uuid::Uuid;

use super::fields::{At, Fields, List, Wrong};
use super::identity::format_nguid;
use super::lines::{Lines, quote, quote_list};
use super::node::{Node, Value};
use super::qos::values::{CLASSES, UNITS, bandwidth, percent};
use super::values::{self, Read};

/// A table of the configuration, as the value that its keys make.
pub trait Table: Sized + 'static {
    /// The table's keys.
    const KEYS: &'static [ConfigKey];
    /// The binding of each key, in the same order.
    const BOUND: &'static [Bound<Self>];
    /// Whether `null` takes a setting of this table back.
    const NULLS: bool = false;
}

/// The binding of a key.
#[derive(Debug)]
pub struct Bound<T> {
    /// The key's name.
    pub(crate) name: &'static str,
    /// Reads the key's value from a table.
    pub(crate) read: fn(&mut T, &mut Fields<'_>, &'static ConfigKey, &mut Seen),
    /// Writes the key's value.
    pub(crate) write: fn(&T, &ConfigKey) -> Written,
}

/// A value in its two forms: in a configuration file, and in an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// The value in TOML; `None` means that the key is left out.
    pub(crate) toml: Option<String>,
    /// The value in JSON.
    pub(crate) json: Json,
}

impl Written {
    /// Writes a value that has one form in a file and in answers.
    pub(crate) fn same(value: impl Into<Json>) -> Self {
        let json = value.into();
        let toml = match &json {
            Json::Null => None,
            Json::String(text) => Some(quote(text)),
            other => Some(other.to_string()),
        };
        Self { toml, json }
    }

    pub(crate) fn nothing() -> Self {
        Self::same(Json::Null)
    }

    /// Writes a flag in a file only where it is set.
    pub(crate) fn if_set(flag: bool) -> Self {
        Self { toml: flag.then(|| "true".to_owned()), json: flag.into() }
    }

    /// Writes a value as text in a file, and as something else in answers.
    pub(crate) fn text(text: &str, json: impl Into<Json>) -> Self {
        Self { toml: Some(quote(text)), json: json.into() }
    }
}

/// The keys that were found in a table, and the keys that could not be read.
#[derive(Debug, Default)]
pub struct Seen {
    places: Vec<(&'static str, At<()>)>,
    lists: Vec<(&'static str, List<String>)>,
    unread: Vec<&'static str>,
}

impl Seen {
    /// Returns the place of a key that was read.
    pub fn place(&self, key: &str) -> Option<At<()>> {
        self.places.iter().find(|(name, _)| *name == key).map(|(_, place)| place.clone())
    }

    /// Notes the place of a key that was read together with another one.
    pub fn note<T>(&mut self, key: &'static str, value: Option<&At<T>>) {
        self.places.extend(value.map(|at| (key, at.place())));
    }

    /// Notes that a key could not be read.
    pub(crate) fn note_unread(&mut self, key: &'static str) {
        self.unread.push(key);
    }

    /// Takes the entries of a list that was read, each with its place.
    pub fn list(&mut self, key: &str) -> List<String> {
        let at = self.lists.iter().position(|(name, _)| *name == key);
        at.map(|at| self.lists.swap_remove(at).1).unwrap_or_default()
    }

    /// Returns whether a key was given and could not be read.
    pub fn unread(&self, key: &str) -> bool {
        self.unread.contains(&key)
    }

    /// Returns whether any key could not be read.
    pub(crate) fn any_unread(&self) -> bool {
        !self.unread.is_empty()
    }
}

/// Reads all keys of a table; a setting that is left out stays as it is.
pub fn read<T: Table>(fields: &mut Fields<'_>, object: &mut T) -> Seen {
    let mut seen = Seen::default();
    for key in T::KEYS.iter().filter(|key| !key.was.is_empty()) {
        fields.accept(key.name, key.was);
    }
    for (key, bound) in T::KEYS.iter().zip(T::BOUND) {
        (bound.read)(object, fields, key, &mut seen);
    }
    seen
}

/// Reads one key with `read`, and notes in `seen` where it is or that it could not be read.
pub fn take<F: Field>(
    fields: &mut Fields<'_>,
    key: &'static ConfigKey,
    nulls: bool,
    seen: &mut Seen,
    read: impl FnOnce(&Node) -> Read<F>,
) -> Option<F> {
    let value = fields.get(key.name, |node| match F::none().filter(|_| nulls) {
        Some(none) if matches!(node.value, Value::Null) => Ok(none),
        _ => read(node),
    });
    match value {
        Some(at) => {
            seen.places.push((key.name, at.place()));
            Some(at.value)
        }
        None if fields.has(key.name) => {
            seen.unread.push(key.name);
            None
        }
        None => None,
    }
}

/// Reads a list; its wrong entries are left out.
pub(crate) fn take_list(
    fields: &mut Fields<'_>,
    key: &'static ConfigKey,
    seen: &mut Seen,
    read: impl Fn(&Node) -> Read<String>,
) -> Option<Vec<String>> {
    let list = fields.list(key.name, read)?;
    let values = list.values();
    seen.lists.push((key.name, list));
    Some(values)
}

/// A list that a table may leave out.
pub(crate) trait ListField {
    /// Returns the entries; `None` means that the list is left out.
    fn entries(&self) -> Option<&[String]>;

    /// Writes the list.
    fn write(&self) -> Written {
        let entries = self.entries();
        Written { toml: entries.map(quote_list), json: json!(entries) }
    }
}

impl ListField for Vec<String> {
    fn entries(&self) -> Option<&[String]> {
        Some(self)
    }
}

impl ListField for Option<Vec<String>> {
    fn entries(&self) -> Option<&[String]> {
        self.as_deref()
    }
}

/// Writes all keys of a table, a line for each.
pub fn lines<T: Table>(lines: &mut Lines, object: &T) {
    for (key, bound) in T::KEYS.iter().zip(T::BOUND) {
        if let Some(value) = (bound.write)(object, key).toml {
            lines.raw(key.name, value);
        }
    }
}

/// Writes all keys of a table, each as `key = value`.
pub fn pairs<T: Table>(object: &T) -> Vec<String> {
    let bound = T::KEYS.iter().zip(T::BOUND);
    let written = bound.filter_map(|(key, bound)| Some((key, (bound.write)(object, key).toml?)));
    written.map(|(key, value)| format!("{} = {value}", key.name)).collect()
}

/// Writes all keys of a table as text without a title.
pub fn text<T: Table>(object: &T) -> String {
    let mut text = Lines::default();
    lines(&mut text, object);
    text.into_text()
}

/// Shows all keys of a table in an answer.
pub fn show<T: Table>(object: &T) -> Settings {
    let pairs = T::KEYS.iter().zip(T::BOUND);
    let settings: Map<String, Json> =
        pairs.map(|(key, bound)| (key.name.to_owned(), (bound.write)(object, key).json)).collect();
    settings.into()
}

/// Returns whether keys and bindings have the same names.
pub(crate) const fn agree<T>(mut keys: &[ConfigKey], mut bound: &[Bound<T>]) -> bool {
    while let (Some((key, more_keys)), Some((one, more))) =
        (keys.split_first(), bound.split_first())
    {
        let (mut a, mut b) = (key.name.as_bytes(), one.name.as_bytes());
        while let (Some((x, rest_a)), Some((y, rest_b))) = (a.split_first(), b.split_first()) {
            if *x != *y {
                return false;
            }
            (a, b) = (rest_a, rest_b);
        }
        if !a.is_empty() || !b.is_empty() {
            return false;
        }
        (keys, bound) = (more_keys, more);
    }
    keys.is_empty() && bound.is_empty()
}

/// Binds keys: to a field (`field`), to a field with a reader and a writer of its own (`read`), to
/// a list with a reader of its entries (`list`), or to functions (`with`). A key that is not bound
/// does not compile.
macro_rules! table {
    ($type:ty, $keys:expr $(, nulls = $nulls:literal)?; $($name:literal => $kind:ident($($how:tt)*),)*) => {
        impl $crate::table::Table for $type {
            const KEYS: &'static [crate::keys::ConfigKey] = $keys;
            const BOUND: &'static [$crate::table::Bound<Self>] = &[
                $($crate::table::table!(@$kind $type, $name, $($how)*),)*
            ];
            $(const NULLS: bool = $nulls;)?
        }

        const _: () = assert!(
            $crate::table::agree(
                <$type as $crate::table::Table>::KEYS,
                <$type as $crate::table::Table>::BOUND,
            ),
            "the keys of the schema differ from the keys that are bound to fields"
        );
    };
    (@field $type:ty, $name:literal, $($field:ident).+) => {
        $crate::table::Bound {
            name: $name,
            read: |object, fields, key, seen| {
                let nulls = <$type as $crate::table::Table>::NULLS;
                let read = |node: &$crate::node::Node| {
                    $crate::table::Field::read(&key.values, node)
                };
                let value = $crate::table::take(fields, key, nulls, seen, read);
                if let Some(value) = value {
                    object.$($field).+ = value;
                }
            },
            write: |object, key| {
                $crate::table::Field::write(&object.$($field).+, &key.values)
            },
        }
    };
    (@read $type:ty, $name:literal, $($field:ident).+, $read:expr, $write:expr) => {
        $crate::table::Bound {
            name: $name,
            read: |object, fields, key, seen| {
                let nulls = <$type as $crate::table::Table>::NULLS;
                let value = $crate::table::take(fields, key, nulls, seen, $read);
                if let Some(value) = value {
                    object.$($field).+ = value;
                }
            },
            write: |object, _| $write(&object.$($field).+),
        }
    };
    (@list $type:ty, $name:literal, $field:ident, $read:expr) => {
        $crate::table::Bound {
            name: $name,
            read: |object, fields, key, seen| {
                if let Some(values) = $crate::table::take_list(fields, key, seen, $read) {
                    object.$field = values.into();
                }
            },
            write: |object, _| $crate::table::ListField::write(&object.$field),
        }
    };
    (@with $type:ty, $name:literal, $read:expr, $write:expr) => {
        $crate::table::Bound { name: $name, read: $read, write: $write }
    };
}
pub(crate) use table;

/// Does nothing, for a key that was read together with another one.
pub(crate) fn read_already<T>(_: &mut T, _: &mut Fields<'_>, _: &'static ConfigKey, _: &mut Seen) {}

/// A value that a key of the configuration can have.
pub trait Field: Sized {
    /// Reads the value.
    fn read(of: &Values, node: &Node) -> Read<Self>;

    /// Writes the value.
    fn write(&self, of: &Values) -> Written;

    /// Returns the value that `null` stands for; `None` means that `null` is an error.
    fn none() -> Option<Self> {
        None
    }
}

/// Reports a key or parameter whose type cannot have the values that it takes.
pub fn mismatch<T>(of: &Values) -> Read<T> {
    debug_assert!(false, "the type does not take {of:?}");
    Err(Wrong::new("cannot be read", "leave it out, and report this"))
}

impl Field for bool {
    fn read(_: &Values, node: &Node) -> Read<Self> {
        values::boolean(node)
    }

    fn write(&self, _: &Values) -> Written {
        Written::same(*self)
    }
}

impl Field for u8 {
    fn read(of: &Values, node: &Node) -> Read<Self> {
        match *of {
            Values::Share { min, max } => percent(min, max)(node),
            ref other => mismatch(other),
        }
    }

    fn write(&self, _: &Values) -> Written {
        Written::text(&format!("{self} %"), *self)
    }
}

/// Implements `Field` for whole numbers, which may be sizes.
macro_rules! numbers {
    ($($type:ty)*) => {$(
        impl Field for $type {
            fn read(of: &Values, node: &Node) -> Read<Self> {
                match *of {
                    Values::Number { min, max } => values::integer(min.into(), max.into())(node),
                    Values::Count { min, max } => {
                        let count = values::count(min, max)(node)?;
                        Self::try_from(count).or_else(|_| mismatch(of))
                    }
                    Values::Size { min, max } => {
                        let bytes = values::size_within(min, max)(node)?;
                        Self::try_from(bytes).or_else(|_| mismatch(of))
                    }
                    Values::Bandwidth(_) => {
                        Self::try_from(bandwidth(node)?).or_else(|_| mismatch(of))
                    }
                    ref other => mismatch(other),
                }
            }

            fn write(&self, of: &Values) -> Written {
                match of {
                    Values::Size { .. } | Values::Bandwidth(_) => Written::text(&format_size((*self).into()), *self),
                    _ => Written::same(*self),
                }
            }
        }
    )*};
}
numbers!(u16 u32 u64);

impl Field for Duration {
    fn read(of: &Values, node: &Node) -> Read<Self> {
        match *of {
            Values::Time { min, max } => values::duration_within(min, max)(node),
            ref other => mismatch(other),
        }
    }

    fn write(&self, _: &Values) -> Written {
        Written::same(format_duration(*self))
    }
}

/// Commands or bytes per second.
impl Field for Rate {
    fn read(of: &Values, node: &Node) -> Read<Self> {
        Self::per_second(u64::read(of, node)?).map_or_else(|| mismatch(of), Ok)
    }

    fn write(&self, of: &Values) -> Written {
        self.get().write(of)
    }
}

impl Field for PathBuf {
    fn read(_: &Values, node: &Node) -> Read<Self> {
        values::path(node)
    }

    fn write(&self, _: &Values) -> Written {
        Written::same(self.to_string_lossy())
    }
}

impl Field for SocketAddr {
    fn read(_: &Values, node: &Node) -> Read<Self> {
        values::address(node)
    }

    fn write(&self, _: &Values) -> Written {
        Written::same(self.to_string())
    }
}

impl Field for String {
    fn read(of: &Values, node: &Node) -> Read<Self> {
        match of {
            Values::Nqn => values::nqn(node),
            Values::Group => values::group(node),
            Values::Keyring => values::keyring(node),
            Values::Text(_) => values::text(node),
            other => mismatch(other),
        }
    }

    fn write(&self, _: &Values) -> Written {
        Written::same(self.as_str())
    }
}

/// The field of the addresses that connections come from; any address is left out.
impl Field for Sources {
    fn read(_: &Values, node: &Node) -> Read<Self> {
        values::sources(node)
    }

    fn write(&self, _: &Values) -> Written {
        let texts = (!self.is_any()).then(|| self.texts().collect::<Vec<_>>());
        texts.write()
    }

    fn none() -> Option<Self> {
        Some(Self::default())
    }
}

/// A list of NSIDs.
impl Field for BTreeSet<u32> {
    fn read(_: &Values, node: &Node) -> Read<Self> {
        values::nsids(node)
    }

    fn write(&self, _: &Values) -> Written {
        Written::same(self.iter().copied().collect::<Vec<u32>>())
    }
}

impl Field for Uuid {
    fn read(_: &Values, node: &Node) -> Read<Self> {
        values::uuid(node)
    }

    fn write(&self, _: &Values) -> Written {
        Written::same(self.to_string())
    }
}

/// An NGUID.
impl Field for [u8; 16] {
    fn read(_: &Values, node: &Node) -> Read<Self> {
        values::nguid(node)
    }

    fn write(&self, _: &Values) -> Written {
        Written::same(format_nguid(self))
    }
}

impl<F: Field> Field for Option<F> {
    fn read(of: &Values, node: &Node) -> Read<Self> {
        F::read(of, node).map(Some)
    }

    fn write(&self, of: &Values) -> Written {
        match self {
            Some(value) => value.write(of),
            None => Written { toml: None, json: json!(null) },
        }
    }

    fn none() -> Option<Self> {
        Some(None)
    }
}

/// Implements `Field` for types whose values are words.
macro_rules! words {
    ($($type:ty: $words:expr);* $(;)?) => {$(
        impl $crate::table::Field for $type {
            fn read(
                _: &crate::keys::Values,
                node: &$crate::node::Node,
            ) -> $crate::values::Read<Self> {
                $crate::values::choice(&$words)(node)
            }

            fn write(
                &self,
                _: &crate::keys::Values,
            ) -> $crate::table::Written {
                $crate::table::Written::same($crate::qos::values::word(&$words, self))
            }
        }
    )*};
}
words! {
    arbitration::Class: CLASSES;
    arbitration::settings::Unit: UNITS;
}
pub(crate) use words;
