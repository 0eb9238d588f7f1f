//! `docs/kubernetes-reasons.md` is what the code says, and the code uses all of it.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use taffrail_operator::crd::reasons::{EventReason, Reason};

const HEAD: &str = "\
<!-- Generated from operator/src/crd/reasons.rs by `UPDATE=1 cargo test -p taffrail-operator --test reasons`; do not edit. -->
# Reasons

Every condition and every Event of a Cluster, Topic or ConsumerGroup carries one of these reasons, and a message with the
particulars: `kubectl get tfc,tft,tfg -o yaml`, `kubectl describe`, `kubectl get events`.

## Of conditions
";

fn section(page: &mut String, name: &str, seen: &str, meaning: &str, action: &str) {
    writeln!(page, "\n### {name}\n{seen}\n\n{meaning}").unwrap();
    if action != "Nothing." {
        writeln!(page, "\n**What to do.** {action}").unwrap();
    }
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    for reason in Reason::ALL {
        section(&mut page, reason.name(), reason.seen(), reason.meaning(), reason.action());
    }
    page.push_str("\n## Of Events\n");
    for reason in EventReason::ALL {
        section(&mut page, &format!("{} (Event)", reason.name()), reason.seen(), reason.meaning(), reason.action());
    }
    page
}

#[test]
fn the_page_of_reasons_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/kubernetes-reasons.md");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, page()).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == page(), "{} is stale: run with UPDATE=1", path.display());
}

/// All Rust files below a folder.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn no_reason_is_on_the_page_that_nothing_carries() {
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    files.retain(|path| !path.ends_with("crd/reasons.rs"));
    let code: String = files.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let words: BTreeSet<&str> = code.split(|c: char| !(c.is_alphanumeric() || c == ':')).collect();
    let named = |list: &str, name: &str| words.contains(format!("{list}::{name}").as_str());
    let unused = Reason::ALL.iter().map(|reason| ("Reason", reason.name()));
    let unused = unused.chain(EventReason::ALL.iter().map(|reason| ("EventReason", reason.name())));
    let unused: Vec<_> = unused.filter(|(list, name)| !named(list, name)).collect();
    assert_eq!(unused, Vec::new());
}

#[test]
fn a_reason_is_a_word_as_kubernetes_wants_it_and_is_explained() {
    let all = Reason::ALL.iter().map(|reason| (reason.name(), reason.seen(), reason.meaning(), reason.action()));
    let events = EventReason::ALL.iter().map(|it| (it.name(), it.seen(), it.meaning(), it.action()));
    for (name, seen, meaning, action) in all.chain(events) {
        assert!(
            name.starts_with(|c: char| c.is_ascii_uppercase()) && name.chars().all(char::is_alphanumeric),
            "{name}"
        );
        assert!(seen.starts_with(['C', 'T']), "{name}: {seen}");
        assert!(meaning.ends_with('.') && action.ends_with('.'), "{name}");
    }
}
