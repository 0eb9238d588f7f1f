//! What the cluster says of itself, and what moves in it.

use serde_json::json;

use crate::common::Up;
use crate::{data, done};

#[test]
fn a_cluster_in_which_nothing_moves_says_so() {
    let up = Up::start(&["--ephemeral"]);
    assert_eq!(data(&up, &["cluster", "moves"]), json!({ "bytesLeft": 0, "moves": [] }));
    assert_eq!(done(&up, &["cluster", "moves"]).lines().count(), 1);
}
