//! Connections to brokers that are kept between questions.

use std::time::Duration;

use parking_lot::Mutex;
use taffrail_client::kafka::{KafkaClient, KafkaError};

/// How long a broker may take for an answer.
pub(super) const BROKER_TIMEOUT: Duration = Duration::from_secs(3);

/// Clients that are kept while nobody asks anything.
const KEPT_MAX: usize = 2;

/// See the module.
pub(super) struct Clients {
    bootstrap: Vec<String>,
    kept: Mutex<Vec<KafkaClient>>,
}

impl Clients {
    /// Clients that begin with the first of `bootstrap` (hosts and ports) that answers.
    pub(super) fn new(bootstrap: Vec<String>) -> Self {
        Self { bootstrap, kept: Mutex::default() }
    }

    /// A client: one that is not in use, or a new one.
    ///
    /// # Errors
    /// When no broker answers.
    pub(super) async fn take(&self) -> Result<KafkaClient, KafkaError> {
        let kept = self.kept.lock().pop();
        match kept {
            Some(client) => Ok(client),
            None => KafkaClient::connect(&self.bootstrap, BROKER_TIMEOUT).await,
        }
    }

    /// Keeps a client that is of use still: one that has failed is not given back.
    pub(super) fn give_back(&self, client: KafkaClient) {
        let mut kept = self.kept.lock();
        if kept.len() < KEPT_MAX {
            kept.push(client);
        }
    }
}
