//! What is wrong is told, and ends with the right exit code.

use serde_json::Value;

use crate::common::Up;
use crate::{done, err, out, run, run_with};

#[test]
fn what_is_wrong_is_told_with_an_exit_code_and_prints_no_data() {
    let up = Up::start(&["--ephemeral"]);
    done(&up, &["topic", "create", "t", "-p", "1"]);
    let cases: [(&[&str], i32, &str); 11] = [
        (&["topic", "describe", "nope"], 1, "topic nope: "),
        (&["topic", "produce", "nope"], 1, "a topic is made by `taffrail topic create`"),
        (&["topic", "consume", "t", "-p", "7", "-e"], 1, "t has no partition 7: it has 1"),
        (&["topic", "create", "u", "-c", "retention.msx=1"], 1, "retention.msx"),
        (&["topic", "create", "u", "-c", "retention"], 2, "--config retention: name=value is needed"),
        (&["topic", "consume", "t", "--from", "ende"], 2, "expected start, end, an offset"),
        (&["topic", "consume", "t", "-f", "%x"], 2, "%x means nothing"),
        (&["topic", "consume", "t", "--from", "current"], 2, "only groups have a current offset"),
        (&["group", "reset", "g", "--to", "end"], 1, "group g has no offsets: name topics with --topic"),
        (&["group", "reset", "g", "--to", "end", "-t", "t:x"], 2, "numbers of partitions are needed after the colon"),
        (&["topic", "list", "-b", "nowhere"], 2, "--brokers nowhere: host:port is needed"),
    ];
    for (args, code, said) in cases {
        let output = run(&up, args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {output:?}");
        assert!(err(&output).contains(said), "{args:?}: {output:?}");
    }
    let nobody = run(&up, &["topic", "list", "-b", "127.0.0.1:1"]);
    assert_eq!((nobody.status.code(), out(&nobody)), (Some(1), String::new()));
    assert!(
        err(&nobody).contains("no broker answers at 127.0.0.1:1") && err(&nobody).contains("taffrail up"),
        "{nobody:?}"
    );

    let output = run_with(&up, &["topic", "produce", "t", "--json", "-o", "json"], b"{\"value\":\"a\"}\nb\n");
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("line 2: no JSON"), "{output:?}");
    assert_eq!(serde_json::from_slice::<Value>(&output.stdout).unwrap()["records"], 1, "what was written is told");
}
