//! Tests of `make install` and `make uninstall`, in a folder of the test's own, and of the demo's verdict, with
//! programs of the test's own.
#![expect(clippy::expect_used, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::root;

/// Returns the command `make ARGUMENTS`. A test command that is itself run by make hands down its flags.
fn make(arguments: &[&str]) -> Command {
    let mut make = Command::new("make");
    make.args(["-s", "-C"]).arg(root()).args(arguments).env_remove("MAKEFLAGS");
    make
}

/// Returns the output of a command that succeeds.
fn output(mut command: Command) -> String {
    e2e::output(&mut command).expect("the command succeeds")
}

/// Returns all files below a folder, by their path in it.
fn files(folder: &Path) -> BTreeSet<PathBuf> {
    e2e::files(folder).expect("a folder can be read")
}

/// Returns a folder that holds the programs that can be installed.
fn binaries() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["sluiced", "sluice", "sluice-sim"] {
        let mut install = Command::new("install");
        install.args(["-m", "755", "/dev/null"]).arg(folder.path().join(name));
        output(install);
    }
    folder
}

/// Installs below `prefix` in a folder of its own.
fn install(prefix: &str) -> (tempfile::TempDir, [String; 2]) {
    let (binaries, to) = (binaries(), tempfile::tempdir().expect("a folder"));
    let place = [format!("DESTDIR={}", to.path().display()), format!("PREFIX={prefix}")];
    let [destdir, prefix] = &place;
    let binaries = format!("BINARIES={}", binaries.path().display());
    output(make(&["install", &binaries, destdir, prefix]));
    (to, place)
}

/// Returns the folders of the prefix and of systemd's files. systemd and udev read `/usr/lib`, `/usr/local/lib` and
/// `/etc`, independent of the prefix.
fn folders(prefix: &str) -> (PathBuf, PathBuf) {
    let system = if prefix == "/usr" { "usr/lib" } else { "usr/local/lib" };
    (PathBuf::from(prefix.trim_start_matches('/')), PathBuf::from(system))
}

#[test]
fn uninstall_removes_what_install_put_there_and_nothing_else() {
    for prefix in ["/usr", "/usr/local", "/opt/sg"] {
        let (folder, [destdir, prefix_is]) = install(prefix);
        let (below, system) = folders(prefix);
        let installed = files(folder.path());
        let config = PathBuf::from("etc/sluicegate/sluicegate.toml");
        let expected = [
            below.join("bin/sluiced"),
            below.join("bin/sluice"),
            below.join("bin/sluice-sim"),
            below.join("share/man/man8/sluiced.8"),
            below.join("share/doc/sluicegate/use/operating.md"),
            below.join("share/doc/sluicegate/sluicegate.rules.yml"),
            below.join("share/doc/sluicegate/sluicegate.dashboard.json"),
            system.join("systemd/system/sluiced.service"),
            system.join("systemd/system/sluice-agent.service"),
            system.join("sysusers.d/sluicegate.conf"),
            system.join("tmpfiles.d/sluicegate.conf"),
            system.join("udev/rules.d/60-sluicegate.rules"),
            system.join("sysctl.d/60-sluicegate.conf"),
            system.join("modules-load.d/sluicegate.conf"),
            config.clone(),
        ];
        for path in &expected {
            assert!(installed.contains(path), "{} is not installed", path.display());
        }
        let documents = below.join("share/doc/sluicegate");
        for path in installed.iter().filter(|path| !path.starts_with(&documents)) {
            assert!(expected.contains(path), "{} is installed too", path.display());
        }
        let others =
            ["var/lib/sluicegate/state.redb", "etc/systemd/system/sluiced.service.d/my.conf"];
        for other in others {
            let path = folder.path().join(other);
            fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
            fs::write(path, "an operator's").expect("it can be written");
        }
        output(make(&["uninstall", &destdir, &prefix_is]));
        let kept = others.iter().map(PathBuf::from).chain([config]).collect::<BTreeSet<_>>();
        assert_eq!(files(folder.path()), kept);
        assert!(!folder.path().join(documents).exists());
    }
}

#[test]
fn prefix_that_service_cannot_see_is_refused() {
    for prefix in ["/home/me/sg", "/root", "/tmp/sg"] {
        let prefix_is = format!("PREFIX={prefix}");
        let mut make = make(&["install", "BINARIES=/usr/bin", "DESTDIR=/nonexistent", &prefix_is]);
        let output = make.output().expect("make runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("choose /usr/local"), "{prefix}: {said}");
    }
}

#[test]
fn the_unit_names_what_was_installed_and_no_other_file_below_the_prefix() {
    for prefix in ["/usr", "/usr/local", "/opt/sg"] {
        let (folder, _) = install(prefix);
        let unit = folders(prefix).1.join("systemd/system/sluiced.service");
        let unit = fs::read_to_string(folder.path().join(unit)).expect("the unit is there");
        for line in [
            format!("ExecStart={prefix}/bin/sluiced --config /etc/sluicegate/sluicegate.toml"),
            format!("ExecReload={prefix}/bin/sluice reload"),
            format!("Documentation=file:{prefix}/share/doc/sluicegate/use/operating.md"),
        ] {
            assert!(unit.lines().any(|seen| seen == line), "{line} is not in:\n{unit}");
        }
        // setpriv is a program of Debian's, wherever Sluicegate is.
        assert!(unit.contains("ExecStartPre=-+/usr/bin/setpriv "), "{unit}");
        let below = unit.split_whitespace().filter_map(|word| word.split_once("/opt/sg/"));
        for (_, path) in below {
            let installed = folder.path().join("opt/sg").join(path);
            assert!(installed.exists(), "{path} is not installed:\n{unit}");
        }
    }
}

#[test]
fn documents_that_installed_files_name_are_installed() {
    for prefix in ["/usr", "/usr/local", "/opt/sg"] {
        let (folder, _) = install(prefix);
        let mut named = 0;
        for file in files(folder.path()) {
            let text = fs::read_to_string(folder.path().join(&file)).expect("a text");
            let is_of_path = |c: char| c.is_ascii_alphanumeric() || "/_.-".contains(c);
            let words = text.split(|c| !is_of_path(c)).map(|word| word.trim_end_matches('.'));
            for word in words.filter(|word| word.contains("share/doc/sluicegate/")) {
                named += 1;
                let there = folder.path().join(word.trim_start_matches('/')).exists();
                assert!(there, "{} names {word}, which is not installed", file.display());
            }
        }
        assert!(named > 5, "{named}");
    }
}

#[test]
fn install_keeps_the_configuration_that_is_there() {
    let (binaries, to) = (binaries(), tempfile::tempdir().expect("a folder"));
    let config = to.path().join("etc/sluicegate/sluicegate.toml");
    fs::create_dir_all(config.parent().expect("a folder")).expect("it can be made");
    fs::write(&config, "an operator's").expect("it can be written");
    let destdir = format!("DESTDIR={}", to.path().display());
    output(make(&["install", &format!("BINARIES={}", binaries.path().display()), &destdir]));
    assert_eq!(fs::read_to_string(config).expect("it is there"), "an operator's");
}

#[test]
fn make_help_names_each_target() {
    let help = output(make(&["help"]));
    let makefile = fs::read_to_string(root().join("Makefile")).expect("there is a Makefile");
    let targets = makefile.lines().find_map(|line| line.strip_prefix(".PHONY: "));
    for target in targets.expect("a list of targets").split_whitespace() {
        let line = if target == "build" { "make " } else { &format!("make {target} ") };
        let listed = help.lines().any(|l| l.starts_with(line));
        assert!(listed || target == "help", "make {target} is not in:\n{help}");
    }
}

/// Runs the demo with programs that pretend: the floods get `flood` commands a second, and the tenant 2,000.
fn demo(flood: u32) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let pid = folder.path().join("pid").display().to_string();
    let daemon = format!("echo $$ >{pid}\ntrap 'exit 150' TERM\nsleep 60 &\nwait\n");
    let job = |name: &str, iops: u32| {
        format!(
            "    {{\n    \"name\": \"{name}\",\n    \"iops\": {iops},\n    \"p50_ns\": 1000000,\n    \"p99_ns\": 2000000\n    }}"
        )
    };
    let (tenant, floods) = (job("tenant", 2000), job("flood1", flood));
    let client = format!(
        "case \"$*\" in\nshutdown) kill -TERM $(cat {pid}) ;;\n\
         bench*flood1*) printf '%s\\n' '{{' '  \"jobs\": [' '{tenant},' '{floods}' '  ]' '}}' ;;\n\
         bench*) printf '%s\\n' '{{' '  \"jobs\": [' '{tenant}' '  ]' '}}' ;;\nesac\n"
    );
    for (name, text) in [("sluiced", daemon), ("sluice", client)] {
        let path = folder.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}")).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("executable");
    }
    let mut demo = Command::new(root().join("tests/demo.sh"));
    demo.arg(folder.path());
    output(demo)
}

#[test]
fn demo_checks_its_own_table() {
    let right = demo(2000);
    assert!(right.contains("Checked: each row adds up"), "{right}");
    assert!(!right.contains("The machine was busy"), "{right}");
    // 1,750 and 2,000 are 6 % less than the device's 4,000.
    let wrong = demo(1750);
    assert!(wrong.contains("The machine was busy: in 4 of 5 rows"), "{wrong}");
    assert!(!wrong.contains("Checked:"), "{wrong}");
}
