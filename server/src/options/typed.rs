//! The settings of a process, typed.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use taffrail_broker::ScrapeOptions;
use taffrail_core::config::{self, BrokerLayers, Overrides, Scope};

use super::{Given, OptionsError, Source};
use crate::http::set_scrape_option;

/// How to log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    Auto,
    /// Lines for people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Where metrics and health are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MetricsAddress {
    /// Nowhere.
    Off,
    /// At this address.
    At(SocketAddr),
}

/// Where the console is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConsoleAddress {
    /// Nowhere.
    Off,
    /// Where the command thinks best.
    Auto,
    /// At this address.
    At(SocketAddr),
}

/// Settings of what metrics show, and the parameters of a scrape that override them.
const SCRAPE: [(&str, &str); 5] = [
    ("metrics_granularity", "granularity"),
    ("metrics_groups", "groups"),
    ("metrics_names", "names"),
    ("metrics_series_max", "series_max"),
    ("metrics_topics", "topics"),
];

/// The settings of a process, typed.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Host and port that clients are told, if not those of `listen`.
    pub(crate) advertise: Option<(String, u16)>,
    /// File with the secret that all processes of the cluster share.
    pub(crate) cluster_secret_file: Option<PathBuf>,
    /// Where the console is.
    pub(crate) console: ConsoleAddress,
    /// Names under which browsers reach it.
    pub(crate) console_hosts: Vec<String>,
    /// Everything that outlives the process.
    pub(crate) data_dir: PathBuf,
    /// Whether it does not outlive it after all.
    pub(crate) ephemeral: bool,
    /// Where Kafka clients connect.
    pub(crate) listen: SocketAddr,
    /// Where metrics and health are.
    pub(crate) metrics: MetricsAddress,
    /// How much metrics show to who asks for nothing else.
    pub(crate) scrape: ScrapeOptions,
    /// What is logged, if somebody said so.
    pub(crate) log_filter: Option<String>,
    /// How it is logged.
    pub(crate) log_format: LogFormat,
    /// Threads that serve connections and partitions.
    pub(crate) shards: Option<usize>,
    /// How long handing over what a broker leads may take.
    pub(crate) leave_timeout: Duration,
    /// How long a clean stop may take.
    pub(crate) stop_timeout: Duration,
    /// Settings under Kafka's broker names.
    pub(crate) broker: Overrides,
}

impl Options {
    /// Reads what was given.
    pub(crate) fn resolve(given: &Given) -> Result<Self, OptionsError> {
        let text = |name: &'static str| {
            let setting = config::find(Scope::Process, name);
            setting.and_then(|setting| given.value(setting)).unwrap_or_default().to_owned()
        };
        let number = |name: &'static str| text(name).parse::<u64>().ok();
        let refused = |name: &'static str, needed: &str| {
            OptionsError::Conflict(format!("{}: {name} is '{}', and {needed}", given.source(name), text(name)))
        };
        let broker = given.broker();
        let layers = BrokerLayers { static_broker: broker.clone(), ..BrokerLayers::default() };
        config::validate_broker(&layers).map_err(|error| OptionsError::Conflict(error.to_string()))?;
        let metrics = match text("metrics").as_str() {
            "off" => MetricsAddress::Off,
            address => MetricsAddress::At(resolve_address(address).map_err(|error| refused("metrics", &error))?),
        };
        let mut scrape = ScrapeOptions::default();
        for (name, parameter) in SCRAPE {
            let value = text(name);
            if !value.is_empty() {
                set_scrape_option(&mut scrape, parameter, &value).map_err(|error| refused(name, &error))?;
            }
        }
        let console = match text("console").as_str() {
            "off" => ConsoleAddress::Off,
            "auto" => ConsoleAddress::Auto,
            address => ConsoleAddress::At(resolve_address(address).map_err(|error| refused("console", &error))?),
        };
        let console_hosts = text("console_hosts");
        let console_hosts = console_hosts.split(',').map(str::trim).filter(|name| !name.is_empty());
        let advertise = match text("advertise") {
            address if address.is_empty() => None,
            address => Some(
                host_and_port(&address)
                    .ok_or_else(|| refused("advertise", "host:port is needed, such as kafka.example:9092"))?,
            ),
        };
        Ok(Self {
            advertise,
            cluster_secret_file: Some(text("cluster_secret_file")).filter(|path| !path.is_empty()).map(PathBuf::from),
            console,
            console_hosts: console_hosts.map(str::to_owned).collect(),
            data_dir: PathBuf::from(text("data_dir")),
            ephemeral: text("ephemeral").eq_ignore_ascii_case("true"),
            listen: resolve_address(&text("listen")).map_err(|error| refused("listen", &error))?,
            metrics,
            scrape,
            log_filter: (given.source("log_filter") > Source::Default).then(|| text("log_filter")),
            log_format: match text("log_format").as_str() {
                "text" => LogFormat::Text,
                "json" => LogFormat::Json,
                _ => LogFormat::Auto,
            },
            shards: number("shards").and_then(|shards| usize::try_from(shards).ok()),
            leave_timeout: Duration::from_millis(number("leave_timeout_ms").unwrap_or(5_000)),
            stop_timeout: Duration::from_millis(number("stop_timeout_ms").unwrap_or(10_000)),
            broker,
        })
    }

    /// The same for the `nth` broker of the process: its port is as many further, where one is given; `None` if there is no
    /// such port.
    pub(crate) fn advertised_nth(&self, bound: SocketAddr, nth: u16) -> Option<(String, u16)> {
        let (host, port) = self.advertised(bound);
        let is_given = self.advertise.as_ref().is_some_and(|(_, port)| *port != 0);
        Some((host, if is_given { port.checked_add(nth)? } else { port }))
    }

    /// Host and port that clients are told, when the listener has `bound`.
    pub(crate) fn advertised(&self, bound: SocketAddr) -> (String, u16) {
        match &self.advertise {
            Some((host, port)) => (host.clone(), if *port == 0 { bound.port() } else { *port }),
            None if bound.ip().is_unspecified() => ("localhost".to_owned(), bound.port()),
            None => (bound.ip().to_string(), bound.port()),
        }
    }
}

fn host_and_port(address: &str) -> Option<(String, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    Some((host.trim_matches(['[', ']']).to_owned(), port.parse().ok()?)).filter(|(host, _)| !host.is_empty())
}

/// The address that `text` names: a number and port, or a name that resolves to one; IPv4 first.
fn resolve_address(text: &str) -> Result<SocketAddr, String> {
    let text = if text.starts_with(':') { format!("0.0.0.0{text}") } else { text.to_owned() };
    let mut found: Vec<SocketAddr> = text
        .to_socket_addrs()
        .map_err(|error| format!("host:port is needed, such as 127.0.0.1:9092 ({error})"))?
        .collect();
    found.sort_by_key(SocketAddr::is_ipv6);
    found.first().copied().ok_or_else(|| "that resolves to no address".to_owned())
}

#[cfg(test)]
mod tests {
    use taffrail_broker::Granularity;

    use super::*;
    use crate::options::Sources;

    fn resolve(flags: &[(&str, &str)]) -> Result<Options, OptionsError> {
        let flags = flags.iter().map(|(name, value)| (format!("--{name}"), (*name).to_owned(), (*value).to_owned()));
        Options::resolve(&Given::collect(&Sources { flags: flags.collect(), ..Sources::default() })?)
    }

    #[test]
    fn defaults_serve_on_loopback_only() {
        let options = resolve(&[]).unwrap();
        assert!(options.listen.ip().is_loopback());
        assert_eq!(options.metrics, MetricsAddress::At("127.0.0.1:9404".parse().unwrap()));
        assert_eq!(options.console, ConsoleAddress::Auto);
        assert_eq!(options.advertised(options.listen), ("127.0.0.1".to_owned(), 9092));
    }

    #[test]
    fn the_console_is_where_it_is_said_to_be() {
        let options = |flags: &[(&str, &str)]| resolve(flags).unwrap();
        assert_eq!(options(&[("console", "off")]).console, ConsoleAddress::Off);
        let at = ConsoleAddress::At("127.0.0.1:9000".parse().unwrap());
        assert_eq!(options(&[("console", "127.0.0.1:9000")]).console, at);
        assert_eq!(options(&[("console_hosts", "a.example, b")]).console_hosts, ["a.example", "b"]);
    }

    #[test]
    fn settings_say_what_metrics_show_to_who_asks_for_nothing_else() {
        let scrape = |flags: &[(&str, &str)]| resolve(flags).unwrap().scrape;
        let (told, ours) = (scrape(&[]), ScrapeOptions::default());
        assert_eq!((told.granularity, told.series_max), (ours.granularity, ours.series_max), "the same default");
        assert_eq!(told.dialects, ours.dialects);
        let flags = [
            ("metrics_granularity", "topic"),
            ("metrics_series_max", "7"),
            ("metrics_topics", "orders.*"),
            ("metrics_groups", "billing"),
            ("metrics_names", "kafka, taffrail"),
        ];
        let told = scrape(&flags);
        assert_eq!((told.granularity, told.series_max, told.dialects.len()), (Granularity::Topic, 7, 2));
        assert!(told.shows_topic("orders-2") && !told.shows_topic("other"));
        assert!(told.shows_group("billing") && !told.shows_group("billing-2"));
    }

    #[test]
    fn clients_are_told_what_they_can_reach() {
        let told = |flags: &[(&str, &str)]| {
            let options = resolve(flags).unwrap();
            options.advertised(options.listen)
        };
        assert_eq!(told(&[("listen", "0.0.0.0:9000")]), ("localhost".to_owned(), 9000));
        assert_eq!(
            told(&[("listen", ":9000"), ("advertise", "kafka.example:9999")]),
            ("kafka.example".to_owned(), 9999)
        );
        assert_eq!(told(&[("listen", "[::1]:9000"), ("advertise", "[::1]:0")]), ("::1".to_owned(), 9000));
        let third = |flags: &[(&str, &str)]| {
            let options = resolve(flags).unwrap();
            options.advertised_nth("127.0.0.1:9094".parse().unwrap(), 2).map(|(_, port)| port)
        };
        assert_eq!(third(&[]), Some(9094));
        assert_eq!(third(&[("advertise", "kafka.example:9999")]), Some(10001));
        assert_eq!(third(&[("advertise", "kafka.example:65534")]), None);
    }

    #[test]
    fn wrong_values_are_refused_with_who_gave_them() {
        let cases: [(&[(&str, &str)], &str); 9] = [
            (&[("metrics_topics", "(")], "--metrics_topics: metrics_topics is '(', and topics: regex parse error"),
            (
                &[("metrics_granularity", "fine")],
                "--metrics_granularity: Invalid value fine for configuration metrics_granularity",
            ),
            (&[("console", "on")], "--console: console is 'on', and host:port is needed"),
            (&[("listen", "nine")], "--listen: listen is 'nine', and host:port is needed, such as 127.0.0.1:9092"),
            (&[("advertise", "host")], "--advertise: advertise is 'host', and host:port is needed"),
            (&[("shards", "0")], "--shards: Invalid value 0 for configuration shards: Value must be at least 1"),
            (
                &[("num.partition", "3")],
                "--num.partition: Unknown broker config name: num.partition (did you mean num.partitions?)",
            ),
            (&[("log.retention.ms", "0")], "log.retention.ms must be unlimited"),
            (&[("log.dirs", "/d")], "--log.dirs: log.dirs is not set here: write data_dir"),
        ];
        for (flags, expected) in cases {
            let error = resolve(flags).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
