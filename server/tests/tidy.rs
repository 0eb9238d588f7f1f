//! The tree is as CONTRIBUTING.md says: no file too long to read, nothing left to be fixed, everything documented.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

use std::path::{Path, PathBuf};

/// Lines of the longest source file.
const LINES_MAX: usize = 800;

/// Words that may not stay in the tree, in two parts so that this file does not hold them.
const LEFT_OVERS: [&str; 4] =
    [concat!("FIX", "ME"), concat!("XX", "X:"), concat!("todo", "!("), concat!("unimplemented", "!(")];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Source files below `dir`, of the crates' own folders only.
fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if path.is_dir() {
            if !name.starts_with('.') && !["target", "node_modules", "corpus", "golden"].contains(&&*name) {
                sources(&path, found);
            }
        } else if ["rs", "py", "sh", "proto"]
            .iter()
            .any(|kind| path.extension().is_some_and(|extension| extension == *kind))
        {
            found.push(path);
        }
    }
}

fn all() -> Vec<(PathBuf, String)> {
    let mut paths = Vec::new();
    sources(&root(), &mut paths);
    assert!(paths.len() > 100, "the tree was not found");
    paths.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn no_source_file_is_too_long_to_read() {
    let long: Vec<String> = all()
        .into_iter()
        .filter(|(_, text)| text.lines().count() > LINES_MAX)
        .map(|(path, text)| format!("{}: {} lines", path.display(), text.lines().count()))
        .collect();
    assert!(long.is_empty(), "longer than {LINES_MAX} lines: {long:#?}");
}

#[test]
fn nothing_is_left_to_be_fixed() {
    let mut left = Vec::new();
    for (path, text) in all() {
        for (number, line) in (1..).zip(text.lines()) {
            if LEFT_OVERS.iter().any(|word| line.contains(word)) {
                left.push(format!("{}:{number}: {}", path.display(), line.trim()));
            }
        }
    }
    assert!(left.is_empty(), "{left:#?}");
}

#[test]
fn every_module_says_what_it_is_for() {
    let silent: Vec<PathBuf> = all()
        .into_iter()
        .filter(|(path, text)| path.extension().is_some_and(|extension| extension == "rs") && !text.starts_with("//!"))
        .map(|(path, _)| path)
        // Tests of a module stand beside it, and what they are about is said there.
        .filter(|path| !path.ends_with("tests.rs") && !path.parent().is_some_and(|parent| parent.ends_with("tests")))
        .collect();
    assert!(silent.is_empty(), "no `//!` at the top: {silent:#?}");
}

#[test]
fn the_pages_that_readers_are_sent_to_are_there() {
    for page in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "LICENSE", "docs/configuration.md"] {
        let text = std::fs::read_to_string(root().join(page)).unwrap_or_default();
        assert!(text.len() > 200, "{page} is missing or empty");
    }
}
