//! Stops a build whose output would land in this source folder: `target/` is both this member and
//! cargo's default build folder, and `cargo clean` deletes the latter. Hands the commit to the compiler.

mod commit;

use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=commit.rs");
    commit::emit(Path::new(".."));
    let (Some(out), Some(source)) =
        (std::env::var_os("OUT_DIR"), std::env::var_os("CARGO_MANIFEST_DIR"))
    else {
        return;
    };
    if Path::new(&out).starts_with(&source) {
        println!(
            "cargo::error=the build folder is this crate's source folder; run cargo from inside \
             the repository, where .cargo/config.toml sets build.target-dir, or set \
             CARGO_TARGET_DIR to another folder"
        );
    }
}
