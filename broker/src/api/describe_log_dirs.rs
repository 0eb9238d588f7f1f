//! DescribeLogDirs: what lies on this broker's disk.

use std::collections::BTreeMap;

use taffrail_core::collections::HashSet;
use taffrail_core::errors::ErrorCode;
use taffrail_protocol::message::describe_log_dirs_response::{
    DescribeLogDirsPartition, DescribeLogDirsResult, DescribeLogDirsTopic,
};
use taffrail_protocol::message::{DescribeLogDirsRequest, DescribeLogDirsResponse};

use super::wire;
use crate::broker::Broker;
use crate::client_info::ClientInfo;

pub(crate) async fn handle(
    broker: &Broker,
    _client: &ClientInfo,
    request: DescribeLogDirsRequest,
    _version: i16,
) -> DescribeLogDirsResponse {
    let asked: Option<HashSet<(&str, i32)>> = request.topics.as_ref().map(|topics| {
        let names = topics.iter().flat_map(|topic| topic.partitions.iter().map(|index| (&**topic.topic, *index)));
        names.collect()
    });
    let mut topics: BTreeMap<&str, Vec<DescribeLogDirsPartition>> = BTreeMap::new();
    let hosted = broker.replicas.hosted();
    for partition in hosted.partitions() {
        let name = &*partition.topic.name;
        if asked.as_ref().is_some_and(|asked| !asked.contains(&(name, partition.index))) {
            continue;
        }
        let entry = DescribeLogDirsPartition::default()
            .with_partition_index(partition.index)
            .with_partition_size(i64::try_from(partition.log().size_bytes()).unwrap_or(i64::MAX));
        topics.entry(name).or_default().push(entry);
    }
    let topic = |(name, partitions): (&str, Vec<DescribeLogDirsPartition>)| {
        DescribeLogDirsTopic::default().with_name(wire::topic_name(name)).with_partitions(partitions)
    };
    let storage = broker.replicas.storage();
    let usage = storage.usage();
    let bytes = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let result = DescribeLogDirsResult::default()
        .with_log_dir(wire::text(&storage.dir().display().to_string()))
        .with_topics(topics.into_iter().map(topic).collect());
    let result = match usage.map(|usage| usage.space) {
        Ok(space) => result.with_total_bytes(bytes(space.total)).with_usable_bytes(bytes(space.available)),
        Err(error) => {
            tracing::warn!(%error, "the data directory does not tell its size");
            result.with_error_code(ErrorCode::KafkaStorageError.code())
        }
    };
    DescribeLogDirsResponse::default().with_results(vec![result])
}
