//! The broker's standing in the cluster: registers, says that it lives, serves, leaves.

use std::future::Future;
use std::time::Duration;

use taffrail_core::control::{BrokerIdentity, Command, ControlError, RegisterBroker, Reply};
use taffrail_core::errors::ErrorCode;
use taffrail_core::ids::BrokerId;
use taffrail_protocol::rpc::Heartbeat;
use taffrail_runtime::shutdown::Shutdown;
use taffrail_runtime::time;

use crate::broker::Controller;
use crate::controller_handle::ControllerHandle;
use crate::metadata::MetadataCache;

/// Time between heartbeats while the broker has not caught up with the metadata.
const CATCHING_UP_INTERVAL: Duration = Duration::from_millis(20);

/// Time between tries to register while somebody else holds the id.
const REGISTER_INTERVAL: Duration = Duration::from_millis(500);

/// How long leaving may take before the broker goes without a word.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);

/// Why a broker cannot be part of the cluster.
#[derive(Debug, thiserror::Error)]
pub enum RegistrationError {
    /// The controllers refuse it.
    #[error("the controllers refuse broker {broker}: {error}")]
    Refused {
        /// Its number.
        broker: BrokerId,
        /// Why.
        error: ControlError,
    },
    /// The process stops.
    #[error("the broker is stopping")]
    Stopping,
}

/// A registered broker.
#[derive(Debug)]
pub struct Registration {
    request: RegisterBroker,
    identity: BrokerIdentity,
}

impl Registration {
    /// Registers this process. While another process holds the id and lives, it waits.
    ///
    /// # Errors
    /// When the controllers refuse it for good, or `shutdown` comes first.
    pub async fn register(
        controllers: &ControllerHandle,
        request: RegisterBroker,
        shutdown: &Shutdown,
    ) -> Result<Self, RegistrationError> {
        let epoch = register(controllers, &request, shutdown).await?;
        let identity = BrokerIdentity { id: request.id, epoch };
        tracing::info!(broker = %identity.id, epoch, "registered");
        Ok(Self { request, identity })
    }

    /// Epoch of the registration.
    pub fn epoch(&self) -> i64 {
        self.identity.epoch
    }

    /// Catches up with the metadata, and has the broker unfenced; returns when the broker itself sees that it is.
    ///
    /// # Errors
    /// When the registration is lost for good, or `shutdown` comes first.
    pub async fn serve(
        &mut self,
        controllers: &ControllerHandle,
        metadata: &MetadataCache,
        shutdown: &Shutdown,
    ) -> Result<(), RegistrationError> {
        or_stopping(shutdown, metadata.reached(self.identity.epoch)).await?;
        loop {
            let (fenced, offset) = self.beat(controllers, metadata, shutdown).await?;
            if !fenced {
                return or_stopping(shutdown, metadata.reached(offset)).await;
            }
            or_stopping(shutdown, time::sleep(CATCHING_UP_INTERVAL)).await?;
        }
    }

    /// Says every `interval` that the broker lives, until `shutdown`. A registration that was lost is made anew.
    ///
    /// # Errors
    /// When the controllers refuse the broker for good.
    pub async fn keep(
        &mut self,
        controllers: &ControllerHandle,
        metadata: &MetadataCache,
        interval: Duration,
        shutdown: &Shutdown,
    ) -> Result<(), RegistrationError> {
        loop {
            if or_stopping(shutdown, time::sleep(interval)).await.is_err() {
                return Ok(());
            }
            match self.beat(controllers, metadata, shutdown).await {
                Ok((true, _)) => tracing::warn!(broker = %self.identity.id, "this broker is fenced"),
                Ok((false, _)) => {}
                Err(RegistrationError::Stopping) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Hands leadership over before a planned stop.
    pub async fn leave(&self, controllers: &ControllerHandle) {
        let command = Command::FenceBroker(self.identity);
        let left = time::timeout(LEAVE_TIMEOUT, controllers.propose(command.clone())).await;
        match left {
            Ok(Ok(_)) => tracing::info!(broker = %self.identity.id, "left the cluster for now"),
            Ok(Err(error)) => tracing::warn!(broker = %self.identity.id, %error, "could not leave in order"),
            Err(_) => tracing::warn!(broker = %self.identity.id, "could not leave in order: no controller answered"),
        }
    }

    /// One heartbeat: whether the broker is fenced, and the offset from which on it sees that.
    async fn beat(
        &mut self,
        controllers: &ControllerHandle,
        metadata: &MetadataCache,
        shutdown: &Shutdown,
    ) -> Result<(bool, i64), RegistrationError> {
        let heartbeat = Heartbeat {
            broker: self.identity.id,
            epoch: self.identity.epoch,
            metadata_offset: metadata.image().offset(),
            ready: true,
        };
        match or_stopping(shutdown, controllers.heartbeat(heartbeat)).await? {
            Ok(answer) => Ok((answer.fenced, answer.metadata_offset)),
            Err(error) if matches!(error.code, ErrorCode::StaleBrokerEpoch | ErrorCode::BrokerIdNotRegistered) => {
                tracing::warn!(broker = %self.identity.id, %error, "the registration is lost; registering again");
                self.identity.epoch = register(controllers, &self.request, shutdown).await?;
                Ok((true, self.identity.epoch))
            }
            Err(error) => {
                // The handle has tried for long enough; the session may end, but the broker goes on trying.
                tracing::warn!(broker = %self.identity.id, %error, "no controller took the heartbeat");
                Ok((true, metadata.image().offset()))
            }
        }
    }
}

async fn register(
    controllers: &ControllerHandle,
    request: &RegisterBroker,
    shutdown: &Shutdown,
) -> Result<i64, RegistrationError> {
    let command = Command::RegisterBroker(request.clone());
    loop {
        let refused = |error| RegistrationError::Refused { broker: request.id, error };
        match or_stopping(shutdown, controllers.propose(command.clone())).await? {
            Ok(committed) => match committed.reply {
                Reply::BrokerRegistered { epoch } => return Ok(epoch),
                _ => return Err(refused(ControlError::plain(ErrorCode::UnknownServerError))),
            },
            Err(error) if matches!(error.code, ErrorCode::DuplicateBrokerRegistration | ErrorCode::RequestTimedOut) => {
                tracing::warn!(broker = %request.id, %error, "cannot register yet");
                or_stopping(shutdown, time::sleep(REGISTER_INTERVAL)).await?;
            }
            Err(error) => return Err(refused(error)),
        }
    }
}

/// Waits for `work`, but not past the shutdown.
async fn or_stopping<T>(shutdown: &Shutdown, work: impl Future<Output = T>) -> Result<T, RegistrationError> {
    tokio::select! {
        outcome = work => Ok(outcome),
        () = shutdown.triggered() => Err(RegistrationError::Stopping),
    }
}
