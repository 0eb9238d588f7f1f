//! The broker's standing in the cluster: registers, says that it lives, serves, leaves.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use taffrail_core::control::{BrokerIdentity, Command, ControlError, REPORTED_PARTITIONS_MAX, RegisterBroker, Reply};
use taffrail_core::errors::ErrorCode;
use taffrail_core::ids::BrokerId;
use taffrail_protocol::rpc::{Heartbeat, HeartbeatAnswer};
use taffrail_runtime::shutdown::Shutdown;
use taffrail_runtime::time;

use crate::broker::{Broker, Controller};
use crate::controller_handle::{Attending, ControllerHandle};

/// Time between heartbeats while something is waited for: to be unfenced, or to be let go.
const WAITING_INTERVAL: Duration = Duration::from_millis(20);

/// Heartbeats that a broker which attends sends in the time of one of a broker that does not.
const PULSES: u32 = 4;

/// How long to look for the active controller, to attend there, before others are asked to pass a heartbeat on.
const ATTEND_TIMEOUT: Duration = Duration::from_secs(1);

/// Time between tries to register while somebody else holds the id.
const REGISTER_INTERVAL: Duration = Duration::from_millis(500);

/// How long a broker that has left goes on answering: others hear of it within milliseconds, and send clients here until
/// then.
const HEARD_OF_BY_OTHERS: Duration = Duration::from_millis(50);

/// How long a broker that leaves waits for one answer. An election takes less; where all controllers stop at the same time
/// as the broker, nobody is left to hand over to.
const SILENCE_MAX: Duration = Duration::from_secs(1);

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
    /// The controllers have lost what this broker knows.
    #[error(
        "the controllers' metadata have been lost: they registered broker {broker} at offset {epoch}, and it has seen them up \
         to {seen}. Its partitions are left as they are; restore the directory of a controller from a copy"
    )]
    MetadataLost {
        /// Its number.
        broker: BrokerId,
        /// Epoch of the new registration, an offset in the metadata.
        epoch: i64,
        /// Newest offset that the broker has applied.
        seen: i64,
    },
    /// The process stops.
    #[error("the broker is stopping")]
    Stopping,
}

/// A registered broker.
pub struct Registration {
    controllers: Arc<ControllerHandle>,
    broker: Arc<Broker>,
    request: RegisterBroker,
    identity: BrokerIdentity,
    /// Whether the broker knows that it is fenced, so that the log says it once.
    fenced: bool,
    /// Whether the last heartbeat had no answer. The controller does not count the next one then, but the one after it.
    unanswered: bool,
    /// When it is due to say again how far followers are behind.
    lags_due: time::Instant,
    /// Metadata offset at which it handed over what it led.
    leaving_since: Option<i64>,
}

impl Registration {
    /// Registers this process. While another process holds the id and lives, it waits.
    ///
    /// # Errors
    /// When the controllers refuse it for good, or `shutdown` comes first.
    pub async fn register(
        controllers: Arc<ControllerHandle>,
        broker: Arc<Broker>,
        request: RegisterBroker,
        shutdown: &Shutdown,
    ) -> Result<Self, RegistrationError> {
        let identity = BrokerIdentity { id: request.id, epoch: -1 };
        let lags_due = time::monotonic();
        let mut registration = Self {
            controllers,
            broker,
            request,
            identity,
            fenced: true,
            unanswered: false,
            lags_due,
            leaving_since: None,
        };
        or_stopping(shutdown, registration.renew()).await??;
        Ok(registration)
    }

    /// Epoch of the registration.
    pub fn epoch(&self) -> i64 {
        self.identity.epoch
    }

    /// Catches up with the metadata, and has the broker unfenced; returns when the broker itself sees that it is.
    ///
    /// # Errors
    /// When the registration is lost for good, or `shutdown` comes first.
    pub async fn serve(&mut self, shutdown: &Shutdown) -> Result<(), RegistrationError> {
        or_stopping(shutdown, async {
            self.broker.metadata.reached(self.identity.epoch).await;
            loop {
                match self.beat().await? {
                    Some(answer) if !answer.fenced => {
                        self.broker.metadata.reached(answer.metadata_offset).await;
                        return Ok(());
                    }
                    _ => time::sleep(WAITING_INTERVAL).await,
                }
            }
        })
        .await?
    }

    /// Says that the broker lives until `shutdown`: over a connection to the active controller several times in every
    /// `interval`, or once by whichever controller can be reached. A registration that was lost is made anew.
    ///
    /// # Errors
    /// When the controllers refuse the broker for good.
    pub async fn keep(&mut self, interval: Duration, shutdown: &Shutdown) -> Result<(), RegistrationError> {
        let keeping = async {
            loop {
                if let Some(attending) = self.attend(interval).await? {
                    self.pulse(attending, interval).await?;
                }
                // There may be no way to the active controller but through another one.
                self.controllers.turn();
                self.beat().await?;
                time::sleep(interval / PULSES).await;
            }
        };
        match or_stopping(shutdown, keeping).await {
            Ok(ended) => ended,
            Err(RegistrationError::Stopping) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Hands over what the broker leads, while it still serves, and waits until the others know; at most for `patience`,
    /// because a planned stop must come to an end. The broker is fenced then: stop serving.
    pub async fn leave(&mut self, patience: Duration) {
        match time::timeout(patience, self.hand_over()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) if error.code == ErrorCode::RequestTimedOut => {
                tracing::warn!(broker = %self.identity.id, "could not hand over in order: no controller answers");
                return;
            }
            Ok(Err(error)) => tracing::warn!(broker = %self.identity.id, %error, "could not hand over in order"),
            Err(_) => tracing::warn!(broker = %self.identity.id, "others do not know yet that this broker leaves"),
        }
        match answered(self.controllers.propose(Command::FenceBroker(self.identity))).await {
            Ok(_) => {
                tracing::info!(broker = %self.identity.id, "left the cluster for now");
                if self.broker.metadata.image().brokers().len() > 1 {
                    time::sleep(HEARD_OF_BY_OTHERS).await;
                }
            }
            Err(error) => tracing::warn!(broker = %self.identity.id, %error, "could not leave in order"),
        }
    }

    async fn hand_over(&mut self) -> Result<(), ControlError> {
        let committed = answered(self.controllers.propose(Command::BeginShutdown(self.identity))).await?;
        self.leaving_since = Some(committed.offset);
        while !answered(self.controllers.heartbeat(&self.heartbeat())).await?.may_go {
            time::sleep(WAITING_INTERVAL).await;
        }
        Ok(())
    }

    /// Opens the connection to the active controller; `None` if that cannot be reached, or has no use for it.
    async fn attend(&mut self, interval: Duration) -> Result<Option<Attending>, RegistrationError> {
        let heartbeat = self.due_heartbeat(interval);
        match time::timeout(ATTEND_TIMEOUT, self.controllers.attend(&heartbeat)).await {
            Ok(Ok((attending, answer))) => {
                self.take_note(answer);
                Ok(Some(attending))
            }
            Ok(Err(error)) => {
                self.unanswered = true;
                self.renew_if_lost(error).await.map(|()| None)
            }
            Err(_) => {
                self.unanswered = true;
                Ok(None)
            }
        }
    }

    /// Has heartbeats answered until something goes wrong.
    async fn pulse(&mut self, mut attending: Attending, interval: Duration) -> Result<(), RegistrationError> {
        let mut pause = if attending.is_uncounted { Duration::ZERO } else { interval / PULSES };
        loop {
            tokio::select! {
                () = time::sleep(std::mem::replace(&mut pause, interval / PULSES)) => {}
                // Whoever leaves waits for this.
                () = self.broker.metadata.someone_leaves(attending.told) => {}
            }
            match attending.pulse(&self.due_heartbeat(interval)).await {
                Ok(answer) => self.take_note(answer),
                Err(error) => {
                    tracing::info!(broker = %self.identity.id, %error, "the attendance at the controller ended");
                    self.unanswered = true;
                    return self.renew_if_lost(error.into_refusal()).await;
                }
            }
        }
    }

    /// One heartbeat that counts, by whichever controller can be reached; `None` = there is no answer, or the registration
    /// is new.
    async fn beat(&mut self) -> Result<Option<HeartbeatAnswer>, RegistrationError> {
        loop {
            let was_unanswered = self.unanswered;
            match self.controllers.heartbeat(&self.heartbeat()).await {
                Ok(answer) => {
                    self.take_note(answer);
                    if !was_unanswered {
                        return Ok(Some(answer));
                    }
                }
                // The handle has tried for long enough; the session may end, but the broker goes on trying.
                Err(error) => {
                    self.unanswered = true;
                    return self.renew_if_lost(error).await.map(|()| None);
                }
            }
        }
    }

    /// A heartbeat that says how far followers are behind, if it is time for that.
    fn due_heartbeat(&mut self, interval: Duration) -> Heartbeat {
        let mut heartbeat = self.heartbeat();
        let now = time::monotonic();
        if now >= self.lags_due {
            self.lags_due = now + interval;
            heartbeat.lags = self.broker.lag_report(REPORTED_PARTITIONS_MAX);
        }
        heartbeat
    }

    fn heartbeat(&self) -> Heartbeat {
        Heartbeat {
            broker: self.identity.id,
            epoch: self.identity.epoch,
            metadata_offset: self.broker.metadata.image().offset(),
            ready: self.leaving_since.is_none(),
            lags: Vec::new(),
            leaving_since: self.leaving_since,
            unanswered: self.unanswered,
        }
    }

    fn take_note(&mut self, answer: HeartbeatAnswer) {
        self.unanswered = false;
        if answer.fenced != self.fenced {
            self.fenced = answer.fenced;
            match answer.fenced {
                true => tracing::warn!(broker = %self.identity.id, "this broker is fenced"),
                false => tracing::info!(broker = %self.identity.id, "this broker serves"),
            }
        }
    }

    /// Registers again if the controllers do not know this process any more.
    async fn renew_if_lost(&mut self, error: ControlError) -> Result<(), RegistrationError> {
        if !matches!(error.code, ErrorCode::StaleBrokerEpoch | ErrorCode::BrokerIdNotRegistered) {
            tracing::warn!(broker = %self.identity.id, %error, "no controller took the heartbeat");
            return Ok(());
        }
        tracing::warn!(broker = %self.identity.id, %error, "the registration is lost; registering again");
        self.renew().await
    }

    async fn renew(&mut self) -> Result<(), RegistrationError> {
        // A registration that is made from now on lies behind everything that was committed.
        let seen = self.broker.metadata.image().offset();
        let command = Command::RegisterBroker(self.request.clone());
        let refused = |error| RegistrationError::Refused { broker: self.request.id, error };
        let epoch = loop {
            match self.controllers.propose(command.clone()).await {
                Ok(committed) => match committed.reply {
                    Reply::BrokerRegistered { epoch } => break epoch,
                    _ => return Err(refused(ControlError::plain(ErrorCode::UnknownServerError))),
                },
                Err(error)
                    if matches!(error.code, ErrorCode::DuplicateBrokerRegistration | ErrorCode::RequestTimedOut) =>
                {
                    tracing::warn!(broker = %self.request.id, %error, "cannot register yet");
                    time::sleep(REGISTER_INTERVAL).await;
                }
                Err(error) => return Err(refused(error)),
            }
        };
        if epoch <= seen && epoch != self.identity.epoch {
            return Err(RegistrationError::MetadataLost { broker: self.identity.id, epoch, seen });
        }
        tracing::info!(broker = %self.identity.id, epoch, "registered");
        self.identity.epoch = epoch;
        self.broker.set_epoch(epoch);
        Ok(())
    }
}

/// Waits for an answer to one who leaves, no longer than he waits.
async fn answered<T>(call: impl Future<Output = Result<T, ControlError>>) -> Result<T, ControlError> {
    let silent = |_| Err(ControlError::plain(ErrorCode::RequestTimedOut));
    time::timeout(SILENCE_MAX, call).await.unwrap_or_else(silent)
}

/// Waits for `work`, but not past the shutdown.
async fn or_stopping<T>(shutdown: &Shutdown, work: impl Future<Output = T>) -> Result<T, RegistrationError> {
    tokio::select! {
        outcome = work => Ok(outcome),
        () = shutdown.triggered() => Err(RegistrationError::Stopping),
    }
}
