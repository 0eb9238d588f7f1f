//! A person who would rather have a leader that lacks records than none.

use std::rc::Rc;

use taffrail_protocol::message::ElectLeadersRequest;
use taffrail_runtime::time;

use super::connection::{Broken, Connection};
use super::{AGAIN, any_broker, broker_address};
use crate::cluster::trace::Trace;

const ELECT_LEADERS_VERSION: i16 = 2;

/// An election in which anybody may be elected.
const UNCLEAN: i8 = 1;

/// How long an election may take.
const TIMEOUT_MS: i32 = 3_000;

/// Asks again and again for leaders of all partitions that have none, whoever it is.
pub(in crate::cluster) async fn elect_anybody(client: u8, trace: Rc<Trace>) {
    for attempt in 0.. {
        let asked = elect(client, attempt).await;
        trace.note("person", format_args!("elections: {asked:?}"));
        time::sleep(AGAIN).await;
    }
}

/// Asks once; gives how many partitions the answer names.
async fn elect(client: u8, attempt: u64) -> Result<usize, Broken> {
    let mut connection = Connection::dial(broker_address(any_broker(client, attempt))).await?;
    let request = ElectLeadersRequest::default()
        .with_election_type(UNCLEAN)
        .with_topic_partitions(None)
        .with_timeout_ms(TIMEOUT_MS);
    let answer = connection.call(ELECT_LEADERS_VERSION, &request).await?;
    Ok(answer.replica_election_results.iter().map(|topic| topic.partition_result.len()).sum())
}
