//! A connection to a broker of any release: the first thing asked on it is which versions the broker speaks, so that brokers
//! of other releases, and other products, can be asked too.

use std::collections::BTreeMap;
use std::time::Duration;

use taffrail_core::errors::ErrorCode;
use taffrail_protocol::message::{ApiVersionsRequest, Request};
use taffrail_protocol::versions::{ApiKey, VersionRange};

use super::connection::{ConnectionError, KafkaConnection};

/// The version in which every broker since Kafka 2.4 tells its versions.
const API_VERSIONS_VERSION: i16 = 3;

/// Name under which brokers know this client.
const CLIENT_ID: &str = "taffrail";

/// A connection, and the versions that the broker speaks.
pub(super) struct Connection {
    connection: KafkaConnection,
    versions: BTreeMap<ApiKey, VersionRange>,
}

impl Connection {
    /// Connects to `address` (host and port) and asks for its versions. Dialling and each answer take `timeout` at most.
    pub(super) async fn dial(address: &str, timeout: Duration) -> Result<Self, ConnectionError> {
        let mut connection = KafkaConnection::dial(address, CLIENT_ID, timeout).await?;
        let asked = ApiVersionsRequest::default()
            .with_client_software_name("taffrail".into())
            .with_client_software_version(env!("CARGO_PKG_VERSION").into());
        let answer = connection.call(API_VERSIONS_VERSION, &asked).await?;
        let error = ErrorCode::from_code(answer.error_code).unwrap_or(ErrorCode::UnknownServerError);
        if error != ErrorCode::None {
            return Err(ConnectionError::Introduction { address: address.to_owned(), error });
        }
        let versions = answer.api_keys.into_iter().filter_map(|range| {
            let key = ApiKey::from_code(range.api_key)?;
            Some((key, VersionRange { min: range.min_version, max: range.max_version }))
        });
        Ok(Self { versions: versions.collect(), connection })
    }

    /// Sends a request in the newest of `versions` that the broker knows, and waits for its answer. After an error the
    /// connection is of no use.
    pub(super) async fn call<R: Request>(
        &mut self,
        versions: VersionRange,
        message: &R,
    ) -> Result<R::Response, ConnectionError> {
        self.call_within(self.connection.timeout, versions, message).await
    }

    /// The same for a request that may take `timeout`.
    pub(super) async fn call_within<R: Request>(
        &mut self,
        timeout: Duration,
        versions: VersionRange,
        message: &R,
    ) -> Result<R::Response, ConnectionError> {
        let version = self.common(R::KEY, versions)?;
        self.connection.call_within(timeout, version, message).await
    }

    /// The newest version that both sides speak.
    fn common(&self, key: ApiKey, asked: VersionRange) -> Result<i16, ConnectionError> {
        let theirs = self.versions.get(&key);
        let newest = theirs.map(|theirs| theirs.max.min(asked.max));
        let common = newest.filter(|it| asked.contains(*it) && theirs.is_some_and(|theirs| theirs.contains(*it)));
        common.ok_or_else(|| ConnectionError::Versions { address: self.connection.address.clone(), key, asked })
    }
}
