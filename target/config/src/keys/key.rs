//! The description of a key of the configuration.

use super::values::Values;

/// A table of docs/reference/configuration.md: its heading, and the keys in their order.
pub type Documented = (&'static str, &'static [ConfigKey]);

/// A key of the configuration.
#[derive(Clone, Copy, Debug)]
pub struct ConfigKey {
    /// The key's name.
    pub name: &'static str,
    /// The key's former name, which is still accepted; empty where it has none.
    pub was: &'static str,
    /// The values that it takes.
    pub values: Values,
    /// Further conditions on values, in the words of docs/reference/configuration.md.
    pub and: &'static str,
    /// The default, in the words of docs/reference/configuration.md.
    pub default: &'static str,
    /// The key's meaning, in the words of docs/reference/configuration.md.
    pub meaning: &'static str,
    /// The option of `sluice` that sets it.
    pub option: Option<Opt>,
}

/// The default of a key that must be given, in the words of docs/reference/configuration.md.
pub const NEEDED: &str = "needed";

/// An option of `sluice` that sets a key.
#[derive(Clone, Copy, Debug)]
pub struct Opt {
    /// The option's long name, with hyphens; empty where it is the key's.
    pub long: &'static str,
    /// The name of the option's value in the help; empty where it is the key's, in capitals.
    pub value: &'static str,
    /// The option's help.
    pub help: &'static str,
    /// The form in which the value is written.
    pub shape: Shape,
    /// The key whose option must be given too; empty where there is none.
    pub requires: &'static str,
}

/// The form in which the value of an option is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `on` or `off`.
    Switch,
    /// No value: the option itself sets the key to this one.
    Flag(bool),
    /// A number.
    Number,
    /// A text, even if it looks like a number or a word.
    Text,
    /// One word of a few.
    Word(&'static [&'static str]),
    /// A text; the option may be given more than once, for a list.
    List,
    /// A number or a text.
    NumberOrText,
    /// A number or a text; `none` takes the setting back.
    OrNone,
    /// A text, even if it looks like a number; `none` takes the setting back.
    TextOrNone,
    /// Numbers with commas between them.
    Numbers,
    /// CLASS=NUMBER, with commas between them.
    ByClass,
}

/// Makes a key without an option.
pub(super) const fn key(
    name: &'static str,
    values: Values,
    default: &'static str,
    meaning: &'static str,
) -> ConfigKey {
    ConfigKey { name, was: "", values, and: "", default, meaning, option: None }
}

/// Joins lists of keys; `N` is the number of all.
pub(super) const fn joined<const N: usize>(mut lists: &[&[ConfigKey]]) -> [ConfigKey; N] {
    let mut all = [key("", Values::Boolean, "", ""); N];
    let mut free: &mut [ConfigKey] = &mut all;
    while let Some((list, more)) = lists.split_first() {
        let (part, rest) = free.split_at_mut(list.len());
        part.copy_from_slice(list);
        (free, lists) = (rest, more);
    }
    all
}

impl ConfigKey {
    /// Adds a former name.
    pub(super) const fn was(self, was: &'static str) -> Self {
        Self { was, ..self }
    }

    /// Adds further conditions on values.
    pub(super) const fn with(self, and: &'static str) -> Self {
        Self { and, ..self }
    }

    pub(super) const fn option(self, value: &'static str, help: &'static str) -> Self {
        let shape = match self.values {
            Values::Boolean => Shape::Switch,
            Values::Number { .. } => Shape::Number,
            Values::Count { .. } | Values::Other(_) => Shape::NumberOrText,
            Values::Words(words) => Shape::Word(words),
            Values::Nqns | Values::Networks => Shape::List,
            Values::Nsids => Shape::Numbers,
            _ => Shape::Text,
        };
        Self { option: Some(Opt { long: "", value, help, shape, requires: "" }), ..self }
    }

    /// Adds an option that takes the setting back with `none`.
    pub(super) const fn or_none(self, value: &'static str, help: &'static str) -> Self {
        self.option(value, help).shape(match self.values {
            Values::Number { .. } | Values::Count { .. } => Shape::OrNone,
            _ => Shape::TextOrNone,
        })
    }

    /// Sets the form of the option's value, where it does not follow from the values.
    pub(super) const fn shape(self, shape: Shape) -> Self {
        match self.option {
            Some(option) => Self { option: Some(Opt { shape, ..option }), ..self },
            None => self,
        }
    }

    /// Sets the option's long name, where it is not the key's.
    pub(super) const fn long(self, long: &'static str) -> Self {
        match self.option {
            Some(option) => Self { option: Some(Opt { long, ..option }), ..self },
            None => self,
        }
    }

    /// Makes the option require another key's option.
    pub(super) const fn requires(self, requires: &'static str) -> Self {
        match self.option {
            Some(option) => Self { option: Some(Opt { requires, ..option }), ..self },
            None => self,
        }
    }

    /// Returns whether the key must be given.
    #[must_use]
    pub fn is_needed(&self) -> bool {
        self.default == NEEDED
    }
}

/// Returns the words of a table of words with their values.
#[expect(clippy::indexing_slicing, reason = "both lists have N entries")]
pub(super) const fn words<T, const N: usize>(table: &[(&'static str, T); N]) -> [&'static str; N] {
    let mut words = [""; N];
    let mut at = 0;
    while at < N {
        words[at] = table[at].0;
        at += 1;
    }
    words
}
