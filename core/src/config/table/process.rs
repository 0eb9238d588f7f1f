//! Our own settings of one process, from flags, environment and file.

use crate::config::setting::{Kind, Setting, Valid};

/// Rows in order of their names.
pub(super) const SETTINGS: &[Setting] = &[
    Setting::unset("advertise", Kind::Text)
        .doc("Host and port that clients are told, when they cannot reach the address of listen as it is.")
        .valid(Valid::NonEmpty)
        .process(),
    Setting::unset("cluster_secret_file", Kind::Text)
        .doc(
            "File with the secret that all processes of the cluster share: whoever does not know it is refused at the \
             controllers' port, and no follower at the brokers'. At least 16 bytes.",
        )
        .valid(Valid::NonEmpty)
        .process(),
    Setting::text("console", "auto")
        .doc(
            "Address of the console, which shows the cluster and its records to whoever reaches it; off turns it off. auto is \
             127.0.0.1:9405, or any free port if that is taken, for `taffrail up`, and off for `taffrail broker`.",
        )
        .valid(Valid::NonEmpty)
        .process(),
    Setting::list("console_hosts", "")
        .doc(
            "Names under which browsers reach the console, such as that of a proxy before it, beside localhost and addresses; * \
             is any name, and gives up the protection from DNS rebinding.",
        )
        .items(&[], true)
        .process(),
    Setting::text("data_dir", "./taffrail-data")
        .doc("Directory that holds everything that outlives the process.")
        .valid(Valid::NonEmpty)
        .process(),
    Setting::boolean("ephemeral", "false")
        .doc("Keeps everything in a temporary directory that is removed at exit.")
        .process(),
    Setting::int("leave_timeout_ms", "5000")
        .doc("How long a broker that stops may take to hand over what it leads, before it goes without; part of stop_timeout_ms.")
        .between(0, 600_000)
        .process(),
    Setting::text("listen", "127.0.0.1:9092")
        .doc("Address that Kafka clients connect to.")
        .valid(Valid::NonEmpty)
        .process(),
    Setting::text("log_filter", "info")
        .doc(
            "What is logged: a level, or directives such as info,taffrail_broker=debug. Nobody said so on a terminal: \
             warnings, and what becomes of edited files.",
        )
        .valid(Valid::NonEmpty)
        .process(),
    Setting::text("log_format", "auto")
        .doc("How it is logged: text, json, or auto for text on a terminal and JSON elsewhere.")
        .one_of(&["auto", "text", "json"])
        .process(),
    Setting::text("metrics", "127.0.0.1:9404")
        .doc("Address of /metrics, /healthz and /readyz; off turns it off.")
        .valid(Valid::NonEmpty)
        .process(),
    Setting::text("metrics_granularity", "auto")
        .doc(
            "How finely /metrics is cut: partition (everything), topic or group (sums), or auto, which is everything as long as that is not more than metrics_series_max. A scrape may ask for another one.",
        )
        .one_of(&["auto", "partition", "topic", "group"])
        .process(),
    Setting::unset("metrics_groups", Kind::Text)
        .doc("Groups that /metrics shows: a regular expression for whole names; unset is all.")
        .valid(Valid::NonEmpty)
        .process(),
    Setting::list("metrics_names", "kafka,kafka_exporter,kafka_lag_exporter,process,taffrail")
        .doc("Whose names /metrics uses.")
        .items(&["kafka", "kafka_exporter", "kafka_lag_exporter", "process", "taffrail"], false)
        .process(),
    Setting::int("metrics_series_max", "400000")
        .doc(
            "From how many series of partitions and groups on metrics_granularity=auto shows only the partitions in trouble, the largest ones, and the groups that lag most.",
        )
        .between(0, 2_000_000)
        .process(),
    Setting::unset("metrics_topics", Kind::Text)
        .doc("Topics that /metrics shows: a regular expression for whole names; unset is all.")
        .valid(Valid::NonEmpty)
        .process(),
    Setting::unset("shards", Kind::Int)
        .doc("Threads that serve connections and partitions; unset is one for each processor.")
        .between(1, 256)
        .process(),
    Setting::int("stop_timeout_ms", "10000")
        .doc("How long a clean stop may take before the process ends all the same.")
        .between(100, 600_000)
        .process(),
];
