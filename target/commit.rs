//! The source's commit, for the build scripts of programs: `SLUICEGATE_COMMIT` from the environment (packages are
//! built without a repository), else the repository's commit, else `unknown`.
//!
//! Debug builds do not look at the repository: otherwise every commit would recompile all tests.

use std::path::Path;
use std::process::Command;

/// The variable's name, in the environment and for the compiler.
const VARIABLE: &str = "SLUICEGATE_COMMIT";
/// The length of a commit's name, in hexadecimal digits.
const LENGTH: usize = 12;

/// Hands the commit to the compiler. `root` is the folder of the workspace.
pub(crate) fn emit(root: &Path) {
    println!("cargo::rerun-if-env-changed={VARIABLE}");
    let given = std::env::var(VARIABLE).ok().filter(|commit| is_name(commit));
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let from_git = || is_release.then(|| of_repository(root)).flatten();
    let commit = given.or_else(from_git).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env={VARIABLE}={commit}");
}

/// Returns whether a text can be the name of a commit or of a package's revision.
fn is_name(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-._+".contains(c);
    !text.is_empty() && text.len() <= 40 && text.chars().all(allowed)
}

/// Returns the commit of the repository whose folder is `root`; `None` without such a repository, or without git.
/// The source may lie in a folder of another repository, for example a package's.
fn of_repository(root: &Path) -> Option<String> {
    let top = git(root, &["rev-parse", "--show-toplevel"])?;
    if Path::new(&top).canonicalize().ok()? != root.canonicalize().ok()? {
        return None;
    }
    let branch = git(root, &["symbolic-ref", "-q", "HEAD"]);
    let names = ["HEAD", "logs/HEAD", "packed-refs"].map(str::to_owned);
    for name in names.into_iter().chain(branch) {
        // A file that is missing would have the script run each time.
        let path = git(root, &["rev-parse", "--git-path", &name]).map(|path| root.join(path));
        if let Some(path) = path.filter(|path| path.exists()) {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
    let commit = git(root, &["rev-parse", &format!("--short={LENGTH}"), "HEAD"])?;
    is_name(&commit).then_some(commit)
}

/// Returns what git prints, without the newline; `None` where it fails.
fn git(folder: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(folder).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim_end().to_owned())
}
