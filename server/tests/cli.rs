//! The command line, as people and scripts meet it: what goes where, and with which exit code.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Runs the binary with no environment but these variables.
fn taffrail_in(environment: &[(&str, &str)], args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_taffrail"));
    command.env_clear().envs(environment.iter().copied()).args(args).output().unwrap()
}

fn taffrail(args: &[&str]) -> Output {
    taffrail_in(&[], args)
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn help_and_version_are_data_and_mistakes_are_not() {
    let cases: [(&[&str], i32, &str, &str); 11] = [
        (&["--help"], 0, "taffrail up", ""),
        (&["up", "--help"], 0, "--data-dir", ""),
        (&["version"], 0, "speaks Kafka 4.4", ""),
        (&["--version"], 0, "taffrail 0.", ""),
        (&["upp"], 2, "", "unrecognized subcommand 'upp'"),
        (&["up", "--datadir", "x"], 2, "", "unexpected argument '--datadir'"),
        (&["config", "show", "--set", "x"], 2, "", "--set x: name=value is needed, such as num.partitions=3"),
        (&["config", "show", "--set", "=3"], 2, "", "--set =3: name=value is needed, such as num.partitions=3"),
        (
            &["up", "--listen", "foo"],
            2,
            "",
            "--listen: listen is 'foo', and host:port is needed, such as 127.0.0.1:9092",
        ),
        (&["controller", "--node-id", "1", "--console", ":9405"], 2, "", "--console: a controller has no console"),
        (
            &["controller", "--node-id", "1", "--cluster-id", "AAAAAAAAAAAAAAAAAAAAAB"],
            2,
            "",
            "must be A, Q, g or w (URL-safe base64 of 16 bytes); `taffrail cluster new-id` prints a new one",
        ),
    ];
    for (args, code, out, err) in cases {
        let output = taffrail(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}");
        assert!(stdout(&output).contains(out) && stderr(&output).contains(err), "{args:?}: {output:?}");
        assert_eq!(output.stdout.is_empty(), code != 0, "{args:?}");
    }
}

#[test]
fn as_a_plugin_of_kubectl_it_does_the_same_and_calls_itself_so() {
    let dir = tempfile::tempdir().unwrap();
    let plugin = dir.path().join("kubectl-taffrail");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_taffrail"), &plugin).unwrap();
    let run = |args: &[&str]| Command::new(&plugin).env_clear().args(args).output().unwrap();
    assert_eq!(stdout(&run(&["version"])), stdout(&taffrail(&["version"])));
    let help = stdout(&run(&["topic", "create", "--help"]));
    assert!(help.contains("Usage: kubectl taffrail topic create"), "{help}");
    let wrong = run(&["topic", "create"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("Usage: kubectl taffrail topic create"), "{wrong:?}");
    assert!(stdout(&taffrail(&["topic", "create", "--help"])).contains("Usage: taffrail topic create"));
}

#[test]
fn new_ids_of_clusters_are_what_controllers_take() {
    let [first, second] = [0, 1].map(|_| stdout(&taffrail(&["cluster", "new-id"])));
    assert_ne!(first, second);
    let id: Result<taffrail_core::ids::Uuid, _> = first.trim_end().parse();
    assert!(id.is_ok() && !first.starts_with('-'), "{first}");
}

#[test]
fn config_show_tells_what_holds_and_where_it_comes_from() {
    let dir = tempfile::tempdir().unwrap();
    let (config, cluster) = (dir.path().join("a.yaml"), dir.path().join("cluster.yaml"));
    std::fs::write(&config, "# settings\nnum.partitions: 3\nlog.retention.hours: 24\nmetrics: off\n").unwrap();
    std::fs::write(
        &cluster,
        "apiVersion: taffrail.dev/v1alpha1\nkind: Cluster\nmetadata: {name: dev}\nspec:\n  config:\n    \
         log.retention.hours: 12\n    log.segment.bytes: 2000000\n",
    )
    .unwrap();
    let (config, cluster) = (config.to_str().unwrap(), cluster.to_str().unwrap());
    let environment =
        [("TAFFRAIL_NUM_PARTITIONS", "5"), ("TAFFRAIL_DATA_DIR", "/env"), ("TAFFRAIL_SERVICE_HOST", "10.0.0.1")];
    let args = [
        "config",
        "show",
        "--config",
        config,
        "-f",
        cluster,
        "--data-dir",
        "/flag",
        "--set",
        "message.max.bytes=9",
        "-o",
        "json",
    ];
    let output = taffrail_in(&environment, &args);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let rows: Vec<Value> = serde_json::from_str(&stdout(&output)).unwrap();
    let told = |name: &str| {
        let row = rows.iter().find(|row| row["name"] == name).unwrap();
        let source =
            [&row["source"]["kind"], &row["source"]["name"]].map(|part| part.as_str().unwrap_or_default().to_owned());
        (row["value"].as_str().unwrap().to_owned(), source.join(" ").trim().to_owned())
    };
    let expected = [
        ("data_dir", "/flag", "flag --data-dir".to_owned()),
        ("listen", "127.0.0.1:9092", "default".to_owned()),
        ("metrics", "off", format!("file {config}")),
        ("num.partitions", "5", "environment TAFFRAIL_NUM_PARTITIONS".to_owned()),
        ("log.retention.hours", "24", format!("file {config}")),
        ("log.segment.bytes", "2000000", "cluster dev".to_owned()),
        ("message.max.bytes", "9", "flag --set message.max.bytes".to_owned()),
    ];
    for (name, value, source) in expected {
        assert_eq!(told(name), (value.to_owned(), source), "{name}");
    }
    let table = stdout(&taffrail_in(&environment, &args[..args.len() - 2]));
    assert!(table.starts_with("NAME"), "{table}");
    assert!(table.contains(&format!("{config}:3")), "with the line: {table}");
}

#[test]
fn kafkas_own_file_is_read_and_what_it_calls_otherwise_is_explained() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("server.properties");
    std::fs::write(&file, "# Kafka\nnum.partitions=7\nlog.retention.hours=24\n").unwrap();
    let output = taffrail(&["config", "show", "--config", file.to_str().unwrap()]);
    assert!(stdout(&output).contains("num.partitions       7"), "{output:?}");
    let cases = [
        ("listeners=PLAINTEXT://:9092\n", "server.properties:1: listeners is not set here: write listen"),
        (
            "num.partitons=3\n",
            "server.properties:1: Unknown broker config name: num.partitons (did you mean num.partitions?)",
        ),
        ("num.partitions=0\n", "server.properties:1: Invalid value 0 for configuration num.partitions"),
        ("num.partitions\n", "server.properties:1: expected name=value"),
    ];
    for (text, expected) in cases {
        std::fs::write(&file, text).unwrap();
        let output = taffrail(&["config", "show", "--config", file.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(stderr(&output).contains(expected), "{output:?}");
    }
}

#[test]
fn unknown_variables_of_ours_are_refused() {
    let output = taffrail_in(&[("TAFFRAIL_LISTN", ":1")], &["config", "show"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("TAFFRAIL_LISTN (did you mean TAFFRAIL_LISTEN?)"), "{output:?}");
}

#[test]
fn validate_tells_every_mistake_with_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.yaml");
    std::fs::write(&file, "apiVersion: taffrail.dev/v1alpha1\nkind: Topic\nmetadata: {name: a}\nspec:\n  clusterRef: {name: dev}\n  partitons: 3\n  replicas: x\n").unwrap();
    let name = file.to_str().unwrap();
    let output = taffrail(&["validate", "-f", name]);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.contains(&format!("{name}:6:3: spec.partitons: unknown field (did you mean partitions?)")), "{said}");
    assert!(said.contains(&format!("{name}:7:13: spec.replicas: expected a whole number")), "{said}");
    assert!(output.stdout.is_empty());

    let output = taffrail(&["validate", "-f", name, "-o", "json"]);
    assert_eq!(output.status.code(), Some(1));
    let data: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!((&data["valid"], &data["problems"][0]["line"]), (&false.into(), &6.into()));
}

#[test]
fn a_file_for_kubernetes_is_judged_as_the_operator_would() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.yaml");
    let cluster = |cron: &str| {
        format!(
            "apiVersion: taffrail.dev/v1alpha1\nkind: Cluster\nmetadata: {{name: log}}\nspec:\n  rollout: {{windows: [{{cron: {cron}, duration: 2h}}]}}\n"
        )
    };
    let name = file.to_str().unwrap();
    for (cron, arguments, code, expected) in [
        ("0 2 * * *", &["validate", "-f", name][..], 1, "spec.rollout: not acted on yet"),
        ("0 2 * * *", &["validate", "--kubernetes", "-f", name], 0, "valid: 1 Cluster, 0 Topics, 0 ConsumerGroups"),
        ("0 25 * * *", &["validate", "--kubernetes", "-f", name], 1, "a.yaml:5:13: spec.rollout.windows[0]: 25 is"),
    ] {
        std::fs::write(&file, cluster(cron)).unwrap();
        let output = taffrail(arguments);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let said = stdout(&output) + &stderr(&output);
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn the_examples_are_valid() {
    for entry in std::fs::read_dir(root().join("examples")).unwrap().map(Result::unwrap) {
        let path = entry.path();
        let output = taffrail(&["validate", "-f", path.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(0), "{}: {output:?}", path.display());
    }
}

#[test]
fn the_page_of_settings_is_current() {
    let path = root().join("docs/configuration.md");
    let page = stdout(&taffrail(&["config", "docs"]));
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    assert!(std::fs::read_to_string(&path).unwrap_or_default() == page, "stale: run this test with UPDATE=1");
    assert!(page.contains("| `retention.ms` | long | `604800000` | -1 or more | cluster |"), "{page}");
}

#[test]
fn the_page_of_commands_is_current() {
    let path = root().join("docs/commands.md");
    let page = stdout(&taffrail(&["config", "commands"]));
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    assert!(std::fs::read_to_string(&path).unwrap_or_default() == page, "stale: run this test with UPDATE=1");
    assert!(page.contains("### topic consume") && page.contains("| `-g`, `--group GROUP` |"), "{page}");
}

#[test]
fn each_command_has_a_manual_page() {
    let dir = tempfile::tempdir().unwrap();
    let output = taffrail(&["config", "man", dir.path().join("man").to_str().unwrap()]);
    assert_eq!((output.status.code(), stdout(&output)), (Some(0), String::new()), "{output:?}");
    for page in ["taffrail.1", "taffrail-topic.1", "taffrail-topic-consume.1"] {
        let text = std::fs::read_to_string(dir.path().join("man").join(page)).unwrap();
        assert!(text.contains(".SH SYNOPSIS"), "{page}: {text}");
    }
}

#[test]
fn shells_are_told_how_to_ask_and_asked_for_words_they_get_them() {
    for shell in ["bash", "zsh", "fish"] {
        let script = stdout(&taffrail(&["completion", shell]));
        assert!(script.contains("TAFFRAIL_COMPLETE") && script.contains("taffrail"), "{shell}: {script}");
    }
    assert_eq!(taffrail(&["completion", "sh"]).status.code(), Some(2));
    let asked = |words: &[&str]| {
        let args: Vec<&str> = ["--"].iter().chain(words).copied().collect();
        let index = (words.len() - 1).to_string();
        let variables = [("TAFFRAIL_COMPLETE", "bash"), ("_CLAP_COMPLETE_INDEX", &index), ("_CLAP_IFS", "\n")];
        stdout(&taffrail_in(&variables, &args))
    };
    assert_eq!(asked(&["taffrail", "topic", "des"]), "describe");
    let nobody = asked(&["taffrail", "topic", "describe", "-b", "127.0.0.1:1", "o"]);
    assert_eq!(nobody, "", "without a cluster there are no names, and no complaints");
}
