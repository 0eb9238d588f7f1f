//! Clusters have names, and commands find them by these.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::common::Up;
use crate::{err, out};

/// Runs it with a file of contexts, and nothing else that tells where a cluster is.
fn run(file: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_taffrail"));
    command.env_clear().env("TAFFRAIL_CONTEXTS", file).args(args).output().unwrap()
}

fn data(file: &Path, args: &[&str]) -> Value {
    let output = run(file, &[args, &["-o", "json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{args:?}: {output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn clusters_are_found_by_the_names_they_were_given() {
    let (up, scratch) = (Up::start(&["--ephemeral"]), tempfile::tempdir().unwrap());
    let file = scratch.path().join("contexts.yaml");
    let brokers = up.told("clients").split_whitespace().next().unwrap();
    assert_eq!(data(&file, &["context", "list"]), json!({ "current": null, "contexts": [] }));

    data(&file, &["context", "add", "here", "-b", brokers]);
    data(&file, &["context", "add", "nowhere", "-b", "127.0.0.1:1"]);
    assert_eq!(data(&file, &["cluster", "info"])["brokers"], 1, "the first one is used");
    data(&file, &["context", "use", "nowhere"]);
    let nobody = run(&file, &["cluster", "info"]);
    assert!(err(&nobody).contains("no broker answers at 127.0.0.1:1"), "{nobody:?}");
    assert_eq!(data(&file, &["cluster", "info", "--context", "here"])["brokers"], 1);
    assert_eq!(data(&file, &["cluster", "info", "-b", brokers])["brokers"], 1);
    let listed = out(&run(&file, &["context", "list"]));
    assert!(listed.contains("*     nowhere  127.0.0.1:1") && listed.contains("-     here"), "{listed}");

    data(&file, &["context", "remove", "nowhere"]);
    assert_eq!(data(&file, &["context", "list"])["current"], Value::Null);
    let cases: [(&[&str], i32, &str); 4] = [
        (&["cluster", "info", "--context", "there"], 2, "there is no context there: there are here"),
        (&["context", "use", "there"], 1, "there is no context there"),
        (&["context", "add", "bad", "-b", "nothing"], 2, "--brokers nothing: host:port is needed"),
        (&["cluster", "health"], 2, "--controllers HOST:PORT,... is needed, or a context that has them"),
    ];
    for (args, code, said) in cases {
        let output = run(&file, args);
        assert_eq!((output.status.code(), err(&output).contains(said)), (Some(code), true), "{args:?}: {output:?}");
    }
    std::fs::write(&file, "contexts: {a: {brokers: [x]").unwrap();
    let broken = run(&file, &["cluster", "info"]);
    assert_eq!((broken.status.code(), err(&broken).contains("is no file of contexts")), (Some(1), true), "{broken:?}");
}

#[test]
fn up_is_found_without_a_word() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("contexts.yaml");
    let up = Up::start_in(&[("TAFFRAIL_CONTEXTS", file.to_str().unwrap())], &["--ephemeral"]);
    let listed = data(&file, &["context", "list"]);
    assert_eq!((&listed["current"], &listed["contexts"][0]["name"]), (&json!("up"), &json!("up")));
    let info = data(&file, &["cluster", "info"]);
    assert!(up.told("data").ends_with(info["clusterId"].as_str().unwrap()), "{info}");
}
