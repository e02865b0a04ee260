//! `config`: the input is a configuration file. Inputs that are no text are skipped.

use std::path::Path;

use sluice_config::{Config, ConfigErrors, render};

/// Runs one input.
pub fn run(data: &[u8]) {
    let file = Path::new("fuzz.toml");
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Config::parse(text, file) {
        Ok(config) => {
            // The text of a configuration must mean the same when it is read again.
            let text = render(&config);
            let again = Config::parse(&text, file);
            assert_eq!(again.as_ref(), Ok(&config), "written and read again:\n{text}");
        }
        Err(errors) => check(data, &errors),
    }
}

/// Checks that each error has a place in the file and words.
fn check(data: &[u8], errors: &ConfigErrors) {
    assert!(!errors.errors.is_empty(), "neither a configuration nor an error");
    let lines = 1 + data.iter().filter(|&&byte| byte == b'\n').count();
    for error in &errors.errors {
        assert!((1..=lines).contains(&error.line), "line {} of {lines}: {error:?}", error.line);
        assert!(error.column > 0 && !error.message.is_empty(), "no place or no words: {error:?}");
    }
    assert!(errors.to_string().contains("fuzz.toml"), "the file is not named: {errors}");
}
