//! The output of a command.

use anyhow::ensure;

/// The text that a command prints, and its unexpected results.
#[derive(Debug, Default)]
pub struct Made {
    /// The text that is printed.
    pub text: String,
    /// The results that are not as expected, such as missed goals.
    pub off: Vec<String>,
}

impl From<String> for Made {
    fn from(text: String) -> Self {
        Self { text, off: Vec::new() }
    }
}

impl Made {
    /// Fails if a result is not as expected, for the exit status.
    ///
    /// # Errors
    ///
    /// One is not; the error lists them.
    pub fn conclude(&self) -> anyhow::Result<()> {
        conclude(&self.off)
    }
}

/// Fails if a result is not as expected. `off` lists those results.
///
/// # Errors
///
/// One is not; the error lists them.
pub fn conclude(off: &[String]) -> anyhow::Result<()> {
    ensure!(off.is_empty(), "not as expected: {}", off.join("; "));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_that_is_not_as_expected_fails_the_command() {
        assert!(Made::from("text".to_owned()).conclude().is_ok());
        let made = Made { off: vec!["C1: 3".to_owned(), "C2: 4".to_owned()], ..Made::default() };
        assert_eq!(made.conclude().unwrap_err().to_string(), "not as expected: C1: 3; C2: 4");
    }
}
