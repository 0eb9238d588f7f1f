//! A member of a consumer group, by the protocol that all consumers speak: join, sync, heartbeat, commit, leave.
//!
//! With `range` it gives up what it reads at each rebalance and takes what it is given after it. With `cooperative-sticky` it keeps
//! what it has, gives up what is to go elsewhere, and joins once more so that others get that. With a lasting name it stays a
//! member while it is away for a moment, and is given the same again.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use taffrail_core::errors::ErrorCode;
use taffrail_core::group::consumer_protocol::Subscription;
use taffrail_core::group::{CONSUMER_PROTOCOL_TYPE, consumer_protocol};
use taffrail_protocol::message::join_group_request::JoinGroupRequestProtocol;
use taffrail_protocol::message::join_group_response::JoinGroupResponseMember;
use taffrail_protocol::message::leave_group_request::MemberIdentity;
use taffrail_protocol::message::sync_group_request::SyncGroupRequestAssignment;
use taffrail_protocol::message::{
    HeartbeatRequest, HeartbeatResponse, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, OffsetCommitResponse,
    Request, StrBytes, SyncGroupRequest,
};
use taffrail_protocol::versions::VersionRange;
use taffrail_runtime::time;

use super::assignor::{self, Subscribed};
use super::groups::{OFFSET_COMMIT, check_commit, commit_request, group_id};
use super::sticky;
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

/// The versions from which on members have lasting names.
const JOIN_STATIC_SINCE: i16 = 5;
const SYNC_STATIC_SINCE: i16 = 3;
const HEARTBEAT_STATIC_SINCE: i16 = 3;
const COMMIT_STATIC_SINCE: i16 = 7;

/// How the members of a group share partitions out. All of them must know it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Assignor {
    /// Neighbouring partitions; everybody gives everything up meanwhile.
    #[default]
    Range,
    /// Everybody keeps what it has where that is fair, and goes on reading it.
    CooperativeSticky,
}

impl Assignor {
    /// All of them, by Kafka's names.
    pub const ALL: [(&'static str, Self); 2] =
        [("range", Self::Range), ("cooperative-sticky", Self::CooperativeSticky)];

    /// Its name in the protocol.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Range => "range",
            Self::CooperativeSticky => "cooperative-sticky",
        }
    }
}

/// The generation of a member that is in none.
const NO_GENERATION: i32 = -1;

/// The member.
pub struct Membership {
    group: String,
    topics: Vec<String>,
    /// Given by the coordinator; empty before that.
    member_id: String,
    generation: i32,
    assignor: Assignor,
    /// A name that lasts beyond the process.
    instance_id: Option<String>,
    /// What it was given last, as long as it is a member.
    owned: BTreeMap<String, Vec<i32>>,
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
            assignor: Assignor::default(),
            instance_id: None,
            owned: BTreeMap::new(),
            coordinator: None,
            heartbeat_at: time::monotonic(),
            led: None,
        }
    }

    /// The same with partitions shared out so.
    #[must_use]
    pub fn with_assignor(mut self, assignor: Assignor) -> Self {
        self.assignor = assignor;
        self
    }

    /// The same under a name that lasts: who comes back with it within the session's time is the same member.
    #[must_use]
    pub fn with_instance_id(mut self, instance_id: Option<String>) -> Self {
        self.instance_id = instance_id;
        self
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
                // What it has to give up goes to others in one more round, which it begins.
                Ok(true) => {}
                Ok(false) => {
                    self.heartbeat_at = time::monotonic() + HEARTBEAT_EVERY;
                    return Ok(self.assigned());
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
            .with_member_id(self.member_id.clone().into())
            .with_group_instance_id(self.instance());
        let what = format!("heartbeat to group {}", self.group);
        let check_answer = |answer: &HeartbeatResponse| check(what.clone(), answer.error_code, None);
        let stays = self.tell(client, self.since(HEARTBEAT, HEARTBEAT_STATIC_SINCE), &request, check_answer).await?;
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
        let request = commit_request(&self.group, &self.member_id, self.generation, offsets)
            .with_group_instance_id(self.instance());
        let (group, count) = (self.group.clone(), offsets.len());
        let check_answer = |answer: &OffsetCommitResponse| check_commit(&group, count, answer);
        self.tell(client, self.since(OFFSET_COMMIT, COMMIT_STATIC_SINCE), &request, check_answer).await
    }

    /// Leaves, so that others need not wait until it is missed. One with a lasting name stays until its session ends, so that it
    /// may come back.
    ///
    /// # Errors
    /// When the coordinator cannot be told.
    pub async fn leave(mut self, client: &mut KafkaClient) -> Result<(), KafkaError> {
        if self.member_id.is_empty() || self.instance_id.is_some() {
            return Ok(());
        }
        let member = MemberIdentity::default().with_member_id(self.member_id.clone().into());
        let request = LeaveGroupRequest::default().with_group_id(group_id(&self.group)).with_members(vec![member]);
        let answer = self.ask(client, Duration::ZERO, LEAVE_GROUP, &request).await?;
        check(format!("leaving group {}", self.group), answer.error_code, None)
    }

    /// The partitions to read.
    fn assigned(&self) -> Vec<PartitionKey> {
        let of_topic = |(topic, numbers): (&String, &Vec<i32>)| {
            numbers.iter().map(|number| (topic.clone(), *number)).collect::<Vec<_>>()
        };
        self.owned.iter().flat_map(of_topic).collect()
    }

    fn instance(&self) -> Option<StrBytes> {
        self.instance_id.clone().map(Into::into)
    }

    /// The versions of a request, of which a member with a lasting name needs those that know it.
    fn since(&self, versions: VersionRange, since: i16) -> VersionRange {
        let min = if self.instance_id.is_some() { versions.min.max(since) } else { versions.min };
        VersionRange { min, ..versions }
    }

    /// Joins and takes what it is given; whether it has to join again because it gave something up.
    async fn join_once(&mut self, client: &mut KafkaClient) -> Result<bool, KafkaError> {
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
            .with_protocol_name(Some(self.assignor.name().into()))
            .with_group_instance_id(self.instance())
            .with_assignments(assignments);
        let versions = self.since(SYNC_GROUP, SYNC_STATIC_SINCE);
        let answer = self.ask(client, REBALANCE_TIMEOUT, versions, &request).await?;
        let what = format!("assignment of group {}", self.group);
        check(what.clone(), answer.error_code, None)?;
        let assigned = match answer.assignment.is_empty() {
            true => Vec::new(),
            false => consumer_protocol::partitions(&answer.assignment).ok_or(KafkaError::NotAnswered(what))?,
        };
        let before = std::mem::take(&mut self.owned);
        self.owned = assigned.into_iter().map(|(topic, numbers)| (topic.to_owned(), numbers)).collect();
        let gives_up = |(topic, numbers): (&String, &Vec<i32>)| {
            let stays = |number: &i32| self.owned.get(topic).is_some_and(|owned| owned.contains(number));
            !numbers.iter().all(stays)
        };
        Ok(self.assignor == Assignor::CooperativeSticky && before.iter().any(gives_up))
    }

    async fn ask_to_join(&mut self, client: &mut KafkaClient) -> Result<JoinGroupResponse, KafkaError> {
        let metadata = match self.assignor {
            Assignor::Range => consumer_protocol::subscription(&self.topics),
            Assignor::CooperativeSticky => {
                let (topics, owned) = (self.topics.clone(), self.owned.clone());
                Subscription { topics, owned, generation: self.generation }.encode()
            }
        };
        let protocol = JoinGroupRequestProtocol::default()
            .with_name(self.assignor.name().into())
            .with_metadata(Bytes::from(metadata));
        let request = JoinGroupRequest::default()
            .with_group_id(group_id(&self.group))
            .with_session_timeout_ms(SESSION_TIMEOUT_MS)
            .with_rebalance_timeout_ms(i32::try_from(REBALANCE_TIMEOUT.as_millis()).unwrap_or(i32::MAX))
            .with_member_id(self.member_id.clone().into())
            .with_protocol_type(CONSUMER_PROTOCOL_TYPE.into())
            .with_group_instance_id(self.instance())
            .with_protocols(vec![protocol]);
        let versions = self.since(JOIN_GROUP, JOIN_STATIC_SINCE);
        self.ask(client, REBALANCE_TIMEOUT, versions, &request).await
    }

    /// What each member is to read, for the one that the coordinator has made the leader.
    async fn assign(
        &mut self,
        client: &mut KafkaClient,
        members: &[JoinGroupResponseMember],
    ) -> Result<Vec<SyncGroupRequestAssignment>, KafkaError> {
        let subscribed = |member: &JoinGroupResponseMember| {
            let said = Subscription::decode(&member.metadata);
            let generation = said.as_ref().map_or(NO_GENERATION, |said| said.generation);
            let (topics, owned) = said.map(|said| (said.topics, said.owned)).unwrap_or_default();
            let instance_id = member.group_instance_id.as_ref().map(ToString::to_string);
            Subscribed { member_id: member.member_id.to_string(), instance_id, topics, owned, generation }
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
        let assigned = match self.assignor {
            Assignor::Range => assignor::range(members, &counts),
            Assignor::CooperativeSticky => sticky::cooperative(&members, &counts),
        };
        let assignments = assigned.into_iter().map(assignment).collect();
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
                // Others have been given it.
                self.owned.clear();
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
