//! Answers as people see them, for tests.

use serde_json::{Value, json};
use sluice_config::Method;

use super::request::Request;
use super::table::Room;
use super::view;

pub(super) fn within(room: Room, method: Method, answer: &Value) -> String {
    view::text(&Request { method, params: json!({}) }, answer, room).unwrap()
}

/// Returns an answer as text, as wide as it becomes.
pub(super) fn text(method: Method, answer: &Value) -> String {
    within(Room::Unlimited, method, answer)
}

/// Returns the lines of a text, with one space between two words.
pub(super) fn lines(text: &str) -> Vec<String> {
    text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}
