//! Looks after groups: the four steps over each, the same on every platform.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use taffrail_client::groups::GroupsError;
use taffrail_core::errors::ErrorCode;
use taffrail_runtime::time;

use super::apply::{Applied, apply};
use super::build::build;
use super::fetch::fetch;
use super::lag::{LagWatch, Lagging};
use super::status::status;
use super::validate::ValidGroup;
use crate::crd::ConsumerGroupStatus;
use crate::crd::parts::{ConditionStatus, DeletionPolicy, Management, condition};
use crate::platform::groups::GroupAdmin;

/// What a look at a group came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Look {
    /// What was done about its offsets.
    pub applied: Applied,
    /// How it is now.
    pub status: ConsumerGroupStatus,
}

/// Looks after groups, which a platform tells apart by `K`.
pub struct Lookout<K> {
    /// The lag of groups that have an objective.
    lags: BTreeMap<K, LagWatch>,
    began: time::Instant,
}

impl<K: Ord + Clone> Default for Lookout<K> {
    fn default() -> Self {
        Self { lags: BTreeMap::new(), began: time::monotonic() }
    }
}

impl<K: Ord + Clone> Lookout<K> {
    /// Looks at one group and does what is asked for. `before` is the report so far.
    ///
    /// # Errors
    /// When nothing can be told of it, or done about it, now.
    pub async fn look(
        &mut self,
        (key, valid, generation): (&K, &ValidGroup, Option<i64>),
        before: &ConsumerGroupStatus,
        admin: &mut impl GroupAdmin,
        now: &Time,
    ) -> Result<Look, GroupsError> {
        let mut observed = fetch(valid, admin).await?;
        let plan = build(valid, &observed, before.last_reset.as_ref());
        let applied = apply(valid, &plan, &observed, admin).await?;
        if let Applied::Set(change) = &applied {
            tracing::info!(group = valid.id, reset = change.id, partitions = change.after.len(), "offsets are reset");
        }
        if let Applied::Begun(change) = &applied {
            tracing::info!(group = valid.id, partitions = change.after.len(), "initial offsets are set");
        }
        if matches!(applied, Applied::Set(_) | Applied::Begun(_)) {
            // As it is now; that it cannot be told must not lose that it was done.
            observed = fetch(valid, admin).await.unwrap_or(observed);
        }
        let mut status = status(valid, &observed, (&plan, &applied), before, generation, now);
        status.conditions.extend(self.lagging((key, valid, generation), status.total_lag, now));
        Ok(Look { applied, status })
    }

    /// The condition of a group whose lag is worth a warning.
    fn lagging(
        &mut self,
        (key, valid, generation): (&K, &ValidGroup, Option<i64>),
        lag: Option<i64>,
        now: &Time,
    ) -> Option<Condition> {
        let Some((objective, lag)) = valid.lag.zip(lag) else {
            self.lags.remove(key);
            return None;
        };
        let now_ms = i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX);
        let Lagging { reason, message } = self.lags.entry(key.clone()).or_default().note(objective, now_ms, lag)?;
        Some(condition(condition::LAGGING, ConditionStatus::True, reason, message, generation, now.clone()))
    }

    /// Forgets groups that `is_there` does not know.
    pub fn retain(&mut self, is_there: impl Fn(&K) -> bool) {
        self.lags.retain(|key, _| is_there(key));
    }
}

/// What came of a group whose resource is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// It stays, as its resource said.
    Kept,
    /// It was deleted, as its resource said.
    Deleted,
    /// There was none.
    Absent,
    /// It has members, and stays although its resource said otherwise.
    HasMembers,
}

/// Deletes the group of a resource that is gone, if that said so, and nobody uses the group.
///
/// # Errors
/// When it cannot be done now.
pub async fn remove(
    id: &str,
    management: Management,
    policy: DeletionPolicy,
    admin: &mut impl GroupAdmin,
) -> Result<Removal, GroupsError> {
    if policy != DeletionPolicy::Delete || management == Management::Observe {
        return Ok(Removal::Kept);
    }
    match admin.delete(id).await {
        Ok(()) => Ok(Removal::Deleted),
        Err(error) => match error.refusal() {
            Some(ErrorCode::NonEmptyGroup) => Ok(Removal::HasMembers),
            Some(ErrorCode::GroupIdNotFound) => Ok(Removal::Absent),
            _ => Err(error),
        },
    }
}
