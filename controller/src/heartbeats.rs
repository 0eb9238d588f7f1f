//! Brokers that say that they live, and what it means when one stops saying so.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use taffrail_core::control::{BrokerIdentity, Command, ControlError, Sign};
use taffrail_core::errors::ErrorCode;
use taffrail_core::event::BrokerRegistration;
use taffrail_core::ids::BrokerId;
use taffrail_core::image::MetadataImage;
use taffrail_protocol::rpc::{RPC_VERSION, lags_from_message, refusal_to_message, v1};
use taffrail_runtime::grpc::{self, Target};
use taffrail_runtime::shutdown::Shutdown;
use taffrail_runtime::{task, time};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use crate::decider::{Proposer, Refused, refuse_unless_active};
use crate::machine::feed::Feed;
use crate::quorum::liveness::Liveness;
use crate::raft::Raft;
use crate::service::{address, checked, refused};
use crate::sessions::{Attendance, Sessions};

/// Pauses before the dials of a broker that is in doubt. More than one dial, because a process that is killed
/// closes its sockets one after the other: its listener may outlive the connection by a moment.
const DIAL_PAUSES_MS: [u64; 5] = [0, 5, 20, 75, 250];

/// Pause before a broker whose process is gone is looked at again because another one is away: its turn comes when that one
/// is back, or its session ends.
const TURN_PAUSE: Duration = Duration::from_millis(50);

/// How long such a dial may take; a slow one says nothing.
const DIAL_TIMEOUT: Duration = Duration::from_millis(250);

/// One answer of a stream of them.
pub(crate) type Answer = Result<v1::HeartbeatReply, Status>;

/// Judges heartbeats.
pub(crate) struct Heartbeats {
    pub(crate) raft: Raft,
    pub(crate) feed: Arc<Feed>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) liveness: Arc<Liveness>,
    pub(crate) proposer: Proposer,
    /// Name of the listener at which brokers are dialled; the first one if there is none of this name.
    pub(crate) inter_broker: Option<String>,
    pub(crate) shutdown: Shutdown,
}

/// Why a heartbeat has no answer.
pub(crate) enum Unanswered {
    /// The controller refuses it.
    Refused(Refused),
    /// It cannot be understood.
    Status(Status),
}

impl From<Refused> for Unanswered {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

impl From<ControlError> for Unanswered {
    fn from(error: ControlError) -> Self {
        Self::Refused(error.into())
    }
}

impl Heartbeats {
    /// Takes note of a broker that lives, and has it unfenced when it is ready.
    pub(crate) async fn judge(
        &self,
        request: &v1::HeartbeatRequest,
        sign: Sign,
    ) -> Result<v1::HeartbeatReply, Unanswered> {
        checked(request.format_version).map_err(Unanswered::Status)?;
        let lags = lags_from_message(&request.lags).map_err(|error| Unanswered::Status(refused(&error)))?;
        refuse_unless_active(&self.raft, &self.liveness)?;
        let broker = BrokerIdentity { id: BrokerId(request.broker), epoch: request.epoch };
        let sign = if request.unanswered { Sign::Unanswered } else { sign };
        let mut image = self.feed.image();
        let mut fenced = registration(&image, broker)?.fenced;
        self.sessions.heard(broker, sign, request.metadata_offset);
        self.sessions.report(broker.id, lags, &image);
        // The epoch is the offset of the registration: who has applied that far knows itself, and all before.
        let caught_up = request.metadata_offset >= request.epoch;
        let mut metadata_offset = image.offset();
        if fenced && caught_up && request.ready && !request.unanswered {
            metadata_offset = self.proposer.propose(Command::UnfenceBroker(broker)).await?.offset;
            // The disks may have taken their time.
            self.sessions.heard(broker, sign, request.metadata_offset);
            image = self.feed.image();
            fenced = false;
        }
        let may_go = request.leaving_since.is_some_and(|since| self.sessions.may_go(broker, since, &image));
        Ok(v1::HeartbeatReply {
            format_version: RPC_VERSION,
            refusal: None,
            fenced,
            caught_up,
            metadata_offset,
            active: None,
            may_go,
        })
    }

    /// Answers the heartbeats of one broker as long as both live, in the background.
    pub(crate) fn attend(self: Arc<Self>, heartbeats: Streaming<v1::HeartbeatRequest>) -> ReceiverStream<Answer> {
        let (sender, receiver) = mpsc::channel(1);
        task::spawn(async move {
            let attendance = tokio::select! {
                attendance = self.answer(heartbeats, sender) => attendance,
                () = self.shutdown.triggered() => return,
            };
            if let Some(attendance) = attendance.filter(|attendance| self.sessions.closed(*attendance)) {
                self.suspect(attendance.broker).await;
            }
        });
        ReceiverStream::new(receiver)
    }

    /// Gives the attendance that was lost, if it did not end by a refusal.
    async fn answer(
        &self,
        mut heartbeats: Streaming<v1::HeartbeatRequest>,
        sender: mpsc::Sender<Answer>,
    ) -> Option<Attendance> {
        let mut attendance: Option<Attendance> = None;
        while let Ok(Some(request)) = heartbeats.message().await {
            let answer = match self.judge(&request, Sign::Attendance).await {
                Ok(reply) => reply,
                Err(refused) => {
                    let last = match refused {
                        Unanswered::Refused(refused) => Ok(refusal(refused)),
                        Unanswered::Status(status) => Err(status),
                    };
                    // Whoever has gone has no need of it.
                    let _ = sender.send(last).await;
                    return None;
                }
            };
            let broker = BrokerIdentity { id: BrokerId(request.broker), epoch: request.epoch };
            match attendance {
                None => attendance = Some(self.sessions.attend(broker)),
                Some(known) if known.broker == broker => {}
                Some(known) => {
                    let text = format!("this is the attendance of broker {}, not of {}", known.broker.id, broker.id);
                    let _ = sender.send(Err(Status::invalid_argument(text))).await;
                    return None;
                }
            }
            if sender.send(Ok(answer)).await.is_err() {
                break;
            }
        }
        attendance
    }

    /// Finds out whether a broker whose connection has closed, or which has none and is silent, is gone, and has it fenced
    /// then.
    pub(crate) async fn suspect(&self, broker: BrokerIdentity) {
        let mut pauses = DIAL_PAUSES_MS.into_iter().map(Duration::from_millis);
        let mut is_another_away = false;
        while let Some(pause) = if is_another_away { Some(TURN_PAUSE) } else { pauses.next() } {
            time::sleep(pause).await;
            let image = self.feed.image();
            let Ok(registered) = registration(&image, broker) else { return };
            if registered.fenced || self.sessions.is_back(broker) {
                return;
            }
            let Some(listener) = self.listener_of(&registered) else { return };
            let dialled = time::timeout(DIAL_TIMEOUT, grpc::probe(&Target::Address(listener.clone()))).await;
            if !matches!(dialled, Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused) {
                continue;
            }
            if !self.sessions.dial_refused(broker, &image) {
                if !is_another_away {
                    tracing::warn!(broker = %broker.id, listener, "a broker's process is gone, while another one is away");
                }
                is_another_away = true;
                continue;
            }
            tracing::warn!(broker = %broker.id, listener, "fencing a broker whose process is gone");
            if let Err(refused) = self.proposer.propose(Command::FenceBroker(broker)).await {
                tracing::warn!(broker = %broker.id, error = %refused.error, "the broker could not be fenced");
            }
            return;
        }
    }

    fn listener_of(&self, broker: &BrokerRegistration) -> Option<String> {
        let named = broker.listeners.iter().find(|listener| Some(&*listener.name) == self.inter_broker.as_deref());
        let listener = named.or_else(|| broker.listeners.first())?;
        Some(format!("{}:{}", listener.host, listener.port))
    }
}

/// The answer to a heartbeat that is refused.
pub(crate) fn refusal(refused: Refused) -> v1::HeartbeatReply {
    v1::HeartbeatReply {
        format_version: RPC_VERSION,
        refusal: Some(refusal_to_message(&refused.error)),
        active: refused.active.map(address),
        ..v1::HeartbeatReply::default()
    }
}

/// The registration of the very process that `broker` names.
fn registration(image: &MetadataImage, broker: BrokerIdentity) -> Result<Arc<BrokerRegistration>, ControlError> {
    match image.broker(broker.id) {
        None => Err(ControlError::plain(ErrorCode::BrokerIdNotRegistered)),
        Some(known) if known.epoch != broker.epoch => Err(ControlError::plain(ErrorCode::StaleBrokerEpoch)),
        Some(known) => Ok(Arc::clone(known)),
    }
}
