//! Tests of the whole program: its output, its exit statuses and terminals.

mod command_line;
mod daemon;
mod planner;
mod terminal;
