//! Metrics that are read when they are asked for: of partitions, of groups, of the broker as a whole. One row each: what it
//! is called, what it means, and how it is read. Between two scrapes they cost nothing.

use taffrail_core::metric::Dialect::{Kafka, KafkaExporter, KafkaLagExporter, Taffrail};
use taffrail_core::metric::Metric;
use taffrail_protocol::unread::Age;

use super::scrape::{Scrape, Shown};
use crate::lag::{GroupLag, PartitionLag};
use crate::replica::Partition;

/// A number of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value {
    Count(i64),
    /// Milliseconds, which are printed as seconds.
    Millis(i64),
}

/// How the values of a metric are read. `None` = there is no such series.
#[derive(Clone, Copy)]
pub(super) enum Reading {
    /// Of each replica that is kept here.
    Replica(fn(&Partition) -> i64),
    /// Of each partition that is led here, so that sums over brokers count it once.
    Led(fn(&Partition) -> Option<i64>),
    /// Of each topic whose first partition is led here.
    Topic(fn(&Scrape, &Partition) -> i64),
    /// Of each partition of each group that is coordinated here.
    GroupPartition(fn(&PartitionLag) -> Option<Value>),
    /// Of each topic of each such group.
    GroupTopic(fn(&[PartitionLag]) -> i64),
    /// Of each topic of such a group of which it has not committed everything.
    Uncommitted,
    /// Of each such group.
    Group(fn(&GroupLag) -> Option<Value>),
    /// Of each topic of such a group whose oldest unread record retention may delete.
    DeletionMargin,
    /// Of each such group, with why members went as a label.
    Removed,
    /// Of each such group, with its state as a label.
    GroupState,
    /// Of this broker; with what the labels say, if it has some.
    Broker(fn(&Scrape) -> Option<Value>),
    /// Of each side of replication that is throttled.
    Throttle,
    /// Of this broker, with its number and address.
    Info,
}

/// One metric and how it is read.
pub(super) struct Family {
    pub(super) metric: Metric,
    pub(super) reading: Reading,
}

const PARTITION: &[&str] = &["topic", "partition"];
const CLUSTER_PARTITION: &[&str] = &["cluster_name", "topic", "partition"];
const CONSUMERGROUP_PARTITION: &[&str] = &["consumergroup", "topic", "partition"];
const CONSUMERGROUP_TOPIC: &[&str] = &["consumergroup", "topic"];
const GROUP_PARTITION: &[&str] = &["group", "topic", "partition"];
const CLUSTER_GROUP_PARTITION: &[&str] = &["cluster_name", "group", "topic", "partition"];
const CLUSTER_GROUP: &[&str] = &["cluster_name", "group"];

macro_rules! families {
    ($($dialect:ident $name:literal $labels:expr, $help:literal, $reading:ident $(($read:expr))?;)*) => {
        &[$(Family {
            metric: Metric::named($dialect, $name, $labels, $help),
            reading: Reading::$reading $(($read))?,
        }),*]
    };
}

/// In the order of their names, as they are printed.
pub(super) const FAMILIES: &[Family] = families! {
    KafkaExporter "kafka_broker_info" &["id", "address"], "1; a broker and where clients find it.", Info;
    KafkaExporter "kafka_brokers" &[], "Brokers that serve; told by one of them.",
        Broker(|it| it.speaks_for_all().then(|| Value::Count(it.active_brokers())));
    Kafka "kafka_cluster_partition_atminisr" PARTITION, "1 = a led partition has no replica in sync to spare.",
        Led(|it| Some(i64::from(it.in_sync_against_minimum().is_eq())));
    Kafka "kafka_cluster_partition_insyncreplicascount" PARTITION, "Replicas in sync of a led partition.",
        Led(|it| Some(count(it.state().isr.len())));
    Kafka "kafka_cluster_partition_laststableoffsetlag" PARTITION,
        "Records of a led partition between the last stable offset and the high watermark.",
        Led(|it| Some(it.offsets().high_watermark - it.offsets().last_stable));
    Kafka "kafka_cluster_partition_replicascount" PARTITION, "Replicas of a led partition.",
        Led(|it| Some(count(it.state().replicas.len())));
    Kafka "kafka_cluster_partition_underminisr" PARTITION, "1 = a led partition has too few replicas in sync.",
        Led(|it| Some(i64::from(it.in_sync_against_minimum().is_lt())));
    Kafka "kafka_cluster_partition_underreplicated" PARTITION, "1 = a led partition has replicas out of sync.",
        Led(|it| Some(i64::from(it.state().is_under_replicated())));
    KafkaExporter "kafka_consumergroup_current_offset" CONSUMERGROUP_PARTITION,
        "Offset of the next record that a group reads, as it committed it.", GroupPartition(|it| Some(Value::Count(it.committed)));
    KafkaExporter "kafka_consumergroup_current_offset_sum" CONSUMERGROUP_TOPIC,
        "Sum of the offsets that a group committed, over the partitions of a topic.",
        GroupTopic(|topic| topic.iter().map(|it| it.committed).sum());
    KafkaLagExporter "kafka_consumergroup_group_lag" CLUSTER_GROUP_PARTITION,
        "Records that a group can still read; those that were deleted do not count.", GroupPartition(|it| Some(Value::Count(it.records)));
    KafkaLagExporter "kafka_consumergroup_group_lag_seconds" CLUSTER_GROUP_PARTITION,
        "Age of the oldest record that a group can still read.", GroupPartition(age);
    KafkaLagExporter "kafka_consumergroup_group_max_lag" CLUSTER_GROUP,
        "Records that a group can still read of the partition of which it can read most.",
        Group(|group| group.partitions.iter().map(|it| it.records).max().map(Value::Count));
    KafkaLagExporter "kafka_consumergroup_group_max_lag_seconds" CLUSTER_GROUP,
        "Age of the oldest record that a group can still read of any partition.", Group(|group| oldest(&group.partitions));
    KafkaLagExporter "kafka_consumergroup_group_offset" CLUSTER_GROUP_PARTITION,
        "Offset of the next record that a group reads, as it committed it.", GroupPartition(|it| Some(Value::Count(it.committed)));
    KafkaLagExporter "kafka_consumergroup_group_sum_lag" CLUSTER_GROUP, "Records that a group can still read.",
        Group(|group| Some(Value::Count(records(&group.partitions))));
    KafkaLagExporter "kafka_consumergroup_group_topic_sum_lag" &["cluster_name", "group", "topic"],
        "Records of a topic that a group can still read.", GroupTopic(records);
    KafkaExporter "kafka_consumergroup_lag" CONSUMERGROUP_PARTITION,
        "Records that a group can still read; those that were deleted do not count.", GroupPartition(|it| Some(Value::Count(it.records)));
    KafkaExporter "kafka_consumergroup_lag_sum" CONSUMERGROUP_TOPIC, "Records of a topic that a group can still read.",
        GroupTopic(records);
    KafkaExporter "kafka_consumergroup_members" &["consumergroup"], "Members of a group.",
        Group(|group| Some(Value::Count(count(group.members))));
    KafkaLagExporter "kafka_consumergroup_poll_time_ms" &["cluster_name"],
        "Milliseconds that the coordinator took to read the lag of its groups.",
        Broker(|it| Some(Value::Count(i64::try_from(it.lags().took.as_millis()).unwrap_or(i64::MAX))));
    Kafka "kafka_log_log_logendoffset" PARTITION, "Offset of the next record of a replica.", Replica(|it| it.log().end_offset());
    Kafka "kafka_log_log_logstartoffset" PARTITION, "First offset that can be read of a replica.",
        Replica(|it| it.log().log_start_offset());
    Kafka "kafka_log_log_numlogsegments" PARTITION, "Segments of a replica.", Replica(|it| count(it.log().segment_count()));
    Kafka "kafka_log_log_size" PARTITION, "Bytes of a replica's segments.", Replica(|it| saturated(it.log().size_bytes()));
    Kafka "kafka_log_logmanager_offlinelogdirectorycount" &[], "Data directories that take no writes any more.",
        Broker(|it| Some(Value::Count(it.offline_directories())));
    KafkaLagExporter "kafka_partition_earliest_offset" CLUSTER_PARTITION, "First offset that can be read of a led partition.",
        Led(|it| Some(it.offsets().log_start));
    KafkaLagExporter "kafka_partition_latest_offset" CLUSTER_PARTITION, "Up to where consumers can read a led partition.",
        Led(|it| Some(it.offsets().high_watermark));
    Kafka "kafka_server_kafkaserver_brokerstate" &[], "State of the broker: 1 = not in the cluster yet, 3 = it serves, 6 = it leaves.",
        Broker(|it| Some(Value::Count(it.broker_state())));
    Kafka "kafka_server_replicamanager_reassigningpartitions" &[], "Led partitions whose replicas are being changed.",
        Broker(|it| Some(Value::Count(it.reassigning())));
    KafkaExporter "kafka_topic_partition_current_offset" PARTITION, "Up to where consumers can read a led partition.",
        Led(|it| Some(it.offsets().high_watermark));
    KafkaExporter "kafka_topic_partition_in_sync_replica" PARTITION, "Replicas in sync of a led partition.",
        Led(|it| Some(count(it.state().isr.len())));
    KafkaExporter "kafka_topic_partition_leader" PARTITION, "Number of the broker that leads a partition.",
        Led(|it| Some(i64::from(it.state().leader.0)));
    KafkaExporter "kafka_topic_partition_leader_is_preferred" PARTITION, "1 = a partition is led by the first of its replicas.",
        Led(|it| Some(i64::from(it.state().replicas.first() == Some(&it.state().leader))));
    KafkaExporter "kafka_topic_partition_oldest_offset" PARTITION, "First offset that can be read of a led partition.",
        Led(|it| Some(it.offsets().log_start));
    KafkaExporter "kafka_topic_partition_replicas" PARTITION, "Replicas of a led partition.",
        Led(|it| Some(count(it.state().replicas.len())));
    KafkaExporter "kafka_topic_partition_under_replicated_partition" PARTITION, "1 = a led partition has replicas out of sync.",
        Led(|it| Some(i64::from(it.state().is_under_replicated())));
    KafkaExporter "kafka_topic_partitions" &["topic"], "Partitions of a topic; told by the leader of its first one.",
        Topic(|scrape, first| scrape.partitions_of(first));
    Taffrail "taffrail_consumer_group_commit_age_seconds" GROUP_PARTITION, "Time since a group committed an offset.",
        GroupPartition(|it| Some(Value::Millis(it.committed_ago_ms)));
    Taffrail "taffrail_consumer_group_deletion_margin_seconds" &["group", "topic"],
        "Time until retention.ms may delete the oldest record that a group has not read; without a series it deletes none.",
        DeletionMargin;
    Taffrail "taffrail_consumer_group_lag_from_timestamps" GROUP_PARTITION,
        "1 = lag in seconds is from the timestamps of producers, as the append was before the leader started; 0 = it is from the append.",
        GroupPartition(|it| Some(Value::Count(i64::from(matches!(it.age, Age::Stamped(_))))));
    Taffrail "taffrail_consumer_group_rebalances_total" &["group"],
        "Generations of a group that began, since its coordinator loaded it.", Group(|group| Some(Value::Count(saturated(group.stats.rebalances))));
    Taffrail "taffrail_consumer_group_rebalancing_seconds_total" &["group"],
        "Time that members of a group waited for each other until a generation began.",
        Group(|group| Some(Value::Millis(saturated(group.stats.rebalancing_ms))));
    Taffrail "taffrail_consumer_group_removed_members_total" &["group", "reason"],
        "Members that went: session_expired, missed_join, missed_sync, or left by themselves.", Removed;
    Taffrail "taffrail_consumer_group_state" &["group", "state"], "1; the state of a group.", GroupState;
    Taffrail "taffrail_consumer_group_uncommitted_partitions" &["group", "topic"],
        "Partitions that a group reads of which it has committed nothing, so that their lag is not known.", Uncommitted;
    Taffrail "taffrail_consumer_group_unknown_partitions" &["group"],
        "Partitions whose leader did not tell where they end, so that their lag is not known.",
        Group(|group| Some(Value::Count(count(group.unknown))));
    Taffrail "taffrail_consumer_group_unread_deleted_records" GROUP_PARTITION,
        "Records that were deleted before a group read them.", GroupPartition(|it| Some(Value::Count(it.deleted)));
    Taffrail "taffrail_consumer_groups" &[], "Groups that this broker coordinates.",
        Broker(|it| Some(Value::Count(count(it.lags().groups.len()))));
    Taffrail "taffrail_consumer_groups_lag_max_records" &[], "Lag of the group with the largest one, of those that this broker coordinates.",
        Broker(|it| Some(Value::Count(it.lags().groups.iter().map(|group| records(&group.partitions)).max().unwrap_or(0))));
    Taffrail "taffrail_consumer_groups_lag_max_seconds" &[], "The same by the age of the oldest record that was not read.",
        Broker(|it| it.lags().groups.iter().filter_map(|group| oldest(&group.partitions)).max_by_key(millis).or(Some(Value::Millis(0))));
    Taffrail "taffrail_metrics_groups_omitted" &[], "Groups without series for their partitions, because there are too many.",
        Broker(|it| Some(Value::Count(it.omitted(Shown::Groups))));
    Taffrail "taffrail_metrics_partitions_omitted" &[], "Partitions without series of their own, because there are too many.",
        Broker(|it| Some(Value::Count(it.omitted(Shown::Partitions))));
    Taffrail "taffrail_partition_isr_margin" PARTITION,
        "Replicas in sync of a led partition beyond its minimum; below 0 it takes no acks=all writes.", Led(|it| Some(it.in_sync_margin()));
    Taffrail "taffrail_partition_under_replicated_seconds" PARTITION,
        "How long a led partition has had replicas out of sync; without a series it has none.", Led(Partition::under_replicated_seconds);
    Taffrail "taffrail_replication_throttle_rate_bytes" &["side"],
        "Bytes a second that replicas out of sync are held back to, as leader or follower; without a series they are not.", Throttle;
    Taffrail "taffrail_rolling_restart_in_progress" &[],
        "1 = somebody has leave to take brokers down, or a broker is leaving in order.",
        Broker(|it| Some(Value::Count(i64::from(it.is_roll_under_way()))));
};

fn count(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn saturated(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn records(partitions: &[PartitionLag]) -> i64 {
    partitions.iter().map(|it| it.records).sum()
}

fn age(partition: &PartitionLag) -> Option<Value> {
    match partition.age {
        Age::Unknown => None,
        Age::Appended(ms) | Age::Stamped(ms) => Some(Value::Millis(ms)),
    }
}

fn oldest(partitions: &[PartitionLag]) -> Option<Value> {
    partitions.iter().filter_map(age).max_by_key(millis)
}

fn millis(value: &Value) -> i64 {
    match value {
        Value::Count(value) | Value::Millis(value) => *value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_in_the_order_of_their_names_and_stand_once() {
        assert!(FAMILIES.is_sorted_by(|one, next| one.metric.name < next.metric.name));
    }
}
