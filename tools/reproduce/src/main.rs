//! `reproduce`: see the library.

fn main() -> std::process::ExitCode {
    reproduce::main()
}
