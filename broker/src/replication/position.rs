//! Where a follower stands in its fetch session with a leader (KIP-227), as Kafka's `FetchSessionHandler` keeps it.

use taffrail_core::errors::ErrorCode;

use crate::fetch::session::{EPOCH_INITIAL, NO_SESSION, next_epoch};

/// The session and the epoch of the next request in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) id: i32,
    pub(super) epoch: i32,
}

impl Default for Position {
    fn default() -> Self {
        Self { id: NO_SESSION, epoch: EPOCH_INITIAL }
    }
}

impl Position {
    /// Whether the next request names all partitions, because there is no session that knows them.
    pub(super) fn is_full(self) -> bool {
        self.epoch == EPOCH_INITIAL
    }

    /// Notes that a request in the session was sent.
    pub(super) fn sent(&mut self) {
        if !self.is_full() {
            self.epoch = next_epoch(self.epoch);
        }
    }

    /// Notes the head of an answer to a request that was full, or not; tells whether its partitions count.
    pub(super) fn answered(&mut self, was_full: bool, error: ErrorCode, session_id: i32) -> bool {
        match error {
            ErrorCode::None if was_full => {
                // Without a place for a session the leader gives none, and the next request is full again.
                if session_id != NO_SESSION {
                    *self = Self { id: session_id, epoch: next_epoch(EPOCH_INITIAL) };
                }
                true
            }
            ErrorCode::None => {
                if session_id != self.id {
                    *self = Self::default();
                }
                true
            }
            ErrorCode::FetchSessionIdNotFound => {
                *self = Self::default();
                false
            }
            // A full request that names the session ends it, so that it takes no place for nothing.
            _ => {
                self.epoch = EPOCH_INITIAL;
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_opened_once_and_goes_on_by_epochs() {
        let mut position = Position::default();
        assert!(position.is_full());
        position.sent();
        assert!(position.answered(true, ErrorCode::None, 7));
        assert_eq!(position, Position { id: 7, epoch: 1 });
        position.sent();
        assert_eq!(position, Position { id: 7, epoch: 2 });
        assert!(position.answered(false, ErrorCode::None, 7));
        assert_eq!(position, Position { id: 7, epoch: 2 });
    }

    #[test]
    fn a_leader_without_room_is_asked_for_everything_each_time() {
        let mut position = Position::default();
        position.sent();
        assert!(position.answered(true, ErrorCode::None, NO_SESSION));
        assert!(position.is_full());
    }

    #[test]
    fn a_session_that_is_lost_is_replaced_and_one_that_is_out_of_step_is_closed() {
        let cases = [
            (ErrorCode::FetchSessionIdNotFound, 0, Position::default()),
            (ErrorCode::InvalidFetchSessionEpoch, 0, Position { id: 7, epoch: EPOCH_INITIAL }),
            (ErrorCode::FetchSessionTopicIdError, 0, Position { id: 7, epoch: EPOCH_INITIAL }),
        ];
        for (error, session_id, expected) in cases {
            let mut position = Position { id: 7, epoch: 5 };
            assert!(!position.answered(false, error, session_id), "{error:?}");
            assert_eq!(position, expected, "{error:?}");
        }
        let mut position = Position { id: 7, epoch: 5 };
        assert!(position.answered(false, ErrorCode::None, NO_SESSION), "the leader has ended it with this answer");
        assert_eq!(position, Position::default());
    }
}
