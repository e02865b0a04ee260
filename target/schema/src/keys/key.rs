//! The description of a key of the configuration.

use std::time::Duration;

use crate::amounts::{format_duration, format_size};

/// The classes' names, the most urgent first.
pub const CLASSES: [&str; 4] = ["urgent", "high", "medium", "low"];
/// The highest namespace identifier: lists of namespaces are kept below it (NN in Identify
/// Controller).
pub const NSID_MAX: u32 = 16_384;
/// The largest window in commands.
pub const WINDOW_MAX: u64 = 65_536;
/// The most operation credits, and the most commands that wait.
pub const COMMANDS_MAX: u64 = (1 << 24) - 1;
/// The greatest limit in operations, or bytes, per second.
pub const RATE_MAX: u64 = 1 << 40;
/// The most commands that a device carries out at the same time.
pub const PARALLEL_MAX: u64 = 4096;

/// A table of docs/configuration.md: its heading, and the keys in their order.
pub type Documented = (&'static str, &'static [ConfigKey]);

/// A key of the configuration.
#[derive(Clone, Copy, Debug)]
pub struct ConfigKey {
    /// The key's name.
    pub name: &'static str,
    /// The values that it takes.
    pub takes: Takes,
    /// Further conditions on values, in the words of docs/configuration.md.
    pub and: &'static str,
    /// The default, in the words of docs/configuration.md.
    pub default: &'static str,
    /// The key's meaning, in the words of docs/configuration.md.
    pub meaning: &'static str,
    /// The option of `sluice` that sets it.
    pub option: Option<Opt>,
}

/// The values that a key takes.
#[derive(Clone, Copy, Debug)]
pub enum Takes {
    /// `true` or `false`.
    Boolean,
    /// Whole numbers.
    Number {
        /// The least.
        min: u64,
        /// The greatest.
        max: u64,
    },
    /// Sizes in bytes.
    Size {
        /// The least.
        min: u64,
        /// The greatest.
        max: u64,
    },
    /// Times.
    Time {
        /// The shortest.
        min: Duration,
        /// The longest.
        max: Duration,
    },
    /// Shares in per cent.
    Share {
        /// The least.
        min: u8,
        /// The greatest.
        max: u8,
    },
    /// One word of a few.
    Words(&'static [&'static str]),
    /// Paths.
    Path,
    /// An IP address with a port.
    Address,
    /// An NQN.
    Nqn,
    /// A list of NQNs.
    Nqns,
    /// Values of a reader of their own, in the words of docs/configuration.md.
    Other(&'static str),
}

/// An option of `sluice` that sets a key. Its long name is the key's, with hyphens.
#[derive(Clone, Copy, Debug)]
pub struct Opt {
    /// The name of the option's value in the help; empty: as the key.
    pub value: &'static str,
    /// The option's help.
    pub help: &'static str,
    /// The form in which the value is written.
    pub shape: Shape,
}

/// The form in which the value of an option is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `on` or `off`.
    Switch,
    /// A number.
    Number,
    /// A text, whatever it looks like.
    Text,
    /// A number or a text.
    NumberOrText,
    /// A number or a text; `none` takes the setting back.
    OrNone,
    /// A name; `none` takes the setting back.
    Name,
    /// Numbers with commas between them.
    Numbers,
    /// CLASS=NUMBER, with commas between them.
    ByClass,
}

/// Makes a key without an option.
pub(super) const fn key(
    name: &'static str,
    takes: Takes,
    default: &'static str,
    meaning: &'static str,
) -> ConfigKey {
    ConfigKey { name, takes, and: "", default, meaning, option: None }
}

impl ConfigKey {
    /// Adds further conditions on values.
    pub(super) const fn with(self, and: &'static str) -> Self {
        Self { and, ..self }
    }

    /// Adds an option.
    pub(super) const fn option(self, value: &'static str, help: &'static str) -> Self {
        let shape = match self.takes {
            Takes::Boolean => Shape::Switch,
            Takes::Number { .. } => Shape::Number,
            Takes::Size { .. } | Takes::Other(_) => Shape::NumberOrText,
            _ => Shape::Text,
        };
        Self { option: Some(Opt { value, help, shape }), ..self }
    }

    /// Sets the form of the option's value, where it does not follow from the values.
    pub(super) const fn shape(self, shape: Shape) -> Self {
        match self.option {
            Some(option) => Self { option: Some(Opt { shape, ..option }), ..self },
            None => self,
        }
    }

    /// Writes the key's row of docs/configuration.md.
    #[must_use]
    pub fn row(&self) -> String {
        let cells = [
            format!("`{}`", self.name),
            self.takes.words() + self.and,
            self.default.to_owned(),
            self.meaning.to_owned(),
        ];
        let cells =
            cells.map(|cell| if cell.is_empty() { " ".into() } else { format!(" {cell} ") });
        format!("|{}|", cells.join("|"))
    }
}

impl Takes {
    /// Describes the values in the words of docs/configuration.md.
    #[must_use]
    pub fn words(&self) -> String {
        match *self {
            Self::Boolean => "boolean".into(),
            Self::Number { min, max: RATE_MAX } => format!("{min} to 2^40"),
            Self::Number { min, max } => format!("{min} to {max}"),
            Self::Size { min: 0, max } => format!("size up to {}", format_size(max)),
            Self::Size { min, max } => {
                format!("size, {} to {}", format_size(min), format_size(max))
            }
            Self::Time { min: Duration::ZERO, max } => {
                format!("time up to {}", format_duration(max))
            }
            Self::Time { min, max } => {
                format!("time, {} to {}", format_duration(min), format_duration(max))
            }
            Self::Share { min, max } => format!("`\"{min} %\"` to `\"{max} %\"`"),
            Self::Words(words) => {
                let words: Vec<String> = words.iter().map(|word| format!("`\"{word}\"`")).collect();
                words.join(", ")
            }
            Self::Path => "path".into(),
            Self::Address => "IP address and port".into(),
            Self::Nqn => "NQN".into(),
            Self::Nqns => "list of NQNs".into(),
            Self::Other(words) => words.into(),
        }
    }
}
