//! A member of a consumer group, by the protocol that all consumers speak: join, sync, heartbeat, commit, leave. It gives up
//! what it reads at each rebalance and takes what it is given after it.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use taffrail_core::errors::ErrorCode;
use taffrail_core::group::{CONSUMER_PROTOCOL_TYPE, consumer_protocol};
use taffrail_protocol::message::join_group_request::JoinGroupRequestProtocol;
use taffrail_protocol::message::join_group_response::JoinGroupResponseMember;
use taffrail_protocol::message::leave_group_request::MemberIdentity;
use taffrail_protocol::message::sync_group_request::SyncGroupRequestAssignment;
use taffrail_protocol::message::{
    HeartbeatRequest, HeartbeatResponse, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, OffsetCommitResponse,
    Request, SyncGroupRequest,
};
use taffrail_protocol::versions::VersionRange;
use taffrail_runtime::time;

use super::assignor::{self, Subscribed};
use super::groups::{OFFSET_COMMIT, check_commit, commit_request, group_id};
use super::{KafkaClient, KafkaError, PartitionKey, Patience, check};

/// Versions with a time for rebalances.
const JOIN_GROUP: VersionRange = VersionRange { min: 2, max: 9 };
const SYNC_GROUP: VersionRange = VersionRange { min: 0, max: 5 };
const HEARTBEAT: VersionRange = VersionRange { min: 0, max: 4 };
/// Versions that take a list of members.
const LEAVE_GROUP: VersionRange = VersionRange { min: 3, max: 5 };

/// How long the coordinator waits for a sign of life, as by Kafka's own consumer.
const SESSION_TIMEOUT_MS: i32 = 45_000;

/// How long a rebalance waits for its members.
const REBALANCE_TIMEOUT: Duration = Duration::from_secs(60);

/// Time between two signs of life.
const HEARTBEAT_EVERY: Duration = Duration::from_secs(3);

/// Time between two looks of the group's leader for new partitions, which somebody has to read.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// How partitions are assigned.
const ASSIGNOR: &str = "range";

/// The generation of a member that is in none.
const NO_GENERATION: i32 = -1;

/// The member.
pub struct Membership {
    group: String,
    topics: Vec<String>,
    /// Given by the coordinator; empty before that.
    member_id: String,
    generation: i32,
    /// Who coordinated the group when it answered last.
    coordinator: Option<i32>,
    heartbeat_at: time::Instant,
    /// What the member assigned, if it leads the group.
    led: Option<Led>,
}

/// What the leader of a group assigned.
struct Led {
    /// How many partitions topics had.
    counts: BTreeMap<String, i32>,
    /// When to look whether they have more.
    look_at: time::Instant,
}

impl Membership {
    /// A member to be, of a group that reads these topics.
    pub fn new(group: &str, topics: &[String]) -> Self {
        Self {
            group: group.to_owned(),
            topics: topics.to_vec(),
            member_id: String::new(),
            generation: NO_GENERATION,
            coordinator: None,
            heartbeat_at: time::monotonic(),
            led: None,
        }
    }

    /// When the next sign of life is due.
    pub fn heartbeat_at(&self) -> time::Instant {
        self.heartbeat_at
    }

    /// Joins the group, or joins it again when it rebalances; gives the partitions to read from now on.
    ///
    /// # Errors
    /// What does not pass, or has not passed when every member must have been heard.
    pub async fn join(&mut self, client: &mut KafkaClient) -> Result<Vec<PartitionKey>, KafkaError> {
        let patience = Patience::new(REBALANCE_TIMEOUT + client.timeout);
        loop {
            match self.join_once(client).await {
                Ok(assigned) => {
                    self.heartbeat_at = time::monotonic() + HEARTBEAT_EVERY;
                    return Ok(assigned);
                }
                // The next round begins while this one ends, or the member was taken for dead meanwhile.
                Err(error) if self.has_lost_its_place(&error) => patience.pause(error).await?,
                Err(error) => {
                    self.coordinator = None;
                    patience.after(error).await?;
                }
            }
        }
    }

    /// Gives a sign of life; whether the member may go on, or has to join again, for new partitions too.
    ///
    /// # Errors
    /// What does not pass, or has not passed in time.
    pub async fn heartbeat(&mut self, client: &mut KafkaClient) -> Result<bool, KafkaError> {
        let request = HeartbeatRequest::default()
            .with_group_id(group_id(&self.group))
            .with_generation_id(self.generation)
            .with_member_id(self.member_id.clone().into());
        let what = format!("heartbeat to group {}", self.group);
        let check_answer = |answer: &HeartbeatResponse| check(what.clone(), answer.error_code, None);
        let stays = self.tell(client, HEARTBEAT, &request, check_answer).await?;
        self.heartbeat_at = time::monotonic() + HEARTBEAT_EVERY;
        Ok(stays && !self.has_new_partitions(client).await?)
    }

    /// Whether the member leads, and topics have other partitions than it has assigned.
    async fn has_new_partitions(&mut self, client: &mut KafkaClient) -> Result<bool, KafkaError> {
        let now = time::monotonic();
        let Some(led) = self.led.as_mut().filter(|led| now >= led.look_at) else { return Ok(false) };
        led.look_at = now + LOOK_EVERY;
        let names: Vec<String> = led.counts.keys().cloned().collect();
        Ok(counts(client, &names).await? != led.counts)
    }

    /// Notes how far the member is: the next offset to read in each partition. Whether it was noted; if not, the member has
    /// to join again.
    ///
    /// # Errors
    /// What does not pass, or has not passed in time.
    pub async fn commit(
        &mut self,
        client: &mut KafkaClient,
        offsets: &BTreeMap<PartitionKey, i64>,
    ) -> Result<bool, KafkaError> {
        let request = commit_request(&self.group, &self.member_id, self.generation, offsets);
        let (group, count) = (self.group.clone(), offsets.len());
        let check_answer = |answer: &OffsetCommitResponse| check_commit(&group, count, answer);
        self.tell(client, OFFSET_COMMIT, &request, check_answer).await
    }

    /// Leaves, so that others need not wait until it is missed.
    ///
    /// # Errors
    /// When the coordinator cannot be told.
    pub async fn leave(mut self, client: &mut KafkaClient) -> Result<(), KafkaError> {
        if self.member_id.is_empty() {
            return Ok(());
        }
        let member = MemberIdentity::default().with_member_id(self.member_id.clone().into());
        let request = LeaveGroupRequest::default().with_group_id(group_id(&self.group)).with_members(vec![member]);
        let answer = self.ask(client, Duration::ZERO, LEAVE_GROUP, &request).await?;
        check(format!("leaving group {}", self.group), answer.error_code, None)
    }

    async fn join_once(&mut self, client: &mut KafkaClient) -> Result<Vec<PartitionKey>, KafkaError> {
        let mut joined = self.ask_to_join(client).await?;
        if ErrorCode::from_code(joined.error_code) == Some(ErrorCode::MemberIdRequired) {
            self.member_id = joined.member_id.to_string();
            joined = self.ask_to_join(client).await?;
        }
        check(format!("group {}", self.group), joined.error_code, None)?;
        self.member_id = joined.member_id.to_string();
        self.generation = joined.generation_id;
        self.led = None;
        let assignments = if joined.leader == joined.member_id && !joined.skip_assignment {
            self.assign(client, &joined.members).await?
        } else {
            Vec::new()
        };
        let request = SyncGroupRequest::default()
            .with_group_id(group_id(&self.group))
            .with_generation_id(self.generation)
            .with_member_id(self.member_id.clone().into())
            .with_protocol_type(Some(CONSUMER_PROTOCOL_TYPE.into()))
            .with_protocol_name(Some(ASSIGNOR.into()))
            .with_assignments(assignments);
        let answer = self.ask(client, REBALANCE_TIMEOUT, SYNC_GROUP, &request).await?;
        let what = format!("assignment of group {}", self.group);
        check(what.clone(), answer.error_code, None)?;
        if answer.assignment.is_empty() {
            return Ok(Vec::new());
        }
        let assigned = consumer_protocol::partitions(&answer.assignment).ok_or(KafkaError::NotAnswered(what))?;
        let keys = |(topic, numbers): (&str, Vec<i32>)| {
            let topic = topic.to_owned();
            numbers.into_iter().map(move |number| (topic.clone(), number))
        };
        Ok(assigned.into_iter().flat_map(keys).collect())
    }

    async fn ask_to_join(&mut self, client: &mut KafkaClient) -> Result<JoinGroupResponse, KafkaError> {
        let protocol = JoinGroupRequestProtocol::default()
            .with_name(ASSIGNOR.into())
            .with_metadata(Bytes::from(consumer_protocol::subscription(&self.topics)));
        let request = JoinGroupRequest::default()
            .with_group_id(group_id(&self.group))
            .with_session_timeout_ms(SESSION_TIMEOUT_MS)
            .with_rebalance_timeout_ms(i32::try_from(REBALANCE_TIMEOUT.as_millis()).unwrap_or(i32::MAX))
            .with_member_id(self.member_id.clone().into())
            .with_protocol_type(CONSUMER_PROTOCOL_TYPE.into())
            .with_protocols(vec![protocol]);
        self.ask(client, REBALANCE_TIMEOUT, JOIN_GROUP, &request).await
    }

    /// What each member is to read, for the one that the coordinator has made the leader.
    async fn assign(
        &mut self,
        client: &mut KafkaClient,
        members: &[JoinGroupResponseMember],
    ) -> Result<Vec<SyncGroupRequestAssignment>, KafkaError> {
        let subscribed = |member: &JoinGroupResponseMember| Subscribed {
            member_id: member.member_id.to_string(),
            instance_id: member.group_instance_id.as_ref().map(ToString::to_string),
            topics: consumer_protocol::topics(&member.metadata).unwrap_or_default(),
        };
        let members: Vec<Subscribed> = members.iter().map(subscribed).collect();
        let mut names: Vec<String> = members.iter().flat_map(|member| member.topics.iter().cloned()).collect();
        names.sort_unstable();
        names.dedup();
        let counts = counts(client, &names).await?;
        let assignment = |(member_id, assigned): (String, assignor::Assigned)| {
            SyncGroupRequestAssignment::default()
                .with_member_id(member_id.into())
                .with_assignment(Bytes::from(consumer_protocol::assignment(&assigned)))
        };
        let assignments = assignor::range(members, &counts).into_iter().map(assignment).collect();
        self.led = Some(Led { counts, look_at: time::monotonic() + LOOK_EVERY });
        Ok(assignments)
    }

    /// Tells the coordinator something as a member of this generation; whether it still is one.
    async fn tell<R: Request>(
        &mut self,
        client: &mut KafkaClient,
        versions: VersionRange,
        request: &R,
        check_answer: impl Fn(&R::Response) -> Result<(), KafkaError>,
    ) -> Result<bool, KafkaError> {
        let patience = Patience::new(client.timeout);
        loop {
            let answer = self.ask(client, Duration::ZERO, versions, request).await;
            match answer.and_then(|answer| check_answer(&answer)) {
                Ok(()) => return Ok(true),
                Err(error) if self.has_lost_its_place(&error) => return Ok(false),
                Err(error) => {
                    self.coordinator = None;
                    patience.after(error).await?;
                }
            }
        }
    }

    /// Whether the refusal means that the member has to join again; forgets an id that is none any more.
    fn has_lost_its_place(&mut self, error: &KafkaError) -> bool {
        match error.code() {
            Some(ErrorCode::RebalanceInProgress | ErrorCode::IllegalGeneration) => true,
            Some(ErrorCode::UnknownMemberId) => {
                self.member_id.clear();
                self.generation = NO_GENERATION;
                true
            }
            _ => false,
        }
    }

    /// Asks the coordinator, where it was when it answered last. It may take `longer` than others.
    async fn ask<R: Request>(
        &mut self,
        client: &mut KafkaClient,
        longer: Duration,
        versions: VersionRange,
        request: &R,
    ) -> Result<R::Response, KafkaError> {
        // Forgotten until it answers.
        let coordinator = match self.coordinator.take() {
            Some(coordinator) => coordinator,
            None => client.coordinator(&self.group).await?,
        };
        let answer = client.ask_within(coordinator, client.timeout + longer, versions, request).await?;
        self.coordinator = Some(coordinator);
        Ok(answer)
    }
}

/// How many partitions each of these topics has; 0 if it is not there.
async fn counts(client: &mut KafkaClient, names: &[String]) -> Result<BTreeMap<String, i32>, KafkaError> {
    let mut counts: BTreeMap<String, i32> = names.iter().map(|name| (name.clone(), 0)).collect();
    for topic in client.topics_that_exist(names).await? {
        counts.insert(topic.name, i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX));
    }
    Ok(counts)
}
