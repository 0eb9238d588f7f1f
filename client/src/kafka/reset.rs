//! Has a group go on elsewhere, once: with the offsets goes the id of the reset, so that one that is asked for again, by whomever,
//! does nothing. The operator does the same for resources.
//!
//! Only our own brokers know the mark. Others refuse that one entry, as one of a topic that is not there, and take the offsets.

use std::collections::BTreeMap;

use taffrail_core::errors::ErrorCode;
use taffrail_core::group::RESET_MARKER;
use taffrail_protocol::message::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use taffrail_protocol::message::offset_commit_response::OffsetCommitResponseTopic;
use taffrail_protocol::message::offset_fetch_request::OffsetFetchRequestTopic;
use taffrail_protocol::message::{OffsetCommitResponse, OffsetFetchRequest, OffsetFetchResponse};

use super::groups::{NO_GENERATION, OFFSET_COMMIT, OFFSET_FETCH, check_commit, commit_request, group_id};
use super::topics::topic_name;
use super::{KafkaClient, KafkaError, PartitionKey, check};

/// Ids of resets that a group is remembered to have had.
const RESETS_MAX: usize = 16;

/// What became of a reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reset {
    /// It is done, and one of the same id will not be done again.
    Done,
    /// It is done; these brokers do not remember that it was.
    DoneUnmarked,
    /// It was done before; nothing has changed.
    DoneBefore,
}

impl KafkaClient {
    /// Has a group without members go on at these offsets, all of them or none, unless the reset `id` was done before.
    ///
    /// # Errors
    /// The refusal, such as UNKNOWN_MEMBER_ID while the group has members.
    pub async fn reset(
        &mut self,
        group: &str,
        id: &str,
        offsets: &BTreeMap<PartitionKey, i64>,
    ) -> Result<Reset, KafkaError> {
        let mut done = self.resets(group).await?;
        if done.iter().any(|done| done == id) {
            return Ok(Reset::DoneBefore);
        }
        done.push(id.to_owned());
        let kept = done.len().saturating_sub(RESETS_MAX);
        let marker = OffsetCommitRequestPartition::default()
            .with_committed_offset(0)
            .with_committed_metadata(Some(done.split_off(kept).join("\n").into()));
        let marker =
            OffsetCommitRequestTopic::default().with_name(topic_name(RESET_MARKER)).with_partitions(vec![marker]);
        let mut request = commit_request(group, "", NO_GENERATION, offsets);
        request.topics.insert(0, marker);
        let check_answer = |answer: &OffsetCommitResponse| match outcome(answer) {
            // An answer that was lost on its way, and the same reset once more.
            Some(ErrorCode::DuplicateResource) => Ok(()),
            _ => check_commit(group, offsets.len(), &without_marker(answer)),
        };
        let (_, answer) = self.ask_coordinator(group, OFFSET_COMMIT, &request, check_answer).await?;
        match outcome(&answer) {
            None | Some(ErrorCode::None | ErrorCode::DuplicateResource) => Ok(Reset::Done),
            Some(_) => Ok(Reset::DoneUnmarked),
        }
    }

    /// Ids of the last resets of a group, the newest last; none where brokers do not know of them.
    async fn resets(&mut self, group: &str) -> Result<Vec<String>, KafkaError> {
        let marker =
            OffsetFetchRequestTopic::default().with_name(topic_name(RESET_MARKER)).with_partition_indexes(vec![0]);
        let request = OffsetFetchRequest::default().with_group_id(group_id(group)).with_topics(Some(vec![marker]));
        let check_answer =
            |answer: &OffsetFetchResponse| check(format!("offsets of group {group}"), answer.error_code, None);
        let (_, answer) = self.ask_coordinator(group, OFFSET_FETCH, &request, check_answer).await?;
        let marks = answer.topics.iter().flat_map(|topic| &topic.partitions).filter(|it| it.committed_offset >= 0);
        let ids = marks.flat_map(|mark| mark.metadata.as_deref().unwrap_or_default().lines());
        Ok(ids.map(str::to_owned).collect())
    }
}

fn is_marker(topic: &OffsetCommitResponseTopic) -> bool {
    &**topic.name == RESET_MARKER
}

/// What is said of the mark.
fn outcome(answer: &OffsetCommitResponse) -> Option<ErrorCode> {
    let marker = answer.topics.iter().find(|topic| is_marker(topic))?.partitions.first()?;
    ErrorCode::from_code(marker.error_code)
}

fn without_marker(answer: &OffsetCommitResponse) -> OffsetCommitResponse {
    let mut rest = answer.clone();
    rest.topics.retain(|topic| !is_marker(topic));
    rest
}
