//! Man pages and completions of shells, made from the definition of the command line and the keys of the configuration.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Command;
use clap_complete::Shell;
use sluice_config::keys;

/// Arguments of `sluice manual`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder below which they are written, such as /usr/share.
    to: PathBuf,
}

/// Places of completions below the folder, as the shells look for them.
const COMPLETIONS: [(Shell, &str); 3] = [
    (Shell::Bash, "bash-completion/completions"),
    (Shell::Zsh, "zsh/site-functions"),
    (Shell::Fish, "fish/vendor_completions.d"),
];

/// Writes the man pages of all commands and of the configuration file, and the completions.
pub(crate) fn write(mut whole: Command, Args { to }: &Args) -> anyhow::Result<()> {
    let (name, pages) = (whole.get_name().to_owned(), without_help(whole.clone()));
    for (shell, place) in COMPLETIONS {
        let folder = made(&to.join(place))?;
        clap_complete::generate_to(shell, &mut whole, &name, &folder)
            .with_context(|| format!("cannot write to {}", folder.display()))?;
    }
    let folder = made(&to.join("man/man1"))?;
    clap_mangen::generate_to(pages, &folder)
        .with_context(|| format!("cannot write to {}", folder.display()))?;
    let page = made(&to.join("man/man5"))?.join("sluicegate.toml.5");
    fs::write(&page, configuration()).with_context(|| format!("cannot write {}", page.display()))
}

/// Prints the completions for a shell.
pub(crate) fn complete(mut whole: Command, shell: Shell) -> anyhow::Result<()> {
    let (name, mut text) = (whole.get_name().to_owned(), Vec::new());
    clap_complete::generate(shell, &mut whole, name, &mut text);
    sluice_config::program::print(String::from_utf8_lossy(&text))?;
    Ok(())
}

/// Removes the subcommands `help`, each of which would have a page.
fn without_help(command: Command) -> Command {
    command.disable_help_subcommand(true).mut_subcommands(without_help)
}

fn made(folder: &Path) -> anyhow::Result<PathBuf> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(folder.to_owned())
}

/// Writes sluicegate.toml(5).
fn configuration() -> String {
    let mut page = String::from(
        ".TH sluicegate.toml 5\n.SH NAME\nsluicegate.toml \\- configuration of sluiced\n.SH DESCRIPTION\n\
         The daemon reads /etc/sluicegate/sluicegate.toml, or the file that its command line names. The file is TOML.\n\
         Sizes, rates and times have units: 4 GiB, 200 MiB/s, 10 s.\n",
    );
    for (title, table) in keys::tables() {
        let _ = writeln!(page, ".SH {}", roff(title.trim_start_matches('#').trim()).to_uppercase());
        for key in *table {
            let _ = writeln!(
                page,
                ".TP\n\\fB{}\\fR\n{} (default: {})\n.br\n{}",
                roff(key.name),
                roff(&(key.values.words() + key.and)),
                roff(key.default),
                roff(key.meaning)
            );
        }
    }
    page.push_str(".SH SEE ALSO\nsluice(1), sluiced(8)\n");
    page
}

/// Writes a text of the documentation for a man page: without the marks of code, and without the targets of links.
fn roff(text: &str) -> String {
    let mut page = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['\\', '`', '[', ']', '-', '*']) {
        let (plain, from) = rest.split_at(at);
        page.push_str(plain);
        let mut chars = from.chars();
        match chars.next() {
            Some('\\') => page.push_str("\\e"),
            Some('-') => page.push_str("\\-"),
            Some('`' | '*') | None => {}
            Some(bracket) => match from.strip_prefix("](").and_then(|link| link.find(')')) {
                Some(end) => {
                    rest = from.get(end + 3..).unwrap_or_default();
                    continue;
                }
                // The name of a table, or the beginning of a link.
                None if bracket == '[' && from.contains("](") && !from.starts_with("[[") => {}
                None => page.push(bracket),
            },
        }
        rest = chars.as_str();
    }
    page.push_str(rest);
    // A line that begins with a dot or an apostrophe would be a request.
    if page.starts_with(['.', '\'']) { format!("\\&{page}") } else { page }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_and_completions_cover_commands_and_keys() {
        let folder = tempfile::tempdir().unwrap();
        write(crate::command(), &Args { to: folder.path().to_owned() }).unwrap();
        let text = |path: &str| fs::read_to_string(folder.path().join(path)).unwrap();
        for (page, part) in [
            ("man/man1/sluice.1", "import"),
            ("man/man1/sluice-qos-session-set.1", "bandwidth"),
            ("man/man1/sluice-bench.1", "plain"),
            ("bash-completion/completions/sluice.bash", "nvmetcli"),
            ("zsh/site-functions/_sluice", "nvmetcli"),
            ("fish/vendor_completions.d/sluice.fish", "nvmetcli"),
        ] {
            assert!(text(page).contains(part), "{page}");
        }
        assert!(!folder.path().join("man/man1/sluice-help.1").exists());
        let page = text("man/man5/sluicegate.toml.5");
        for (_, table) in keys::tables() {
            for key in *table {
                let name = format!("\\fB{}\\fR", roff(key.name));
                assert!(page.contains(&name), "{} is missing", key.name);
            }
        }
        assert!(!page.contains("](") && !page.contains('`'), "{page}");
    }

    #[test]
    fn marks_of_documents_are_left_out() {
        assert_eq!(roff("as in `[qos]`"), "as in [qos]");
        assert_eq!(roff("see [qos](../use/qos.md#x) and `a`"), "see qos and a");
        assert_eq!(roff(".x \\ a-b"), "\\&.x \\e a\\-b");
    }
}
