//! Names of parameters on the command line: the daemon writes `block_size`, a person wrote
//! `--block-size`.

use std::collections::BTreeMap;

use clap::ArgMatches;

/// For each parameter of the chosen command, the option or the place that it was given in.
#[derive(Debug, Default)]
pub(crate) struct Names(BTreeMap<String, String>);

/// The daemon's words about kinds of values and quotes, and their replacements for a person who
/// wrote a word on a command line, where the shell removes quotes.
const KINDS: [(&str, &str); 3] =
    [(" in quotes", ""), (", without quotes", ""), (" is a string, not a", " is not a")];

impl Names {
    /// Makes the names of the command that `matches` chose.
    pub(crate) fn of(whole: &clap::Command, matches: &ArgMatches) -> Self {
        let mut names = BTreeMap::new();
        let (mut command, mut matches) = (whole, matches);
        loop {
            for argument in command.get_arguments().filter(|a| !a.is_global_set()) {
                let id = argument.get_id().as_str();
                let name = match argument.get_long() {
                    Some(long) => format!("--{long}"),
                    None => id.to_uppercase(),
                };
                names.insert(id.to_owned(), name);
            }
            let Some((name, below)) = matches.subcommand() else { return Self(names) };
            let Some(next) = command.find_subcommand(name) else { return Self(names) };
            (command, matches) = (next, below);
        }
    }

    /// Replaces the daemon's names of parameters in a message by the command line's names.
    pub(super) fn reword(&self, message: &str) -> String {
        let mut text = String::new();
        for (index, part) in message.split('`').enumerate() {
            if index > 0 {
                text.push('`');
            }
            // Every second part is between two backquotes.
            let name = self.0.get(part).filter(|_| index % 2 == 1);
            text.push_str(name.map_or(part, String::as_str));
        }
        // The daemon's remedy is a line of a configuration file.
        for (key, name) in &self.0 {
            text = text.replace(&format!("add {key} = "), &format!("give {name} "));
        }
        KINDS.iter().fold(text, |text, (said, left)| text.replace(said, left))
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    fn names(line: &str) -> Names {
        let words: Vec<_> = format!("sluice {line}").split(' ').map(OsString::from).collect();
        crate::parse(&words).unwrap().1
    }

    #[test]
    fn parameters_are_called_as_they_were_written() {
        for (line, message, expected) in [
            (
                "namespace add q --backend memory --size 4G --block-size 5",
                "`size` is \"4G\", not a size; write GiB: \"4 GiB\"\n`block_size` is 5 bytes",
                "`--size` is \"4G\", not a size; write GiB: \"4 GiB\"\n`--block-size` is 5 bytes",
            ),
            (
                "namespace resize q 1 4G",
                "`size` is \"4G\", not a size; write a number and its unit in quotes: \"4 GiB\"",
                "`SIZE` is \"4G\", not a size; write a number and its unit: \"4 GiB\"",
            ),
            (
                "qos session set g --iops many",
                "`iops` is a string, not a number; write a number from 1 to 9, without quotes",
                "`--iops` is not a number; write a number from 1 to 9",
            ),
            (
                "qos reserve g --commands 5",
                "the reservation names no namespace; add namespace = \"NQN/NSID\": it is made",
                "the reservation names no namespace; give --namespace \"NQN/NSID\": it is made",
            ),
            ("subsystem add q --host h", "an entry of `hosts` is", "an entry of `--host` is"),
            ("host remove q h", "size is `other`", "size is `other`"),
        ] {
            assert_eq!(names(line).reword(message), expected, "{line}");
        }
    }
}
