//! Hands the commit to the compiler.

#[path = "../../target/commit.rs"]
mod commit;

use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../../target/commit.rs");
    commit::emit(Path::new("../.."));
}
