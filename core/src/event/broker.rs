//! What the cluster knows about a broker.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ids::{BrokerId, Uuid};

/// How connections to a listener are protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SecurityProtocol {
    /// Neither encrypted nor authenticated.
    Plaintext,
    /// TLS.
    Ssl,
    /// Authenticated by SASL, not encrypted.
    SaslPlaintext,
    /// Authenticated by SASL over TLS.
    SaslSsl,
}

impl SecurityProtocol {
    /// Kafka's number of it.
    pub fn code(self) -> i16 {
        match self {
            Self::Plaintext => 0,
            Self::Ssl => 1,
            Self::SaslPlaintext => 2,
            Self::SaslSsl => 3,
        }
    }

    /// The protocol that Kafka gives `code`.
    pub fn from_code(code: i16) -> Option<Self> {
        [Self::Plaintext, Self::Ssl, Self::SaslPlaintext, Self::SaslSsl].into_iter().find(|it| it.code() == code)
    }
}

/// Where clients or other brokers reach a broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    /// Name of the listener, for instance `PLAINTEXT`; clients are told the address of the listener they came by.
    pub name: Arc<str>,
    /// Host as it is told to clients.
    pub host: Arc<str>,
    /// Port as it is told to clients.
    pub port: u16,
    /// How its connections are protected.
    pub security: SecurityProtocol,
}

/// The levels of a feature that a process can work with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeatureRange {
    /// Lowest level.
    pub min_level: i16,
    /// Highest level.
    pub max_level: i16,
}

/// One registered broker process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerRegistration {
    /// Number of the broker.
    pub id: BrokerId,
    /// Epoch of this registration: rises with every new process under this id, and fences the earlier ones.
    pub epoch: i64,
    /// Identity of the process: the same broker gets another one at each start.
    pub incarnation: Uuid,
    /// Failure domain it runs in.
    pub rack: Option<Arc<str>>,
    /// Where it is reached.
    pub listeners: Vec<Listener>,
    /// Identities of its log directories.
    pub log_dirs: Vec<Uuid>,
    /// Features it can work with.
    pub features: BTreeMap<Arc<str>, FeatureRange>,
    /// Whether it may neither lead nor join an ISR.
    pub fenced: bool,
    /// Whether it is about to stop: it serves on, but nothing new is given to it.
    pub shutting_down: bool,
    /// The `min.insync.replicas` that its process was started with, given or by default; `None` = it did not say.
    pub min_in_sync: Option<u32>,
}

/// What the operator wants a broker to be used for. Belongs to the number, not to the process: it outlives registrations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum BrokerDuty {
    /// Everything.
    #[default]
    Serving,
    /// It keeps what it has and gets no new replicas.
    Cordoned,
    /// Its replicas move to other brokers.
    Draining,
}

impl BrokerDuty {
    /// All duties.
    pub const ALL: [Self; 3] = [Self::Serving, Self::Cordoned, Self::Draining];

    /// The number that stands for it in encodings.
    pub fn code(self) -> i32 {
        match self {
            Self::Serving => 0,
            Self::Cordoned => 1,
            Self::Draining => 2,
        }
    }

    /// The duty with this number.
    pub fn from_code(code: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|duty| duty.code() == code)
    }
}
