//! Tests of the whole program: what it prints, its exit statuses and terminals.

mod command_line;
mod daemon;
mod planner;
mod terminal;
