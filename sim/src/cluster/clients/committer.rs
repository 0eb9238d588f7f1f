//! A client that commits offsets of a group, one after the other, and asks for them: an offset whose commit was acknowledged
//! stays until a later one is committed.
//!
//! A commit of which nothing was heard may still arrive, whenever its connection pleases, so what such commits said may be
//! found too.

use std::collections::BTreeSet;
use std::time::Duration;

use taffrail_core::errors::ErrorCode;
use taffrail_protocol::message::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use taffrail_protocol::message::offset_fetch_request::OffsetFetchRequestTopic;
use taffrail_protocol::message::{FindCoordinatorRequest, GroupId, OffsetCommitRequest, OffsetFetchRequest};
use taffrail_runtime::{random, time};

use super::{AGAIN, BROKERS_MAX, Broken, Connection, Surroundings, any_broker, broker_address, topic_name};

/// The last version that asks for one group.
const FIND_COORDINATOR_VERSION: i16 = 3;
/// The last versions that name topics, and one group.
const OFFSET_COMMIT_VERSION: i16 = 8;
const OFFSET_FETCH_VERSION: i16 = 7;

/// The group.
const GROUP: &str = "simulated";

/// The generation of a client that is no member.
const NO_GENERATION: i32 = -1;

/// Longest pause between two commits.
const PAUSE_MAX_MS: u64 = 120;

/// Where the progress of commits stands, which are of no partition.
pub(in crate::cluster) const COMMITS: i32 = -1;

struct Committer {
    client: u8,
    surroundings: Surroundings,
    connection: Option<Connection>,
    attempts: u64,
    /// The offset that was acknowledged last.
    acknowledged: Option<i64>,
    /// Offsets of commits whose outcome is not known.
    unknown: BTreeSet<i64>,
}

/// Commits offsets for ever.
pub(in crate::cluster) async fn commit_offsets(client: u8, surroundings: Surroundings) {
    let unknown = BTreeSet::new();
    let mut committer = Committer { client, surroundings, connection: None, attempts: 0, acknowledged: None, unknown };
    for offset in 0.. {
        committer.commit(offset).await;
        time::sleep(Duration::from_millis(1 + random::u64() % PAUSE_MAX_MS)).await;
        committer.look().await;
    }
}

impl Committer {
    fn note(&self, what: impl std::fmt::Display) {
        self.surroundings.trace.note(format_args!("committer {}", self.client), what);
    }

    /// Commits `offset`, as often as it takes.
    async fn commit(&mut self, offset: i64) {
        let partition = OffsetCommitRequestPartition::default().with_partition_index(0).with_committed_offset(offset);
        let topic = OffsetCommitRequestTopic::default().with_name(topic_name()).with_partitions(vec![partition]);
        let request = OffsetCommitRequest::default()
            .with_group_id(GroupId(GROUP.to_owned().into()))
            .with_generation_id_or_member_epoch(NO_GENERATION)
            .with_topics(vec![topic]);
        loop {
            let answer = self.coordinator().await.call(OFFSET_COMMIT_VERSION, &request).await;
            let code = answer.map(|answer| {
                let partitions = answer.topics.into_iter().flat_map(|topic| topic.partitions);
                partitions.map(|partition| partition.error_code).next()
            });
            match code {
                Ok(Some(0)) => break,
                Ok(code) => self.lost(format_args!("commit of {offset}: error {code:?}")).await,
                Err(error) => self.lost(format_args!("commit of {offset}: {error}")).await,
            }
            self.unknown.insert(offset);
        }
        self.note(format_args!("{offset} is committed"));
        self.acknowledged = Some(offset);
        *self.surroundings.progress.borrow_mut().entry((self.client, COMMITS)).or_default() += 1;
    }

    /// Asks which offset is committed.
    async fn look(&mut self) {
        let topic = OffsetFetchRequestTopic::default().with_name(topic_name()).with_partition_indexes(vec![0]);
        let request = OffsetFetchRequest::default()
            .with_group_id(GroupId(GROUP.to_owned().into()))
            .with_topics(Some(vec![topic]))
            .with_require_stable(true);
        let found = loop {
            let answer = self.coordinator().await.call(OFFSET_FETCH_VERSION, &request).await;
            let found = answer.map(|answer| {
                let partitions = answer.topics.into_iter().flat_map(|topic| topic.partitions);
                let of_partition = partitions.map(|it| (it.error_code, it.committed_offset)).next();
                (answer.error_code, of_partition)
            });
            match found {
                Ok((0, Some((0, offset)))) => break offset,
                Ok(found) => self.lost(format_args!("no offset: {found:?}")).await,
                Err(error) => self.lost(format_args!("no offset: {error}")).await,
            }
        };
        self.note(format_args!("{found} is found"));
        if self.acknowledged != Some(found) && !self.unknown.contains(&found) {
            let Self { acknowledged, unknown, .. } = self;
            self.surroundings.ledger.break_promise(format!(
                "committed-offsets-stay: the group has offset {found}, where {acknowledged:?} was acknowledged and {unknown:?} \
                 may have come"
            ));
        }
    }

    /// Does not return before there is a connection.
    async fn coordinator(&mut self) -> &mut Connection {
        while self.connection.is_none() {
            self.attempts += 1;
            match self.find().await {
                Ok(found) => self.connection = found,
                Err(error) => self.note(error),
            }
            if self.connection.is_none() {
                time::sleep(AGAIN).await;
            }
        }
        self.connection.as_mut().unwrap_or_else(|| unreachable!("the loop ends with a connection"))
    }

    async fn find(&self) -> Result<Option<Connection>, Broken> {
        let mut connection = Connection::dial(broker_address(any_broker(self.client, self.attempts))).await?;
        let request = FindCoordinatorRequest::default().with_key(GROUP.to_owned().into());
        let answer = connection.call(FIND_COORDINATOR_VERSION, &request).await?;
        if answer.error_code != ErrorCode::None.code() {
            return Ok(None);
        }
        match u8::try_from(answer.node_id.0).ok().filter(|node| (1..=BROKERS_MAX).contains(node)) {
            Some(node) => Ok(Some(Connection::dial(broker_address(node)).await?)),
            None => Ok(None),
        }
    }

    /// Whoever answered is no coordinator, or does not answer.
    async fn lost(&mut self, why: impl std::fmt::Display) {
        self.note(why);
        self.connection = None;
        time::sleep(AGAIN).await;
    }
}
