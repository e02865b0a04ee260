//! Tests of the Debian packages that `make deb` builds.
#![expect(clippy::expect_used, reason = "helpers of tests fail as tests do")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context as _, Result, ensure};
use e2e::{files, output, root};

/// The packages of this source, in a folder that the tests share.
struct Packages {
    folder: tempfile::TempDir,
    binaries: PathBuf,
}

/// Returns the packages, built once, with the programs under test.
fn packages() -> &'static Packages {
    static BUILT: OnceLock<Packages> = OnceLock::new();
    BUILT.get_or_init(|| {
        let binaries = e2e::binaries::built().expect("there are programs");
        let folder = tempfile::tempdir().expect("a folder");
        build(&binaries, folder.path()).expect("the packages can be built");
        Packages { folder, binaries }
    })
}

/// Builds the packages into a folder, with little compression.
fn build(binaries: &Path, to: &Path) -> Result<String> {
    let mut build = Command::new(root().join("systemd/debian/build"));
    build.arg(binaries).arg(to);
    build.env("DPKG_DEB_COMPRESSOR_TYPE", "gzip").env("DPKG_DEB_COMPRESSOR_LEVEL", "1");
    output(&mut build)
}

impl Packages {
    /// Returns the path of a package.
    fn path(&self, name: &str) -> PathBuf {
        let start = format!("{name}_");
        let files = files(self.folder.path()).expect("a folder can be read");
        let package = files.iter().find(|file| file.to_string_lossy().starts_with(&start));
        self.folder.path().join(package.expect("the package is built"))
    }

    /// Returns a field of a package, empty without it.
    fn field(&self, name: &str, field: &str) -> String {
        let mut query = Command::new("dpkg-deb");
        let answer = output(query.arg("--field").arg(self.path(name)).arg(field));
        answer.expect("dpkg-deb runs").trim().to_owned()
    }

    /// Returns the files of a package: mode and owner of each path.
    fn files(&self, name: &str) -> BTreeMap<String, String> {
        let mut list = Command::new("dpkg-deb");
        let list = output(list.arg("--contents").arg(self.path(name))).expect("dpkg-deb runs");
        let rows = list.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let entry = |row: Vec<&str>| {
            let path = row.get(5).expect("a path").trim_start_matches("./");
            (path.to_owned(), row.iter().take(2).copied().collect::<Vec<_>>().join(" "))
        };
        rows.map(entry).filter(|(path, _)| !path.ends_with('/') && !path.is_empty()).collect()
    }

    /// Returns a file of a package's control part.
    fn control(&self, name: &str, file: &str) -> String {
        let mut info = Command::new("dpkg-deb");
        output(info.arg("--info").arg(self.path(name)).arg(file)).expect("the file is there")
    }
}

/// Returns the paths of all files that `make install` installs.
fn installed(binaries: &Path) -> Result<BTreeSet<String>> {
    let folder = tempfile::tempdir()?;
    let mut make = Command::new("make");
    make.args(["-s", "-C"]).arg(root()).arg("install").env_remove("MAKEFLAGS");
    make.arg(format!("BINARIES={}", binaries.display()));
    output(make.arg(format!("DESTDIR={}", folder.path().display())))?;
    Ok(files(folder.path())?.iter().map(|path| path.display().to_string()).collect())
}

/// Returns the place in a package of a file of `make install`.
fn place(path: &str) -> String {
    match path {
        "usr/share/bash-completion/completions/sluice.bash" => path.replace(".bash", ""),
        "usr/share/zsh/site-functions/_sluice" => {
            path.replace("site-functions", "vendor-completions")
        }
        page if page.starts_with("usr/share/man/") => format!("{page}.gz"),
        other => other.to_owned(),
    }
}

#[test]
fn packages_contain_files_of_make_install() -> Result<()> {
    let packages = packages();
    let (main, simulator) = (packages.files("sluicegate"), packages.files("sluicegate-sim"));
    let of_simulator = |path: &str| path.contains("/sluice-sim");
    let (to_simulator, to_main): (BTreeSet<_>, BTreeSet<_>) = installed(&packages.binaries)?
        .iter()
        .map(|path| place(path))
        .partition(|path| of_simulator(path));
    for (name, files, expected) in
        [("sluicegate", &main, to_main), ("sluicegate-sim", &simulator, to_simulator)]
    {
        let documents = ["changelog.Debian.gz", "changelog.gz", "copyright", "crates.gz"];
        let documents = documents.map(|file| format!("usr/share/doc/{name}/{file}"));
        let overrides = format!("usr/share/lintian/overrides/{name}");
        let mut expected: BTreeSet<String> = expected.into_iter().chain(documents).collect();
        if root().join(format!("systemd/debian/{name}.lintian-overrides")).exists() {
            expected.insert(overrides);
        }
        assert_eq!(files.keys().cloned().collect::<BTreeSet<_>>(), expected, "{name}");
        for (path, rights) in files {
            let mode = if path.starts_with("usr/bin/") { "-rwxr-xr-x" } else { "-rw-r--r--" };
            assert_eq!(*rights, format!("{mode} root/root"), "{path}");
        }
    }
    Ok(())
}

#[test]
fn dependencies_include_rdma_and_user_creation() {
    let packages = packages();
    let depends = packages.field("sluicegate", "Depends");
    for package in ["libc6", "libibverbs1", "librdmacm1", "systemd-standalone-sysusers"] {
        assert!(depends.contains(package), "no {package} in: {depends}");
    }
    assert!(!packages.field("sluicegate-sim", "Depends").contains("systemd"));
    assert_eq!(packages.control("sluicegate", "conffiles"), "/etc/sluicegate/sluicegate.toml\n");
    let version = packages.field("sluicegate", "Version");
    assert!(version.starts_with(env!("CARGO_PKG_VERSION")), "{version}");
    for script in ["postinst", "prerm"] {
        let text = packages.control("sluicegate", script);
        assert!(text.contains(&format!("version='{version}'")), "{script}: {text}");
    }
}

#[test]
fn lintian_accepts_packages() -> Result<()> {
    if Command::new("lintian").arg("--version").output().is_err()
        && Command::new("apt-get").arg("--version").output().is_err()
    {
        eprintln!("skipped: lintian is a program of Debian");
        return Ok(());
    }
    let packages = packages();
    let mut lintian = Command::new("lintian");
    lintian.args(["--allow-root", "--fail-on", "error,warning", "--display-level", ">=warning"]);
    let paths = ["sluicegate", "sluicegate-sim"].map(|name| packages.path(name));
    let output = lintian.args(paths).output().context("lintian: `.ci/setup test` installs it")?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success() && said.trim().is_empty(),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

#[test]
fn rebuilt_packages_are_equal() -> Result<()> {
    let packages = packages();
    let again = tempfile::tempdir()?;
    build(&packages.binaries, again.path())?;
    for name in ["sluicegate", "sluicegate-sim"] {
        let first = packages.path(name);
        let second = again.path().join(first.file_name().context("a name")?);
        ensure!(fs::read(&first)? == fs::read(&second)?, "{name}: the second build differs");
    }
    Ok(())
}

#[test]
#[ignore = "make test-long: installs Debian 12 and 13, and a daemon of an earlier format"]
fn packages_install_upgrade_and_purge() -> Result<()> {
    let packages = packages();
    let earlier = match std::env::var("SLUICEGATE_OTHER_BINARIES") {
        Ok(folder) => folder,
        Err(_) => {
            output(&mut Command::new(root().join("tests/lab/build-earlier")))?.trim().to_owned()
        }
    };
    let mut lab = Command::new(root().join("tests/lab/packages"));
    let output = lab.arg(packages.folder.path()).arg(earlier).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    ensure!(said.contains("RESULT pass"), "no suite was tested: {said}");
    Ok(())
}
