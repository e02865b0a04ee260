//! Tests of the whole program: what it prints, its exit statuses, terminals, and docs/reproduction.md.

mod command_line;
mod daemon;
mod reproduction;
mod terminal;
