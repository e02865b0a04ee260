//! Options that set keys of the configuration: one for each key that the schema gives an option.

use std::io::Write as _;
use std::marker::PhantomData;

use clap::builder::{PossibleValuesParser, ValueParser};
use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Args, Command, value_parser};
use serde_json::{Map, Value, json};
use sluice_config::keys::{self, CLASSES, ConfigKey, Opt, Shape};
use sluice_config::params::Settings;

/// A table of keys.
pub(crate) trait Table {
    /// The keys.
    const KEYS: &'static [ConfigKey];
    /// The options that must be given.
    const NEEDED: Needed;
}

/// The options of a table that must be given, beside the keys that the configuration needs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Needed {
    /// No option.
    None,
    /// At least one option, not counting the options of these keys.
    SomeBut(&'static [&'static str]),
    /// Exactly one of the options of these keys.
    OneOf(&'static [&'static str]),
}

/// The group of the options of which one at least is needed. Other arguments may join the group.
pub(crate) const SETTINGS: &str = "settings";
/// The group of all options of a table that set something.
pub(crate) const KEYS: &str = "keys";

/// Makes a table of the schema's keys.
macro_rules! tables {
    ($($(#[$doc:meta])* $name:ident: $keys:expr, $needed:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $name;

        impl Table for $name {
            const KEYS: &'static [ConfigKey] = $keys;
            const NEEDED: Needed = $needed;
        }
    )*};
}

tables! {
    /// `[qos]`.
    Qos: keys::QOS, Needed::SomeBut(&[]);
    /// `[[session]]`.
    Session: keys::SESSION, Needed::None;
    /// `reserve` of a session.
    Reserve: keys::RESERVE, Needed::OneOf(&["commands", "bytes", "time"]);
    /// A new `[[profile]]`.
    Profile: keys::PROFILE, Needed::None;
    /// Changes of a `[[profile]]`.
    ProfileChanges: keys::PROFILE, Needed::SomeBut(&[]);
    /// `[[policy]]`, whose first keys are its scope.
    Policy: keys::POLICY, Needed::SomeBut(&["host", "subsystem", "nsid", "addresses"]);
    /// `[network]`.
    Network: keys::NETWORK, Needed::None;
    /// A new `[[link]]`.
    Link: keys::LINK, Needed::None;
    /// Changes of a `[[link]]`.
    LinkChanges: keys::LINK, Needed::SomeBut(&[]);
    /// A new `[[region]]`.
    Region: keys::REGION, Needed::None;
    /// Changes of a `[[region]]`.
    RegionChanges: keys::REGION_CHANGES, Needed::SomeBut(&[]);
    /// A new `[[subsystem.host]]`.
    Host: keys::HOST, Needed::None;
    /// Changes of a `[[subsystem.host]]`.
    HostChanges: keys::HOST, Needed::SomeBut(&[]);
    /// `[[listener]]`.
    Listener: keys::LISTENER, Needed::None;
    /// `[[subsystem]]`.
    Subsystem: keys::SUBSYSTEM, Needed::None;
    /// `[[subsystem.namespace]]`.
    Namespace: keys::NAMESPACE, Needed::None;
}

/// Returns the keys of a table that have options.
fn options<T: Table>() -> impl Iterator<Item = (&'static ConfigKey, Opt)> {
    T::KEYS.iter().filter_map(|key| Some((key, key.option?)))
}

/// The options of a table that were given.
#[derive(Clone, Debug)]
pub(crate) struct Options<T> {
    /// The keys that the options set.
    pub(super) settings: Settings,
    table: PhantomData<T>,
}

impl<T: Table> Options<T> {
    /// Returns the settings with the object's name.
    pub(super) fn of(&self, name: &str, value: &str) -> Settings {
        self.settings.clone().with(name, Some(value))
    }
}

impl<T: Table> Args for Options<T> {
    fn augment_args(mut command: Command) -> Command {
        for (key, option) in options::<T>() {
            command = command.arg(argument(key, &option));
        }
        let names = || options::<T>().map(|(key, _)| key.name);
        match T::NEEDED {
            Needed::None => command,
            Needed::SomeBut(others) => {
                let names: Vec<&str> = names().filter(|name| !others.contains(name)).collect();
                let all = ArgGroup::new(KEYS).args(names.clone()).multiple(true);
                let needed = ArgGroup::new(SETTINGS).args(names).required(true).multiple(true);
                command.group(all).group(needed)
            }
            Needed::OneOf(these) => {
                command.group(ArgGroup::new(SETTINGS).args(these).required(true))
            }
        }
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<T: Table> clap::FromArgMatches for Options<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut settings = Settings::default();
        for (key, option) in options::<T>() {
            settings = settings.with(key.name, given(matches, key.name, option.shape));
        }
        say_renamed::<T>(matches);
        Ok(Self { settings, table: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Returns the long name of a key's option.
fn dashed(key: &str) -> String {
    key.replace('_', "-")
}

/// Prints on standard error the options of the command line with former names. With --json standard error has errors
/// only.
fn say_renamed<T: Table>(matches: &ArgMatches) {
    let words: Vec<String> =
        std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    if words.iter().any(|word| word == "--json") {
        return;
    }
    for (key, _) in options::<T>().filter(|(key, _)| !key.was.is_empty()) {
        let was = format!("--{}", dashed(key.was));
        let is_former = |word: &String| word.split('=').next() == Some(was.as_str());
        if matches.contains_id(key.name) && words.iter().any(is_former) {
            let name = dashed(key.name);
            let note = format!("sluice: {was} is called --{name} now; the former name still works");
            let _ = writeln!(std::io::stderr(), "{note}");
        }
    }
}

fn argument(key: &ConfigKey, option: &Opt) -> Arg {
    let or = |text: &str, other: String| if text.is_empty() { other } else { text.to_owned() };
    let mut argument = Arg::new(key.name)
        .long(or(option.long, dashed(key.name)))
        .value_name(or(option.value, key.name.to_uppercase()))
        .required(key.is_needed())
        .help(option.help);
    if !option.requires.is_empty() {
        argument = argument.requires(option.requires);
    }
    if !key.was.is_empty() {
        argument = argument.alias(dashed(key.was));
    }
    match option.shape {
        Shape::Switch => argument.value_parser(PossibleValuesParser::new([
            clap::builder::PossibleValue::new("on").alias("true"),
            clap::builder::PossibleValue::new("off").alias("false"),
        ])),
        Shape::Flag(_) => argument.action(ArgAction::SetTrue),
        Shape::Word(words) => argument.value_parser(PossibleValuesParser::new(words)),
        Shape::List => argument.action(ArgAction::Append),
        Shape::Number => argument.value_parser(value_parser!(u64)),
        Shape::Numbers => {
            argument.value_parser(value_parser!(u64)).value_delimiter(',').action(ArgAction::Append)
        }
        Shape::ByClass => argument
            .value_parser(ValueParser::new(by_class))
            .value_delimiter(',')
            .action(ArgAction::Append),
        Shape::Text | Shape::NumberOrText | Shape::OrNone | Shape::TextOrNone => argument,
    }
}

/// Returns the value of an option as the daemon takes it; `None` where it was not given.
fn given(matches: &ArgMatches, name: &str, shape: Shape) -> Option<Value> {
    let text = || matches.get_one::<String>(name).map(String::as_str);
    match shape {
        Shape::Switch => text().map(|word| json!(matches!(word, "on" | "true"))),
        Shape::Number => matches.get_one::<u64>(name).map(|number| json!(number)),
        Shape::Flag(value) => matches.get_flag(name).then(|| json!(value)),
        Shape::Text | Shape::Word(_) => text().map(|text| json!(text)),
        Shape::List => {
            matches.get_many::<String>(name).map(|texts| texts.cloned().collect::<Vec<_>>().into())
        }
        Shape::NumberOrText => text().map(or_number),
        Shape::OrNone => {
            text().map(|text| if text == "none" { Value::Null } else { or_number(text) })
        }
        // A name may be a number, and an amount may lack its unit: both stay text.
        Shape::TextOrNone => {
            text().map(|text| if text == "none" { Value::Null } else { json!(text) })
        }
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
fn or_number(text: &str) -> Value {
    text.parse::<u64>().map_or_else(|_| json!(text), |number| json!(number))
}

/// Reads "urgent=46".
fn by_class(text: &str) -> Result<(String, u64), String> {
    let (class, number) = text.split_once('=').ok_or("write CLASS=NUMBER, such as urgent=46")?;
    if !CLASSES.contains(&class) {
        return Err(format!("\"{class}\" is not a class; there are {}", CLASSES.join(", ")));
    }
    let number = number.parse().map_err(|_| format!("\"{number}\" is not a number"))?;
    Ok((class.to_owned(), number))
}
