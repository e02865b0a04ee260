//! `sluice config save`: writes the live changes into the configuration file. The daemon edits the
//! text and checks the result; this program writes it, since the daemon may have no right to.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sluice_config::answer::{ConfigMerged, Reloaded};
use sluice_config::failure::{FAILED, Failure, INVALID, PERMISSION};
use sluice_config::{Call, call, params};

use super::cells::count;
use super::request::Request;

/// The result of the subcommand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Saved {
    file: String,
    changes: usize,
    /// The live changes that were made meanwhile.
    left: usize,
    /// The live changes that no file can have.
    left_over: usize,
}

impl Saved {
    /// Writes the result for people.
    pub(super) fn text(&self) -> String {
        let over = match self.left_over {
            0 => String::new(),
            over => format!(
                "{} to objects that were removed cannot be saved: sluice config revert takes them back.\n",
                count(over, "live change")
            ),
        };
        if self.changes == 0 {
            return format!(
                "There are no live changes to save; {} stays as it is.\n{over}",
                self.file
            );
        }
        let left = match self.left.saturating_sub(self.left_over) {
            0 => String::new(),
            left => super::config_view::on_top(left),
        };
        format!("Saved {} to {}.\n{left}{over}", count(self.changes, "live change"), self.file)
    }

    /// Writes the result for programs.
    pub(super) fn json(&self) -> String {
        let Self { file, changes, left, .. } = self;
        format!("{:#}\n", json!({ "file": file, "saved": changes, "live_changes": left }))
    }
}

/// Asks the daemon for the file with the live changes, writes it, and makes the daemon read it.
///
/// # Errors
/// The daemon refuses; the file has changed since the daemon read it, or cannot be written.
pub(super) fn run(ask: impl Fn(&Request) -> Result<Value, Failure>) -> Result<Saved, Failure> {
    let merged = ask(&Request::of::<call::ConfigMerge>(&params::Nothing::default()))?;
    let ConfigMerged { file, before, text, live_changes: changes, left_over } =
        read::<call::ConfigMerge>(merged)?;
    if changes == 0 {
        return Ok(Saved { file, changes, left: left_over, left_over });
    }
    let path = Path::new(&file);
    let now = fs::read_to_string(path).map_err(|error| unwritable(path, &error))?;
    if now != before {
        let message = format!(
            "{file} has changed since sluiced read it, and was left as it is: run `sluice reload` \
             first"
        );
        return Err(Failure::new(INVALID, message));
    }
    replace(path, &text).map_err(|error| unwritable(path, &error))?;
    let reload = Request::of::<call::Reload>(&params::Reload::default());
    let reloaded = ask(&reload).map_err(|mut failure| {
        failure.message =
            format!("{file} was written, and the daemon did not read it: {}", failure.message);
        failure
    })?;
    let Reloaded { live_changes: left, .. } = read::<call::Reload>(reloaded)?;
    Ok(Saved { file, changes, left, left_over })
}

/// Reads the answer of a method.
fn read<M: Call>(answer: Value) -> Result<M::Answer, Failure> {
    serde_json::from_value(answer).map_err(|error| {
        let message = format!("the daemon's answer to {} is not known: {error}", M::METHOD.name());
        Failure::new(FAILED, message)
    })
}

/// Makes the error of a file that cannot be written, with the user of the attempt.
fn unwritable(path: &Path, error: &io::Error) -> Failure {
    let kind = match error.kind() {
        io::ErrorKind::PermissionDenied => PERMISSION,
        _ => FAILED,
    };
    let user = nix::unistd::geteuid();
    let name = nix::unistd::User::from_uid(user).ok().flatten();
    let name = name.map_or_else(|| format!("user {user}"), |known| known.name);
    let message = format!(
        "{} cannot be replaced by {name}, who runs this command: {error}; nothing was changed; run it \
         as root, or as the file's owner where that may write to the folder",
        path.display()
    );
    Failure::new(kind, message)
}

/// Replaces a file as a whole or not at all. The new one has the same owner, group and mode.
///
/// # Errors
/// The folder cannot be written, or owner and group cannot be kept; the file is as it was.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".new-{}", std::process::id()));
    let new = PathBuf::from(name);
    let written = write(&new, &fs::metadata(path)?, text).and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        // It may not exist.
        let _ = fs::remove_file(&new);
    }
    written?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// Writes a new file with the owner, group and mode of another one.
fn write(new: &Path, like: &fs::Metadata, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(new)?;
    let made = file.metadata()?;
    if (made.uid(), made.gid()) != (like.uid(), like.gid()) {
        fchown(&file, Some(like.uid()), Some(like.gid()))?;
    }
    file.set_permissions(fs::Permissions::from_mode(like.mode() & 0o7777))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use sluice_config::Method;

    use super::*;
    use crate::testing::folder;

    /// Saves to a file; `changes` is the daemon's number of live changes. Returns the methods that were called.
    fn save(file: &Path, changes: usize) -> (Result<Saved, Failure>, Vec<Method>) {
        let asked = RefCell::new(Vec::new());
        let saved = run(|request| {
            asked.borrow_mut().push(request.method);
            Ok(match request.method {
                Method::ConfigMerge => json!({"file": file, "before": "old", "text": "new",
                                              "live_changes": changes}),
                _ => json!({"live_changes": 0}),
            })
        });
        (saved, asked.into_inner())
    }

    #[test]
    fn the_file_is_replaced_with_its_mode_and_read_again() {
        let folder = folder(&[("a.toml", "old")]);
        let file = folder.path().join("a.toml");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        let (saved, asked) = save(&file, 2);
        let saved = saved.unwrap();
        assert_eq!(saved.text(), format!("Saved 2 live changes to {}.\n", file.display()));
        assert_eq!(asked, [Method::ConfigMerge, Method::Reload]);
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, 0o640);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn nothing_is_written_without_live_changes_or_over_a_file_that_has_changed() {
        let folder = folder(&[("a.toml", "edited")]);
        let file = folder.path().join("a.toml");
        let (saved, asked) = save(&file, 0);
        assert_eq!((saved.unwrap().changes, asked), (0, vec![Method::ConfigMerge]));
        let over = Saved { file: "f".to_owned(), changes: 0, left: 2, left_over: 2 };
        assert!(
            over.text().contains("\n2 live changes to objects that were removed"),
            "{}",
            over.text()
        );
        let (saved, asked) = save(&file, 1);
        let error = saved.unwrap_err();
        assert!(error.kind == INVALID && error.message.contains("sluice reload"), "{error}");
        assert_eq!((fs::read_to_string(&file).unwrap().as_str(), asked.len()), ("edited", 1));
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named_with_the_user() {
        let error = unwritable(Path::new("/f"), &io::ErrorKind::PermissionDenied.into());
        assert_eq!(error.kind, PERMISSION);
        assert!(error.message.starts_with("/f cannot be replaced by "), "{error}");
    }
}
