//! The permission to disrupt: asked for, given, given back.
//!
//! One grant is open at a time, whoever holds it. Operators are told apart by their epochs, which rise with every change of
//! the leading operator: an older one can neither open, prolong nor close anything. A grant ends by itself, so that an
//! operator that dies blocks nobody for long.

use std::sync::Arc;

use super::draft::Draft;
use super::{CloseGrant, ControlError, Inputs, OpenGrant, Reply, restart};
use crate::errors::ErrorCode;
use crate::event::{Grant, MetadataEvent};
use crate::planted::{PlantedBug, is_planted};

/// Longest time that a grant is given for; it can be prolonged.
pub const GRANT_DURATION_MAX_MS: i64 = 3_600_000;

/// Brokers that one grant can name.
pub const GRANT_BROKERS_MAX: usize = 100;

pub(super) fn open(draft: &mut Draft, request: &OpenGrant, inputs: &Inputs<'_>) -> Result<Reply, ControlError> {
    check_operator(draft, request.operator_epoch)?;
    let refuse = |text: String| Err(ControlError::new(ErrorCode::InvalidRequest, text));
    if !(1..=GRANT_DURATION_MAX_MS).contains(&request.duration_ms) {
        return refuse(format!("A grant lasts from 1 to {GRANT_DURATION_MAX_MS} ms, not {}.", request.duration_ms));
    }
    if request.brokers.is_empty() || request.brokers.len() > GRANT_BROKERS_MAX {
        return refuse(format!("A grant names from 1 to {GRANT_BROKERS_MAX} brokers."));
    }
    let image = draft.image();
    let is_open = |grant: &&Arc<Grant>| grant.is_open(inputs.now_ms) && !is_planted(PlantedBug::GrantsOverlap);
    let present = image.grant().filter(is_open).cloned();
    let expires_ms = inputs.now_ms.saturating_add(request.duration_ms);
    let id = match present {
        // The same again: it goes on. The brokers may be away already, so nothing is judged anew.
        Some(grant) if grant.brokers == request.brokers => grant.id,
        other => {
            let mut verdict = restart::judge(image, &request.brokers, request.policy, inputs.rules(image), inputs.lags);
            verdict.grant = other;
            let is_yes = verdict.is_yes() || (verdict.grant.is_none() && is_planted(PlantedBug::GrantNotJudged));
            if !is_yes {
                return Ok(Reply::RestartJudged(verdict));
            }
            image.offset() + 1
        }
    };
    let grant = Grant { id, brokers: request.brokers.clone(), operator_epoch: request.operator_epoch, expires_ms };
    draft.emit(MetadataEvent::GrantOpened(Arc::new(grant.clone())));
    Ok(Reply::GrantOpened(grant))
}

/// Closes a grant; that it is closed already is no error, because the answer to the first try may have been lost.
pub(super) fn close(draft: &mut Draft, request: &CloseGrant) -> Result<Reply, ControlError> {
    check_operator(draft, request.operator_epoch)?;
    if draft.image().grant().is_some_and(|grant| grant.id == request.id) {
        let (id, operator_epoch) = (request.id, request.operator_epoch);
        draft.emit(MetadataEvent::GrantClosed { id, operator_epoch });
    }
    Ok(Reply::Done)
}

fn check_operator(draft: &Draft, epoch: i64) -> Result<(), ControlError> {
    let newest = draft.image().operator_epoch();
    if epoch < newest.max(0) {
        let text = format!("Another operator leads: its epoch is {newest}, this one's is {epoch}.");
        return Err(ControlError::new(ErrorCode::StaleControllerEpoch, text));
    }
    Ok(())
}
