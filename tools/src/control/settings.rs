//! Options that set keys of the configuration: one for each key that the schema gives an option.

use std::marker::PhantomData;

use clap::builder::{PossibleValuesParser, ValueParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, value_parser};
use serde_json::{Map, Value, json};
use sluice_schema::keys::{CLASSES, ConfigKey, Opt, Shape};
use sluice_schema::params::Settings;

/// A table of keys.
pub(crate) trait Table {
    /// The keys.
    const KEYS: &'static [ConfigKey];
    /// Whether one option at least is needed.
    const NEEDED: bool;
}

/// Makes a table of the schema's keys.
macro_rules! tables {
    ($($(#[$doc:meta])* $name:ident: $keys:expr, needed = $needed:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $name;

        impl Table for $name {
            const KEYS: &'static [ConfigKey] = $keys;
            const NEEDED: bool = $needed;
        }
    )*};
}

tables! {
    /// `[qos]`.
    Qos: sluice_schema::keys::QOS, needed = true;
    /// `[[session]]`.
    Session: sluice_schema::keys::SESSION, needed = false;
    /// `[network]`.
    Network: sluice_schema::keys::NETWORK, needed = false;
}

/// The options of a table that were given.
#[derive(Clone, Debug)]
pub(crate) struct Options<T> {
    /// The keys that they set.
    pub(super) settings: Settings,
    table: PhantomData<T>,
}

impl<T: Table> Args for Options<T> {
    fn augment_args(mut command: Command) -> Command {
        let mut names = Vec::new();
        for (key, option) in T::KEYS.iter().filter_map(|key| Some((key, key.option?))) {
            names.push(key.name);
            command = command.arg(argument(key, &option));
        }
        match T::NEEDED {
            true => {
                let group = clap::ArgGroup::new("settings").args(names);
                command.group(group.required(true).multiple(true))
            }
            false => command,
        }
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<T: Table> clap::FromArgMatches for Options<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut settings = Settings::default();
        for (key, option) in T::KEYS.iter().filter_map(|key| Some((key, key.option?))) {
            settings = settings.with(key.name, given(matches, key.name, option.shape));
        }
        Ok(Self { settings, table: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Makes the option of a key.
fn argument(key: &ConfigKey, option: &Opt) -> Arg {
    let value = match option.value {
        "" => key.name.to_uppercase(),
        value => value.to_owned(),
    };
    let argument =
        Arg::new(key.name).long(key.name.replace('_', "-")).value_name(value).help(option.help);
    match option.shape {
        Shape::Switch => argument.value_parser(PossibleValuesParser::new([
            clap::builder::PossibleValue::new("on").alias("true"),
            clap::builder::PossibleValue::new("off").alias("false"),
        ])),
        Shape::Number => argument.value_parser(value_parser!(u64)),
        Shape::Numbers => {
            argument.value_parser(value_parser!(u64)).value_delimiter(',').action(ArgAction::Append)
        }
        Shape::ByClass => argument
            .value_parser(ValueParser::new(by_class))
            .value_delimiter(',')
            .action(ArgAction::Append),
        Shape::Text | Shape::NumberOrText | Shape::OrNone | Shape::Name => argument,
    }
}

/// Returns the value of an option as the daemon takes it; none where it was not given.
fn given(matches: &ArgMatches, name: &str, shape: Shape) -> Option<Value> {
    let text = || matches.get_one::<String>(name).map(String::as_str);
    match shape {
        Shape::Switch => text().map(|word| json!(matches!(word, "on" | "true"))),
        Shape::Number => matches.get_one::<u64>(name).map(|number| json!(number)),
        Shape::Text => text().map(|text| json!(text)),
        Shape::NumberOrText => text().map(or_number),
        Shape::OrNone => {
            text().map(|text| if text == "none" { Value::Null } else { or_number(text) })
        }
        // A session may be called 1, but no share and no limit may be a name.
        Shape::Name => text().map(|text| if text == "none" { Value::Null } else { json!(text) }),
        Shape::Numbers => {
            matches.get_many::<u64>(name).map(|numbers| numbers.copied().collect::<Vec<_>>().into())
        }
        Shape::ByClass => {
            let pairs = matches.get_many::<(String, u64)>(name)?;
            let table: Map<String, Value> =
                pairs.map(|(class, number)| (class.clone(), json!(number))).collect();
            Some(Value::Object(table))
        }
    }
}

/// Writes a number as a number, and all else as text.
pub(super) fn or_number(text: &str) -> Value {
    text.parse::<u64>().map_or_else(|_| json!(text), |number| json!(number))
}

/// Reads "urgent=46".
fn by_class(text: &str) -> Result<(String, u64), String> {
    let (class, number) = text.split_once('=').ok_or("write CLASS=NUMBER, such as urgent=46")?;
    if !CLASSES.contains(&class) {
        return Err(format!("\"{class}\" is no class; there are {}", CLASSES.join(", ")));
    }
    let number = number.parse().map_err(|_| format!("\"{number}\" is not a number"))?;
    Ok((class.to_owned(), number))
}
