//! Asking leaders for the ends of their logs: this broker itself, or others over a connection that is kept.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use taffrail_core::errors::ErrorCode;
use taffrail_core::ids::{BrokerId, Offset, PartitionIndex, TopicId};
use taffrail_protocol::data::TopicRef;
use taffrail_protocol::message::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use taffrail_protocol::message::{BrokerId as WireBrokerId, ListOffsetsRequest, ListOffsetsResponse, TopicName};
use taffrail_protocol::unread::{self, Age, Answer, PARTITIONS_MAX, Question};
use taffrail_protocol::{request, response};
use taffrail_runtime::time;

use crate::broker::Broker;
use crate::replication::{Link, LinkError, peer};

/// How long one leader may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Largest answer that is taken.
const ANSWER_MAX_BYTES: usize = 64 * 1024 * 1024;

/// Timestamp that stands for the end of a log, and the replica id of those who see it as consumers do.
const LATEST: i64 = -1;
const CONSUMER: i32 = -1;

/// What is asked about one partition.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) topic: Arc<str>,
    pub(super) topic_id: TopicId,
    pub(super) partition: PartitionIndex,
    /// In their order, each once.
    pub(super) offsets: Vec<Offset>,
}

/// What its leader says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) start: Offset,
    /// Up to where consumers can read.
    pub(super) end: Offset,
    /// Of the first record to be read from each offset on.
    pub(super) ages: Vec<Age>,
}

/// Partitions whose leader has answered.
pub(super) type Answers = Vec<(Asked, Ends)>;

/// Connections to other brokers that are not in use.
#[derive(Default)]
pub(super) struct Peers {
    links: BTreeMap<BrokerId, Link>,
}

impl Peers {
    pub(super) fn take(&mut self, broker: BrokerId) -> Option<Link> {
        self.links.remove(&broker)
    }

    pub(super) fn put_back(&mut self, broker: BrokerId, link: Option<Link>) {
        self.links.extend(link.map(|link| (broker, link)));
    }
}

/// Asks the leader of these partitions. Gives the connection back if it is of use.
pub(super) async fn ask(
    broker: &Broker,
    leader: BrokerId,
    link: Option<Link>,
    asked: Vec<Asked>,
) -> (Option<Link>, Answers) {
    if leader == broker.id {
        return (None, own(broker, asked).await);
    }
    match time::timeout(ANSWER_TIMEOUT, other(broker, leader, link, &asked)).await {
        Ok(Ok((link, ends))) => {
            let answers = asked.into_iter().zip(ends).filter_map(|(asked, ends)| Some((asked, ends?)));
            (Some(link), answers.collect())
        }
        Ok(Err(error)) => {
            tracing::info!(%leader, error = %error.in_full(), "the ends of its logs are not known");
            (None, Vec::new())
        }
        Err(_) => {
            tracing::info!(%leader, "the ends of its logs are not known in time");
            (None, Vec::new())
        }
    }
}

async fn own(broker: &Broker, asked: Vec<Asked>) -> Answers {
    let (hosted, image) = (broker.replicas.hosted(), broker.metadata.image());
    let mut answers = Vec::with_capacity(asked.len());
    for asked in asked {
        let Ok(partition) = hosted.partition(&TopicRef::Id(asked.topic_id), asked.partition, &image) else { continue };
        if !partition.leads() || partition.is_behind_its_epoch() || partition.log().offline().is_some() {
            continue;
        }
        let answer = unread_here(broker, partition, &asked).await;
        answers.push((asked, answer));
    }
    answers
}

async fn unread_here(broker: &Broker, partition: &Arc<crate::replica::Partition>, asked: &Asked) -> Ends {
    let Answer { log_start, ages } = super::unread(broker, partition, &asked.offsets).await;
    // After the ages: a group must never seem to be ahead of the log.
    Ends { start: log_start, end: partition.offsets().high_watermark, ages }
}

async fn other(
    broker: &Broker,
    leader: BrokerId,
    link: Option<Link>,
    asked: &[Asked],
) -> Result<(Link, Vec<Option<Ends>>), LinkError> {
    if let Some(mut link) = link
        && let Ok(ends) = over(&mut link, asked).await
    {
        return Ok((link, ends));
    }
    // The connection may be one to an earlier life of the broker.
    let client_id = format!("broker-{}-lag", broker.id);
    let peer = peer(broker, leader, client_id, ANSWER_MAX_BYTES).ok_or(LinkError::Closed)?;
    let mut link = Link::dial(&peer).await?;
    let ends = over(&mut link, asked).await?;
    Ok((link, ends))
}

async fn over(link: &mut Link, asked: &[Asked]) -> Result<Vec<Option<Ends>>, LinkError> {
    let version = link.list_offsets_version;
    let mut ends = Vec::with_capacity(asked.len());
    for asked in asked.chunks(PARTITIONS_MAX) {
        let message = to_request(asked, version);
        link.send(|number, client_id, out| request::encode(version, number, Some(client_id), &message, out)).await?;
        let (_, response) = response::decode::<ListOffsetsRequest>(version, link.receive().await?)?;
        ends.extend(from_response(asked, &response));
    }
    Ok(ends)
}

fn to_request(asked: &[Asked], version: i16) -> ListOffsetsRequest {
    let partition =
        |asked: &Asked| ListOffsetsPartition::default().with_partition_index(asked.partition).with_timestamp(LATEST);
    let topics = asked.chunk_by(|one, next| one.topic == next.topic).map(|of_topic| {
        ListOffsetsTopic::default()
            .with_name(TopicName(of_topic[0].topic.to_string().into()))
            .with_partitions(of_topic.iter().map(partition).collect())
    });
    let mut message =
        ListOffsetsRequest::default().with_replica_id(WireBrokerId(CONSUMER)).with_topics(topics.collect());
    if version >= unread::SINCE_VERSION {
        let question = |asked: &Asked| Question { topic_id: asked.topic_id, offsets: asked.offsets.clone() };
        unread::ask(&mut message, &asked.iter().map(question).collect::<Vec<_>>());
    }
    message
}

/// What the response says of each partition that was asked for.
fn from_response(asked: &[Asked], response: &ListOffsetsResponse) -> Vec<Option<Ends>> {
    let mut found = BTreeMap::new();
    for topic in &response.topics {
        for partition in &topic.partitions {
            if partition.error_code == ErrorCode::None.code() && partition.offset >= 0 {
                found.insert((topic.name.0.as_str(), partition.partition_index), partition.offset);
            }
        }
    }
    let answers = unread::answered(response).unwrap_or_default();
    let mut answers = answers.into_iter();
    let each = asked.iter().map(|asked| {
        let answer = answers.next().flatten();
        let end = *found.get(&(&*asked.topic, asked.partition))?;
        // A broker that does not say where its log begins is an older one, or has another topic of this name.
        let Answer { log_start, ages } = answer?;
        Some(Ends { start: log_start, end, ages })
    });
    each.collect()
}
