//! The secret that the processes of one cluster share, and how both ends of a connection show that they know it.
//!
//! The secret itself never travels: each end sends a random challenge, and answers the other's with an HMAC-SHA-256 over
//! both. That keeps strangers out and tells them apart from a wrong address; it does not hide or protect what is said
//! afterwards, for which there is TLS.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use ring::hmac;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::{random, time};

/// What a connection begins with, so that something else is told apart at once.
const MAGIC: &[u8; 8] = b"TAFFRAL1";

/// Bytes of a challenge.
pub const CHALLENGE_BYTES: usize = 32;

/// Bytes of an answer to one: HMAC-SHA-256.
pub const PROOF_BYTES: usize = 32;

/// Random bytes that the other end has to answer.
pub type Challenge = [u8; CHALLENGE_BYTES];

/// An answer to a challenge.
pub type Proof = [u8; PROOF_BYTES];

/// Shortest secret, in bytes: a shorter one can be guessed.
pub const SECRET_BYTES_MIN: usize = 16;

/// Longest secret, in bytes.
pub const SECRET_BYTES_MAX: usize = 4_096;

/// How long both ends may take to show that they know the secret.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// Said by the end that took the connection when it knows who is there.
const WELCOME: u8 = 1;

/// Who answers a challenge: the same bytes are no answer from the other end, nor in another protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Who took a connection between processes.
    Dialled = 1,
    /// Who made it.
    Dialling = 2,
    /// The broker that took a connection of the Kafka protocol.
    Leader = 3,
    /// The broker that made it.
    Follower = 4,
}

/// The secret of a cluster. Clones share it.
#[derive(Clone)]
pub struct ClusterSecret(Arc<hmac::Key>);

impl fmt::Debug for ClusterSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterSecret")
    }
}

/// Why there is no secret in what should be one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a cluster's secret has {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes, not {0}")]
pub struct SecretLength(usize);

impl ClusterSecret {
    /// The secret in the content of a file. White space around it does not count.
    ///
    /// # Errors
    /// When it is too short or too long.
    pub fn new(content: &[u8]) -> Result<Self, SecretLength> {
        let secret = content.trim_ascii();
        if !(SECRET_BYTES_MIN..=SECRET_BYTES_MAX).contains(&secret.len()) {
            return Err(SecretLength(secret.len()));
        }
        Ok(Self(Arc::new(hmac::Key::new(hmac::HMAC_SHA256, secret))))
    }

    /// A secret that nobody else knows, for brokers of one process.
    pub fn random() -> Self {
        Self(Arc::new(hmac::Key::new(hmac::HMAC_SHA256, &challenge())))
    }

    /// What `end` says to show that it knows the secret, after the challenges of both ends.
    pub fn proof(&self, end: End, dialling: &Challenge, dialled: &Challenge) -> Proof {
        let mut proof = [0; PROOF_BYTES];
        proof.copy_from_slice(hmac::sign(&self.0, &message(end, dialling, dialled)).as_ref());
        proof
    }

    /// Whether that is what `end` says who knows the secret. Takes the same time wherever the first difference is.
    pub fn is_proof(&self, end: End, dialling: &Challenge, dialled: &Challenge, said: &[u8]) -> bool {
        hmac::verify(&self.0, &message(end, dialling, dialled), said).is_ok()
    }

    /// Shows whoever was dialled that this end knows the secret, and has it show the same.
    ///
    /// # Errors
    /// PermissionDenied if the other end does not know it, or does not ask for it.
    pub(crate) async fn show<S: AsyncRead + AsyncWrite + Unpin>(&self, stream: &mut S) -> io::Result<()> {
        let showing = async {
            let ours = challenge();
            stream.write_all(&[MAGIC.as_slice(), &ours].concat()).await?;
            let theirs = read_challenge(stream).await?;
            let mut proof = [0; PROOF_BYTES];
            stream.read_exact(&mut proof).await?;
            if !self.is_proof(End::Dialled, &ours, &theirs, &proof) {
                return Err(denied("the other end has another secret"));
            }
            stream.write_all(&self.proof(End::Dialling, &ours, &theirs)).await?;
            match stream.read_u8().await? {
                WELCOME => Ok(()),
                _ => Err(denied("the other end does not accept this cluster's secret")),
            }
        };
        time::timeout(HANDSHAKE_TIMEOUT, showing).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Has whoever dialled show that it knows the secret.
    ///
    /// # Errors
    /// PermissionDenied if it does not.
    pub(crate) async fn check<S: AsyncRead + AsyncWrite + Unpin>(&self, stream: &mut S) -> io::Result<()> {
        let checking = async {
            let theirs = read_challenge(stream).await?;
            let ours = challenge();
            let own = self.proof(End::Dialled, &theirs, &ours);
            stream.write_all(&[MAGIC.as_slice(), &ours, &own].concat()).await?;
            let mut proof = [0; PROOF_BYTES];
            stream.read_exact(&mut proof).await?;
            if !self.is_proof(End::Dialling, &theirs, &ours, &proof) {
                return Err(denied("the other end has another secret"));
            }
            stream.write_u8(WELCOME).await
        };
        time::timeout(HANDSHAKE_TIMEOUT, checking).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

fn message(end: End, dialling: &Challenge, dialled: &Challenge) -> Vec<u8> {
    [&[end as u8], dialling.as_slice(), dialled].concat()
}

/// A fresh challenge.
pub fn challenge() -> Challenge {
    let mut bytes = [0; CHALLENGE_BYTES];
    random::fill(&mut bytes);
    bytes
}

async fn read_challenge<S: AsyncRead + Unpin>(stream: &mut S) -> io::Result<Challenge> {
    let mut magic = [0; MAGIC.len()];
    stream.read_exact(&mut magic).await?;
    if magic != *MAGIC {
        return Err(denied("the other end does not speak of the cluster's secret"));
    }
    let mut bytes = [0; CHALLENGE_BYTES];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

fn denied(text: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> ClusterSecret {
        ClusterSecret::new(text.as_bytes()).unwrap()
    }

    #[tokio::test]
    async fn both_ends_have_to_know_the_secret() {
        let right = secret("a secret of the cluster");
        for (theirs, is_right) in [("a secret of the cluster\n", true), ("another secret altogether", false)] {
            let (mut near, mut far) = tokio::io::duplex(256);
            let theirs = secret(theirs);
            let checking = async {
                let checked = right.check(&mut far).await;
                drop(far);
                checked
            };
            let showing = async {
                let shown = theirs.show(&mut near).await;
                drop(near);
                shown
            };
            let (checked, shown) = tokio::join!(checking, showing);
            assert_eq!((checked.is_ok(), shown.is_ok()), (is_right, is_right));
        }
    }

    #[tokio::test]
    async fn an_answer_that_was_overheard_is_none_to_another_challenge() {
        let right = secret("a secret of the cluster");
        // Sends back what it is told.
        let (mut near, mut far) = tokio::io::duplex(256);
        let checking = async {
            let checked = right.check(&mut far).await;
            drop(far);
            checked
        };
        let mirroring = async {
            near.write_all(&[MAGIC.as_slice(), &[7; CHALLENGE_BYTES]].concat()).await.unwrap();
            let mut answer = [0; MAGIC.len() + CHALLENGE_BYTES + PROOF_BYTES];
            near.read_exact(&mut answer).await.unwrap();
            near.write_all(&answer[MAGIC.len() + CHALLENGE_BYTES..]).await.unwrap();
            near.read_u8().await.is_err()
        };
        let (checked, refused) = tokio::join!(checking, mirroring);
        assert_eq!(checked.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert!(refused);
    }

    #[test]
    fn a_secret_that_can_be_guessed_is_none() {
        for (content, length) in [("", 0), ("  fifteen bytes..\n", 15)] {
            assert_eq!(ClusterSecret::new(content.as_bytes()).unwrap_err(), SecretLength(length));
        }
        assert!(!format!("{:?}", secret("a secret of the cluster")).contains("secret of"));
    }
}
