//! A process's metrics are printed.

use serde_json::Value;

use crate::common::Up;
use crate::{data, done, err, run};

#[test]
fn what_a_process_measures_is_printed_as_it_is_or_as_data() {
    let up = Up::start(&["--ephemeral"]);
    let address = up.told("metrics").trim_start_matches("http://").trim_end_matches("/metrics").to_owned();
    let text = done(&up, &["metrics", "--address", &address]);
    assert!(text.contains("# TYPE kafka_server_replicamanager_partitioncount gauge"), "{text}");
    let found = data(&up, &["metrics", "replicamanager_partitioncount", "--address", &address]);
    let family = &found["families"][0];
    assert_eq!((&family["type"], &family["samples"][0]["value"]), (&Value::from("gauge"), &Value::from("0")));
    let table = done(&up, &["metrics", "replicamanager_partitioncount", "--address", &address]);
    assert!(table.starts_with("METRIC") && table.lines().count() == 2, "{table}");
    assert!(done(&up, &["metrics", "--summary", "--address", &address]).len() < text.len());

    let brokers = up.told("clients").split_whitespace().next().unwrap().to_owned();
    for (address, code, said) in [
        ("127.0.0.1:1", 1, "no metrics from 127.0.0.1:1"),
        ("nothing", 2, "--address nothing: host:port is needed"),
        (brokers.as_str(), 1, "answers something else than HTTP"),
    ] {
        let output = run(&up, &["metrics", "--address", address]);
        assert_eq!((output.status.code(), err(&output).contains(said)), (Some(code), true), "{output:?}");
    }
}
