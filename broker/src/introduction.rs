//! How a broker that dialled shows that it is of the cluster: by the secret that all processes of the cluster share.
//!
//! It is a SASL mechanism of our own on the connection that is there (SaslHandshake, then SaslAuthenticate twice), because
//! brokers and clients meet at one listener: clients say nothing of it, and what only brokers may ask is refused to them.
//! Both ends answer each other's challenge (see `taffrail_runtime::cluster_secret`), so a follower does not copy from a
//! stranger either.

use std::cell::Cell;

use taffrail_runtime::cluster_secret::{CHALLENGE_BYTES, Challenge, ClusterSecret, End, PROOF_BYTES, challenge};

/// Name of the mechanism. The number is that of its form.
pub(crate) const MECHANISM: &str = "TAFFRAIL-CLUSTER-SECRET-1";

/// Why what was said is no introduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum IntroductionError {
    #[error("no handshake came before")]
    OutOfTurn,
    #[error("{found} bytes where {expected} were due")]
    Length { found: usize, expected: usize },
    #[error("whoever asks does not know the secret of this cluster")]
    Stranger,
}

/// How far a connection has come.
#[derive(Debug, Clone, Copy, Default)]
enum Stage {
    /// It said nothing, or nothing right.
    #[default]
    Stranger,
    /// It has chosen the mechanism.
    Begun,
    /// It was asked to answer.
    Challenged { dialling: Challenge, dialled: Challenge },
    /// It is of the cluster.
    Known,
}

/// The side that was dialled.
#[derive(Debug, Default)]
pub(crate) struct Introduction(Cell<Stage>);

impl Introduction {
    /// The mechanism was chosen.
    pub(crate) fn begin(&self) {
        self.0.set(Stage::Begun);
    }

    /// Whether the one who dialled knows the secret.
    pub(crate) fn is_known(&self) -> bool {
        matches!(self.0.get(), Stage::Known)
    }

    /// Takes what was said next; gives the answer.
    ///
    /// # Errors
    /// See [`IntroductionError`]; it has to begin again then.
    pub(crate) fn take(&self, secret: &ClusterSecret, said: &[u8]) -> Result<Vec<u8>, IntroductionError> {
        match self.0.take() {
            Stage::Begun => {
                let dialling = exactly::<CHALLENGE_BYTES>(said)?;
                let dialled = challenge();
                self.0.set(Stage::Challenged { dialling, dialled });
                Ok([dialled.as_slice(), &secret.proof(End::Leader, &dialling, &dialled)].concat())
            }
            Stage::Challenged { dialling, dialled } => {
                let proof = exactly::<PROOF_BYTES>(said)?;
                if !secret.is_proof(End::Follower, &dialling, &dialled, &proof) {
                    return Err(IntroductionError::Stranger);
                }
                self.0.set(Stage::Known);
                Ok(Vec::new())
            }
            Stage::Stranger | Stage::Known => Err(IntroductionError::OutOfTurn),
        }
    }
}

/// What the end that dialled says to what the other end answered to its challenge.
///
/// # Errors
/// When the other end does not know the secret.
pub(crate) fn answer(secret: &ClusterSecret, own: &Challenge, said: &[u8]) -> Result<Vec<u8>, IntroductionError> {
    let said = exactly::<{ CHALLENGE_BYTES + PROOF_BYTES }>(said)?;
    let (theirs, proof) = said.split_at(CHALLENGE_BYTES);
    let theirs = exactly::<CHALLENGE_BYTES>(theirs)?;
    if !secret.is_proof(End::Leader, own, &theirs, proof) {
        return Err(IntroductionError::Stranger);
    }
    Ok(secret.proof(End::Follower, own, &theirs).to_vec())
}

fn exactly<const BYTES: usize>(said: &[u8]) -> Result<[u8; BYTES], IntroductionError> {
    said.try_into().map_err(|_| IntroductionError::Length { found: said.len(), expected: BYTES })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> ClusterSecret {
        ClusterSecret::new(text.as_bytes()).unwrap()
    }

    #[test]
    fn whoever_knows_the_secret_is_known_and_nobody_else() {
        let right = secret("the secret of this cluster");
        for (theirs, is_right) in [("the secret of this cluster", true), ("the secret of another", false)] {
            let (theirs, introduction, own) = (secret(theirs), Introduction::default(), challenge());
            introduction.begin();
            let said = introduction.take(&right, &own).unwrap();
            let answered = answer(&theirs, &own, &said);
            assert_eq!(answered.is_ok(), is_right, "the one who dialled finds out first");
            let proof = answered.unwrap_or_else(|_| vec![0; PROOF_BYTES]);
            assert_eq!(introduction.take(&right, &proof).is_ok(), is_right);
            assert_eq!(introduction.is_known(), is_right);
        }
    }

    #[test]
    fn what_was_overheard_is_of_no_use_and_a_mirror_is_not_known() {
        let (right, introduction, own) = (secret("the secret of this cluster"), Introduction::default(), challenge());
        introduction.begin();
        let said = introduction.take(&right, &own).unwrap();
        let proof = answer(&right, &own, &said).unwrap();
        introduction.begin();
        let again = introduction.take(&right, &own).unwrap();
        assert_eq!(introduction.take(&right, &proof), Err(IntroductionError::Stranger), "another challenge");
        assert_eq!(introduction.take(&right, &proof), Err(IntroductionError::OutOfTurn), "it has to begin again");
        introduction.begin();
        introduction.take(&right, &own).unwrap();
        assert_eq!(introduction.take(&right, &again[CHALLENGE_BYTES..]), Err(IntroductionError::Stranger));
        assert!(!introduction.is_known());
    }

    #[test]
    fn what_is_too_short_or_long_or_out_of_turn_is_refused() {
        let (right, introduction) = (secret("the secret of this cluster"), Introduction::default());
        assert_eq!(introduction.take(&right, &challenge()), Err(IntroductionError::OutOfTurn));
        for length in [0, CHALLENGE_BYTES - 1, CHALLENGE_BYTES + 1] {
            introduction.begin();
            let refused = IntroductionError::Length { found: length, expected: CHALLENGE_BYTES };
            assert_eq!(introduction.take(&right, &vec![0; length]), Err(refused));
        }
        assert!(answer(&right, &challenge(), &[0; CHALLENGE_BYTES]).is_err());
    }
}
