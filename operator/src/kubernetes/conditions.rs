//! Conditions, compared with what was reported before.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use taffrail_runtime::time;

/// Now, as conditions carry it: to the second.
pub fn now() -> Time {
    let now = Timestamp::from_millisecond(time::unix_ms()).unwrap_or_default();
    Time(Timestamp::from_second(now.as_second()).unwrap_or_default())
}

/// The conditions to report: those whose status stays keep the time of their last transition, so that a report without news
/// is the same as the one before.
pub fn carried_over(before: &[Condition], mut after: Vec<Condition>) -> Vec<Condition> {
    for condition in &mut after {
        let same = before.iter().find(|old| old.type_ == condition.type_ && old.status == condition.status);
        if let Some(old) = same {
            condition.last_transition_time = old.last_transition_time.clone();
        }
    }
    after
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crd::parts::condition;
    use crate::crd::reasons::Reason;

    #[test]
    fn a_condition_keeps_its_time_while_its_status_stays() {
        let at = |second| Time(Timestamp::from_second(second).unwrap());
        let ready =
            |status: bool, second| condition("Ready", status.into(), Reason::Serving, "text", Some(1), at(second));
        let before = [ready(true, 10)];
        let times = |after: Condition| carried_over(&before, vec![after])[0].last_transition_time.clone();
        assert_eq!(times(ready(true, 20)), at(10));
        assert_eq!(times(ready(false, 20)), at(20));
    }
}
