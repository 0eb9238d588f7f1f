//! A connection to a peer: requests go out, their answers come back in the same order.
//!
//! The first thing asked on it is whether the peer is who it is taken for, and in which versions it speaks: behind an
//! address may be another broker by now, of another cluster or another release.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use taffrail_core::errors::ErrorCode;
use taffrail_core::ids::{BrokerId, Uuid};
use taffrail_protocol::fetch::FOLLOWER_VERSIONS;
use taffrail_protocol::frame::{FrameError, FrameReader, SIZE_BYTES};
use taffrail_protocol::message::{
    ApiVersionsRequest, ApiVersionsResponse, Request, SaslAuthenticateRequest, SaslHandshakeRequest,
};
use taffrail_protocol::request::{self, DecodeError, EncodeError};
use taffrail_protocol::response;
use taffrail_protocol::versions::{ApiKey, VersionRange};
use taffrail_runtime::cluster_secret::{ClusterSecret, challenge};
use taffrail_runtime::net::{self, TcpStream};
use taffrail_runtime::time;

use crate::introduction::{IntroductionError, MECHANISM, answer};

/// The version that says whom one means to talk to (KIP-1242).
const API_VERSIONS_VERSION: i16 = 5;

/// Versions in which a broker introduces itself.
const SASL_HANDSHAKE_VERSION: i16 = 1;
const SASL_AUTHENTICATE_VERSION: i16 = 2;

/// Versions of ListOffsets in which a follower asks: those that carry its epoch.
const LIST_OFFSETS_VERSIONS: VersionRange = VersionRange { min: 4, max: 9 };

/// Room for a read when nothing is known of the answer that comes.
const READ_MIN_BYTES: usize = 4 * 1024;

/// The buffer of an unfinished answer grows by this factor, so that a peer makes us hold what it sent and not what it
/// announced.
const GROWTH: usize = 4;

/// Room that any announced answer gets at once.
const ROOM_BYTES: usize = 64 * 1024;

/// How slowly it is forgotten that answers were large: by this part with each smaller one.
const FORGOTTEN: usize = 8;

/// Why a connection is of no use, or of no use any more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkError {
    #[error("{address} cannot be reached")]
    Dial { address: String, source: io::Error },
    #[error("the connection broke")]
    Broken(#[from] io::Error),
    #[error("the peer closed the connection")]
    Closed,
    #[error("the peer did not answer in time")]
    Silent,
    #[error("what came is no answer")]
    Frame(#[from] FrameError),
    #[error("an answer cannot be read")]
    Decode(#[from] DecodeError),
    #[error("a request cannot be written")]
    Encode(#[from] EncodeError),
    #[error("an answer came that nobody waits for")]
    Unasked,
    #[error("an answer has the number {found} where {expected:?} was due")]
    OutOfOrder { found: i32, expected: Option<i32> },
    #[error("the peer refuses with {}", .0.name())]
    Refused(ErrorCode),
    #[error("the peer does not let brokers show that they are of the cluster: it has no secret ({})", .0.name())]
    NoSecret(ErrorCode),
    #[error("the peer does not know the secret of this cluster, or this broker does not")]
    Stranger(#[from] IntroductionError),
    #[error("the peer speaks {} in no version that is asked for here", .0.name())]
    Versions(ApiKey),
}

impl LinkError {
    /// What happened, with what caused it.
    pub(crate) fn in_full(&self) -> String {
        let causes = std::iter::successors(std::error::Error::source(self), |error| error.source());
        causes.fold(self.to_string(), |text, cause| format!("{text}: {cause}"))
    }
}

/// Whom to talk to, and how.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    /// Host and port.
    pub(super) address: String,
    pub(super) id: BrokerId,
    pub(super) cluster_id: Option<Uuid>,
    /// Name by which we introduce ourselves.
    pub(super) client_id: String,
    /// Largest answer that is taken.
    pub(super) answer_max_bytes: usize,
    /// How long dialling, and each write, may take.
    pub(super) timeout: Duration,
    /// What both ends have to know, if the cluster has one.
    pub(super) secret: Option<ClusterSecret>,
}

/// A connection that has been introduced.
pub(crate) struct Link {
    stream: TcpStream,
    client_id: String,
    frames: FrameReader,
    timeout: Duration,
    received: BytesMut,
    /// What is to be sent, kept to save an allocation a request.
    sending: BytesMut,
    /// Numbers of the requests whose answers are due.
    awaited: VecDeque<i32>,
    next_number: i32,
    /// Size of large answers that came lately.
    expected_bytes: usize,
    /// Version in which the peer is asked to fetch.
    pub(super) fetch_version: i16,
    /// Version in which it is asked for offsets.
    pub(crate) list_offsets_version: i16,
}

impl Link {
    /// Connects to a peer and asks for its versions. Its name is resolved anew.
    pub(crate) async fn dial(peer: &Peer) -> Result<Self, LinkError> {
        time::timeout(peer.timeout, Self::introduce(peer)).await.map_err(|_| LinkError::Silent)?
    }

    async fn introduce(peer: &Peer) -> Result<Self, LinkError> {
        let stream = net::connect(&peer.address).await;
        let stream = stream.map_err(|source| LinkError::Dial { address: peer.address.clone(), source })?;
        let mut link = Self {
            stream,
            client_id: peer.client_id.clone(),
            frames: FrameReader::for_responses(peer.answer_max_bytes),
            timeout: peer.timeout,
            received: BytesMut::new(),
            sending: BytesMut::new(),
            awaited: VecDeque::new(),
            next_number: 0,
            expected_bytes: 0,
            fetch_version: FOLLOWER_VERSIONS.max,
            list_offsets_version: LIST_OFFSETS_VERSIONS.max,
        };
        let asked = ApiVersionsRequest::default()
            .with_client_software_name("taffrail".into())
            .with_client_software_version(env!("CARGO_PKG_VERSION").into())
            .with_cluster_id(peer.cluster_id.map(|id| id.to_string().into()))
            .with_node_id(peer.id.0);
        link.ask(API_VERSIONS_VERSION, &asked).await?;
        let versions = link.answer::<ApiVersionsRequest>(API_VERSIONS_VERSION).await?;
        refused(versions.error_code).map_err(LinkError::Refused)?;
        link.fetch_version = common(&versions, ApiKey::Fetch, FOLLOWER_VERSIONS)?;
        link.list_offsets_version = common(&versions, ApiKey::ListOffsets, LIST_OFFSETS_VERSIONS)?;
        if let Some(secret) = &peer.secret {
            link.show(secret).await?;
        }
        Ok(link)
    }

    /// Shows that this broker is of the cluster, and has the peer show the same.
    async fn show(&mut self, secret: &ClusterSecret) -> Result<(), LinkError> {
        let own = challenge();
        self.ask(SASL_HANDSHAKE_VERSION, &SaslHandshakeRequest::default().with_mechanism(MECHANISM.into())).await?;
        self.say(own.to_vec()).await?;
        let handshake = self.answer::<SaslHandshakeRequest>(SASL_HANDSHAKE_VERSION).await?;
        refused(handshake.error_code).map_err(LinkError::NoSecret)?;
        let said = self.answer::<SaslAuthenticateRequest>(SASL_AUTHENTICATE_VERSION).await?;
        refused(said.error_code).map_err(LinkError::Refused)?;
        self.say(answer(secret, &own, &said.auth_bytes)?).await?;
        let end = self.answer::<SaslAuthenticateRequest>(SASL_AUTHENTICATE_VERSION).await?;
        refused(end.error_code).map_err(LinkError::Refused)
    }

    async fn say(&mut self, bytes: Vec<u8>) -> Result<(), LinkError> {
        let message = SaslAuthenticateRequest::default().with_auth_bytes(bytes.into());
        self.ask(SASL_AUTHENTICATE_VERSION, &message).await
    }

    async fn ask<R: Request>(&mut self, version: i16, message: &R) -> Result<(), LinkError> {
        self.send(|number, client_id, out| request::encode(version, number, Some(client_id), message, out)).await
    }

    async fn answer<R: Request>(&mut self, version: i16) -> Result<R::Response, LinkError> {
        let frame = self.receive().await?;
        Ok(response::decode::<R>(version, frame)?.1)
    }

    /// Sends the request that `encode` appends to a buffer, given its number and our name.
    pub(crate) async fn send(
        &mut self,
        encode: impl FnOnce(i32, &str, &mut BytesMut) -> Result<(), EncodeError>,
    ) -> Result<(), LinkError> {
        let number = self.next_number;
        self.next_number = number.checked_add(1).unwrap_or(0);
        self.sending.clear();
        encode(number, &self.client_id, &mut self.sending)?;
        let (_, sending) = self.stream.split();
        let write = async {
            let mut sent = 0;
            while sent < self.sending.len() {
                sent += sending.write_vectored(&[IoSlice::new(&self.sending[sent..])], false).await?;
            }
            Ok::<(), LinkError>(())
        };
        time::timeout(self.timeout, write).await.map_err(|_| LinkError::Silent)??;
        self.awaited.push_back(number);
        Ok(())
    }

    /// The frame (without its size) of the next answer. Nothing is lost when the future is dropped.
    pub(crate) async fn receive(&mut self) -> Result<Bytes, LinkError> {
        loop {
            if let Some(frame) = self.frames.next(&mut self.received)? {
                self.note_size(frame.len());
                let found = frame.first_chunk().map_or(-1, |bytes| i32::from_be_bytes(*bytes));
                let expected = self.awaited.pop_front();
                return if expected == Some(found) {
                    Ok(frame)
                } else {
                    Err(LinkError::OutOfOrder { found, expected })
                };
            }
            self.make_room();
            let (mut receiving, _) = self.stream.split();
            if receiving.read_buf(&mut self.received).await? == 0 {
                return Err(LinkError::Closed);
            }
        }
    }

    /// Requests whose answers are due.
    pub(super) fn awaited(&self) -> usize {
        self.awaited.len()
    }

    /// Whether bytes of the next answer are here already.
    pub(super) fn is_receiving(&self) -> bool {
        !self.received.is_empty()
    }

    /// Makes room for the next read. The size of the answer was checked.
    fn make_room(&mut self) {
        let held = self.received.len();
        let announced = self.received.first_chunk::<SIZE_BYTES>().map(|bytes| i32::from_be_bytes(*bytes));
        let room = match announced.and_then(|size| usize::try_from(size).ok()) {
            Some(size) => {
                let missing = (SIZE_BYTES + size).saturating_sub(held);
                missing.min((held * (GROWTH - 1)).max(ROOM_BYTES).max(self.expected_bytes))
            }
            None => READ_MIN_BYTES.max(self.expected_bytes),
        };
        self.received.reserve(room.max(1));
    }

    /// Remembers how large answers are; a peer that has sent large ones is given room for the next one at once. The buffer
    /// is given back when they have been small for a while.
    fn note_size(&mut self, bytes: usize) {
        let was_large = self.expected_bytes > ROOM_BYTES;
        self.expected_bytes = bytes.max(self.expected_bytes - self.expected_bytes / FORGOTTEN);
        if was_large && self.expected_bytes <= ROOM_BYTES && self.received.is_empty() {
            self.received = BytesMut::new();
        }
    }
}

/// The error in an answer, if there is one.
fn refused(code: i16) -> Result<(), ErrorCode> {
    match ErrorCode::from_code(code).unwrap_or(ErrorCode::UnknownServerError) {
        ErrorCode::None => Ok(()),
        error => Err(error),
    }
}

/// The newest version of `key` that the peer speaks too.
fn common(peers: &ApiVersionsResponse, key: ApiKey, ours: VersionRange) -> Result<i16, LinkError> {
    let theirs = peers.api_keys.iter().find(|it| it.api_key == key.code()).ok_or(LinkError::Versions(key))?;
    let newest = ours.max.min(theirs.max_version);
    if newest >= ours.min.max(theirs.min_version) { Ok(newest) } else { Err(LinkError::Versions(key)) }
}
