//! What is counted all the time: the name, labels and meaning of every metric that stands in a broker's registry. Those that
//! are read at each scrape have their rows in [`super::families`]; [`table`] gives both.

use std::sync::OnceLock;

use prometheus::Opts;
use taffrail_core::metric::Dialect::{Kafka, Process, Taffrail};
use taffrail_core::metric::Metric;

use super::scrape::Scrape;

macro_rules! metrics {
    ($($constant:ident = $kind:ident $dialect:ident $name:literal $labels:expr, $help:literal;)*) => {
        $(pub(super) const $constant: Metric = Metric::$kind($dialect, $name, $labels, $help);)*
        /// All of them.
        const REGISTERED: &[Metric] = &[$($constant),*];
    };
}

const TOPIC: &[&str] = &["topic"];
const CLIENT: &[&str] = &["clientId"];
const REQUEST: &[&str] = &["request"];
const QUANTILE: &[&str] = &["request", "quantile"];

metrics! {
    BYTES_IN = counter Kafka "kafka_server_brokertopicmetrics_bytesin_total" TOPIC, "Bytes that clients produced.";
    BYTES_OUT = counter Kafka "kafka_server_brokertopicmetrics_bytesout_total" TOPIC, "Bytes that clients fetched.";
    MESSAGES_IN = counter Kafka "kafka_server_brokertopicmetrics_messagesin_total" TOPIC, "Records that clients produced.";
    PRODUCE_REQUESTS = counter Kafka "kafka_server_brokertopicmetrics_totalproducerequests_total" TOPIC,
        "Produce requests by partition.";
    FAILED_PRODUCE_REQUESTS = counter Kafka "kafka_server_brokertopicmetrics_failedproducerequests_total" TOPIC,
        "Failed produce requests by partition.";
    FETCH_REQUESTS = counter Kafka "kafka_server_brokertopicmetrics_totalfetchrequests_total" TOPIC,
        "Fetch requests by partition.";
    FAILED_FETCH_REQUESTS = counter Kafka "kafka_server_brokertopicmetrics_failedfetchrequests_total" TOPIC,
        "Failed fetch requests by partition.";
    REPLICATION_BYTES_IN = counter Kafka "kafka_server_brokertopicmetrics_replicationbytesin_total" &[],
        "Bytes that followers here got from leaders.";
    REPLICATION_BYTES_OUT = counter Kafka "kafka_server_brokertopicmetrics_replicationbytesout_total" &[],
        "Bytes that followers elsewhere got from here.";
    REASSIGNMENT_BYTES_IN = counter Kafka "kafka_server_brokertopicmetrics_reassignmentbytesin_total" &[],
        "Bytes that replicas here got from leaders while they were being added.";
    REASSIGNMENT_BYTES_OUT = counter Kafka "kafka_server_brokertopicmetrics_reassignmentbytesout_total" &[],
        "Bytes that replicas elsewhere got from here while they were being added.";
    CONNECTIONS = gauge Kafka "kafka_server_socket_server_metrics_connection_count" &["listener"], "Open connections.";
    LEADER_COUNT = gauge Kafka "kafka_server_replicamanager_leadercount" &[], "Partitions that this broker leads.";
    PARTITION_COUNT = gauge Kafka "kafka_server_replicamanager_partitioncount" &[],
        "Partitions that this broker keeps a replica of.";
    OFFLINE_REPLICAS = gauge Kafka "kafka_server_replicamanager_offlinereplicacount" &[], "Replicas that cannot serve.";
    UNDER_REPLICATED = gauge Kafka "kafka_server_replicamanager_underreplicatedpartitions" &[],
        "Led partitions with replicas out of sync.";
    UNDER_MIN_ISR = gauge Kafka "kafka_server_replicamanager_underminisrpartitioncount" &[],
        "Led partitions below their minimum of replicas.";
    AT_MIN_ISR = gauge Kafka "kafka_server_replicamanager_atminisrpartitioncount" &[],
        "Led partitions at their minimum of replicas.";
    ISR_SHRINKS = counter Kafka "kafka_server_replicamanager_isrshrinks_total" &[], "How often a replica fell out of sync.";
    ISR_EXPANDS = counter Kafka "kafka_server_replicamanager_isrexpands_total" &[],
        "How often a replica came back in sync.";
    FOLLOWER_MAX_LAG = gauge Kafka "kafka_server_replicafetchermanager_maxlag" CLIENT,
        "Committed records that the follower furthest behind has not got.";
    FAILED_PARTITIONS = gauge Kafka "kafka_server_replicafetchermanager_failedpartitionscount" CLIENT,
        "Partitions that are not fetched because their log here refuses.";
    DEAD_FETCHERS = gauge Kafka "kafka_server_replicafetchermanager_deadthreadcount" CLIENT,
        "Fetchers that ended, which none does while the broker runs.";
    FOLLOWER_LAG = gauge Kafka "kafka_server_fetcherlagmetrics_consumerlag" &["clientId", "topic", "partition"],
        "Committed records that a follower has not got; partitions without a series lack none.";
    DAMAGED_ANSWERS = counter Taffrail "taffrail_replica_damaged_answers_total" &[],
        "Answers of leaders with records that were damaged or out of place.";
    TRUNCATIONS = counter Taffrail "taffrail_replica_truncations_total" &[], "Logs of followers whose end was cut.";
    LOST_RECORDS = counter Taffrail "taffrail_replica_committed_records_lost_total" &[],
        "Committed records that replicas here have lost, by what is known of high watermarks.";
    LOST_FROM = gauge Taffrail "taffrail_partition_lost_from_offset" &["topic", "partition"],
        "Offset from which on committed records were lost last, in partitions where that happened.";
    LOST_TO = gauge Taffrail "taffrail_partition_lost_to_offset" &["topic", "partition"],
        "First offset after those that are known to have been committed and lost; more may have been.";
    REQUESTS = counter Kafka "kafka_network_requestmetrics_requests_total" REQUEST,
        "Requests that were answered; Fetch is FetchConsumer and FetchFollower together.";
    QUEUE_MS = gauge Kafka "kafka_network_requestmetrics_requestqueuetimems" QUANTILE,
        "Milliseconds that requests of the last minutes stood behind earlier ones of their connection.";
    QUEUE_COUNT = counter Kafka "kafka_network_requestmetrics_requestqueuetimems_count" REQUEST, "Requests behind these times.";
    LOCAL_MS = gauge Kafka "kafka_network_requestmetrics_localtimems" QUANTILE,
        "Milliseconds that requests of the last minutes were worked on until they were done or waited for something.";
    LOCAL_COUNT = counter Kafka "kafka_network_requestmetrics_localtimems_count" REQUEST, "Requests behind these times.";
    REMOTE_MS = gauge Kafka "kafka_network_requestmetrics_remotetimems" QUANTILE,
        "Milliseconds that requests of the last minutes waited: for followers, the disk, records, a group, controllers.";
    REMOTE_COUNT = counter Kafka "kafka_network_requestmetrics_remotetimems_count" REQUEST, "Requests behind these times.";
    RESPONSE_QUEUE_MS = gauge Kafka "kafka_network_requestmetrics_responsequeuetimems" QUANTILE,
        "Milliseconds that answers of the last minutes stood behind earlier ones of their connection.";
    RESPONSE_QUEUE_COUNT = counter Kafka "kafka_network_requestmetrics_responsequeuetimems_count" REQUEST,
        "Requests behind these times.";
    RESPONSE_SEND_MS = gauge Kafka "kafka_network_requestmetrics_responsesendtimems" QUANTILE,
        "Milliseconds that answers of the last minutes took to be sent.";
    RESPONSE_SEND_COUNT = counter Kafka "kafka_network_requestmetrics_responsesendtimems_count" REQUEST,
        "Requests behind these times.";
    TOTAL_MS = gauge Kafka "kafka_network_requestmetrics_totaltimems" QUANTILE,
        "Milliseconds from the arrival of requests of the last minutes until their answers were sent.";
    TOTAL_COUNT = counter Kafka "kafka_network_requestmetrics_totaltimems_count" REQUEST, "Requests behind these times.";
    REQUEST_SECONDS = histogram Taffrail "taffrail_request_duration_seconds" REQUEST,
        "Time from a request's arrival until its answer was sent.";
    STAGE_SECONDS = histogram Taffrail "taffrail_request_stage_duration_seconds" &["request", "stage"],
        "The same by stage: queue, local, remote (it waits for others), response_queue, response_send.";
    OPEN_FILES = gauge Process "process_open_fds" &[], "Files and sockets that the process has open.";
    OPEN_FILES_MAX = gauge Process "process_max_fds" &[], "Files and sockets that the process may have open.";
    TOTAL_BYTES = gauge Taffrail "taffrail_log_dir_total_bytes" &[], "Size of the data directory's volume.";
    AVAILABLE_BYTES = gauge Taffrail "taffrail_log_dir_available_bytes" &[], "Free bytes on the data directory's volume.";
    LOW_SPACE = gauge Taffrail "taffrail_log_dir_low_space" &[],
        "1 = the data directory's volume is nearly full; appends are refused soon.";
}

/// All metrics of a broker, in the order of their names.
pub(super) fn table() -> &'static [Metric] {
    static TABLE: OnceLock<Vec<Metric>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut all: Vec<Metric> = REGISTERED.iter().chain(Scrape::metrics()).copied().collect();
        all.sort_unstable_by_key(|metric| metric.name);
        all
    })
}

/// How a row is registered.
pub(super) fn opts(metric: &Metric) -> Opts {
    Opts::new(metric.name, metric.help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_stands_in_the_table_once() {
        assert!(table().is_sorted_by(|one, next| one.name < next.name));
    }

    #[test]
    fn our_own_names_keep_to_prometheus_rules() {
        let ours = table().iter().filter(|metric| metric.dialect == Taffrail);
        for Metric { name, kind, labels, help, .. } in ours {
            assert!(name.starts_with("taffrail_"), "{name}");
            let is_total = name.ends_with("_total");
            assert_eq!(is_total, kind.name() == "counter", "{name}: counters, and they alone, end with _total");
            assert!(!name.ends_with("_ms") && !name.ends_with("_count"), "{name}: base units, and no _count of ours");
            assert!(labels.iter().all(|label| label.chars().all(|it| it.is_ascii_lowercase() || it == '_')), "{name}");
            assert!(help.ends_with('.') && !help.contains('\\') && !help.contains('\n'), "{name}: {help}");
        }
    }
}
