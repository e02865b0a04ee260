//! Compiles the kernel's part of the feature `bpf`; without it there is nothing to do.

use std::path::Path;
use std::process::Command;

const SOURCE: &str = "src/window.bpf.c";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={SOURCE}");
    println!("cargo::rerun-if-env-changed=CLANG");
    if std::env::var_os("CARGO_FEATURE_BPF").is_none() {
        return;
    }
    let Some(out) = std::env::var_os("OUT_DIR") else { return };
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let compiled = Command::new(&clang)
        .args(["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-Werror", "-c", SOURCE, "-o"])
        .arg(Path::new(&out).join("window.bpf.o"))
        .status();
    match compiled {
        Ok(status) if status.success() => {}
        Ok(status) => println!("cargo::error={clang} could not compile {SOURCE}: {status}"),
        Err(error) => println!(
            "cargo::error=the feature `bpf` needs clang 12 or newer (Debian: apt-get install clang \
             libelf-dev zlib1g-dev), or its path in CLANG: {clang}: {error}"
        ),
    }
}
