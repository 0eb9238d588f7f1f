//! Groups are shown and moved, and records are read as members of them.

use std::collections::BTreeSet;
use std::io::Read;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::common::Up;
use crate::{data, done, err, produce, run, spawn, wait_for};

#[test]
fn groups_are_listed_described_moved_and_deleted() {
    let up = Up::start(&["--ephemeral"]);
    done(&up, &["topic", "create", "t", "-p", "2"]);
    produce(&up, &["t", "-p", "0"], "a\nb\nc\n");
    produce(&up, &["t", "-p", "1"], "d\n");
    assert_eq!(done(&up, &["group", "list"]), "GROUP  STATE  TYPE  COORDINATOR\n");

    let plan = ["group", "reset", "g", "--topic", "t", "--to", "end-2"];
    let planned = data(&up, &plan);
    assert_eq!((&planned["executed"], &planned["offsets"][0]["to"]), (&json!(false), &json!(1)));
    assert_eq!(run(&up, &["group", "describe", "g"]).status.code(), Some(1), "a plan makes no group");
    let executed: Vec<&str> = plan.iter().copied().chain(["--execute"]).collect();
    assert_eq!(data(&up, &executed)["offsets"][1]["to"], 0, "no further back than the log begins");

    assert_eq!(data(&up, &["group", "list", "--state", "empty"])["groups"][0]["name"], "g");
    let listed = "GROUP  STATE  TYPE  COORDINATOR  MEMBERS  LAG\ng      Empty  -     1            0        3\n";
    assert_eq!(done(&up, &["group", "ls", "--lag"]), listed);
    assert_eq!(data(&up, &["group", "describe", "--all"]), data(&up, &["group", "describe", "g"]));
    let expected = "\
GROUP  STATE  ASSIGNOR  COORDINATOR  MEMBERS  LAG
g      Empty  -         1            0        3

TOPIC  PARTITION  OFFSET  END  LAG  CLIENT  HOST
t      0          1       3    2    -       -
t      1          0       1    1    -       -
";
    assert_eq!(done(&up, &["group", "describe", "g"]), expected);
    done(&up, &["group", "seek", "g", "--topic", "t:0", "--to", "current+1", "--execute"]);
    let described = data(&up, &["group", "describe", "g"]);
    assert_eq!(
        (&described["groups"][0]["lag"], &described["groups"][0]["offsets"][0]["committed"]),
        (&json!(2), &json!(2))
    );

    let once = ["group", "reset", "g", "--to", "start", "--execute", "--id", "monday"];
    assert_eq!((&data(&up, &once)["executed"], committed(&up, "g")), (&json!(true), vec![0, 0]));
    done(&up, &["group", "reset", "g", "--to", "end", "--execute"]);
    let again = run(&up, &once);
    assert!(again.status.success() && err(&again).contains("was done before"), "{again:?}");
    assert_eq!((&data(&up, &once)["executed"], committed(&up, "g")), (&json!(false), vec![3, 1]), "once is once");

    assert_eq!(done(&up, &["group", "delete", "g"]), "GROUP  OUTCOME\ng      deleted\n");
    let gone = run(&up, &["group", "delete", "g"]);
    assert_eq!(gone.status.code(), Some(1));
    assert!(err(&gone).contains("(GROUP_ID_NOT_FOUND)"), "{gone:?}");
}

/// What a group has committed in each partition of a topic.
fn committed(up: &Up, group: &str) -> Vec<i64> {
    let described = data(up, &["group", "describe", group]);
    let offsets = described["groups"][0]["offsets"].as_array().unwrap();
    offsets.iter().map(|offset| offset["committed"].as_i64().unwrap()).collect()
}

#[test]
fn members_read_on_behind_what_was_printed() {
    let up = Up::start(&["--ephemeral"]);
    done(&up, &["topic", "create", "t", "-p", "2"]);
    produce(&up, &["t", "-p", "0"], "a\nb\nc\n");
    produce(&up, &["t", "-p", "1"], "d\n");
    let read = |args: &[&str]| {
        let args: Vec<&str> = ["topic", "consume", "t", "-g", "g"].iter().chain(args).copied().collect();
        let mut lines: Vec<String> = done(&up, &args).lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    assert_eq!(read(&["-n", "2"]).len(), 2);
    assert_eq!(committed(&up, "g").iter().sum::<i64>(), 2, "no more is committed than was printed");
    assert_eq!(data(&up, &["group", "describe", "g"])["groups"][0]["state"], "Empty", "it has left at once");
    assert_eq!(read(&["-e"]).len(), 2);
    assert_eq!((read(&["-e"]), committed(&up, "g")), (vec![], vec![3, 1]));

    done(&up, &["group", "seek", "g", "--to", "start", "-t", "t:0", "--execute"]);
    assert_eq!(read(&["-e"]), ["a", "b", "c"]);
    produce(&up, &["t", "-p", "1"], "e\n");
    assert_eq!(read(&["-e", "--from", "end"]), ["e"], "--from is for where the group has no offset");
    assert_eq!(done(&up, &["topic", "consume", "t", "-g", "h", "-e", "--from", "end"]), "");
    assert_eq!(committed(&up, "h"), [3, 2], "where it begins is noted, although nothing came");
    assert_eq!(committed(&up, "g"), [3, 2]);
}

#[test]
fn members_share_what_there_is_and_commit_when_they_are_stopped() {
    let up = Up::start(&["--ephemeral"]);
    done(&up, &["topic", "create", "t", "-p", "2"]);
    let members: Vec<_> = (0..2).map(|_| spawn(&up, &["topic", "consume", "t", "-g", "g"])).collect();
    let described = wait_for(&up, &["group", "describe", "g"], |described| {
        let group = &described["groups"][0];
        let readers: BTreeSet<String> =
            group["offsets"].as_array().unwrap().iter().map(|offset| offset["member"].to_string()).collect();
        group["state"] == "Stable" && readers.len() == 2 && !readers.contains("null")
    });
    assert_eq!(described["groups"][0]["assignor"], "range");
    produce(&up, &["t", "-p", "0"], "a\n");
    produce(&up, &["t", "-p", "1"], "b\n");
    wait_for(&up, &["group", "describe", "g"], |described| described["groups"][0]["lag"] == 0);
    let mut printed = Vec::new();
    for mut member in members {
        kill_process(Pid::from_child(&member), Signal::TERM).unwrap();
        assert_eq!(member.wait().unwrap().code(), Some(0));
        let mut lines = String::new();
        member.stdout.take().unwrap().read_to_string(&mut lines).unwrap();
        printed.push(lines);
    }
    printed.sort_unstable();
    assert_eq!((printed, committed(&up, "g")), (vec!["a\n".to_owned(), "b\n".to_owned()], vec![1, 1]));
    assert_eq!(data(&up, &["group", "describe", "g"])["groups"][0]["members"], json!([]));
}

/// Ids of the members that read the partitions of a topic, in their order.
fn readers(described: &serde_json::Value) -> Vec<String> {
    let offsets = described["groups"][0]["offsets"].as_array().unwrap();
    offsets.iter().map(|offset| offset["member"].to_string()).collect()
}

#[test]
fn cooperative_members_keep_what_they_have_when_others_come_and_go() {
    let up = Up::start(&["--ephemeral"]);
    done(&up, &["topic", "create", "t", "-p", "4"]);
    let cooperative = ["topic", "consume", "t", "-g", "g", "--assignor", "cooperative-sticky"];
    let stable = |members: usize| {
        wait_for(&up, &["group", "describe", "g"], |described| {
            let readers: BTreeSet<String> = readers(described).into_iter().collect();
            described["groups"][0]["state"] == "Stable" && readers.len() == members && !readers.contains("null")
        })
    };
    let mut first = spawn(&up, &cooperative);
    let alone = stable(1);
    assert_eq!(alone["groups"][0]["assignor"], "cooperative-sticky");
    let mut second = spawn(&up, &cooperative);
    let both = readers(&stable(2));
    assert_eq!(both[..2], readers(&alone)[..2], "the first member has kept half of it");
    assert!(both[2..].iter().all(|reader| *reader == both[2] && *reader != both[0]), "{both:?}");
    for number in ["0", "1", "2", "3"] {
        produce(&up, &["t", "-p", number], "a\n");
    }
    wait_for(&up, &["group", "describe", "g"], |described| described["groups"][0]["lag"] == 0);
    kill_process(Pid::from_child(&second), Signal::TERM).unwrap();
    assert_eq!(second.wait().unwrap().code(), Some(0));
    assert_eq!(readers(&stable(1)), readers(&alone));
    kill_process(Pid::from_child(&first), Signal::TERM).unwrap();
    assert_eq!(first.wait().unwrap().code(), Some(0));
    let mut printed = String::new();
    for member in [&mut first, &mut second] {
        member.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
    }
    assert_eq!(printed, "a\na\na\na\n", "each record once");
}

#[test]
fn a_static_member_that_comes_back_is_the_same_member() {
    let up = Up::start(&["--ephemeral"]);
    done(&up, &["topic", "create", "t", "-p", "2"]);
    produce(&up, &["t", "-p", "0"], "a\n");
    let read = ["topic", "consume", "t", "-g", "g", "--instance-id", "reader-1", "-e"];
    assert_eq!(done(&up, &read), "a\n");
    let described = data(&up, &["group", "describe", "g"]);
    let members = &described["groups"][0]["members"];
    assert_eq!((members.as_array().unwrap().len(), &members[0]["instanceId"]), (1, &json!("reader-1")), "it stays");
    produce(&up, &["t", "-p", "1"], "b\n");
    assert_eq!(done(&up, &read), "b\n");
    let described = data(&up, &["group", "describe", "g"]);
    assert_eq!(described["groups"][0]["members"].as_array().unwrap().len(), 1, "and comes back as itself");
}
