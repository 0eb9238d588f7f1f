//! ConsumerGroups of files, as `taffrail up` acts on them, against groups in this process.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

mod memory_groups;

use taffrail_operator::crd::ConsumerGroupStatus;
use taffrail_operator::local::{Groups, LocalGroups, load};

use memory_groups::MemoryGroups;

/// What a file with these groups asks for; each is a name and what its spec says.
fn wanted(groups: &[(&str, &str)]) -> Groups {
    let resource = |(name, spec): &(&str, &str)| {
        format!(
            "---\napiVersion: taffrail.dev/v1alpha1\nkind: ConsumerGroup\nmetadata: {{name: {name}}}\nspec: {{clusterRef: {{name: dev}}, {spec}}}\n"
        )
    };
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.yaml");
    std::fs::write(&file, groups.iter().map(resource).collect::<String>()).unwrap();
    load(&[file]).unwrap().groups
}

/// An operator of a cluster where `billing` has read some of `orders`.
fn operator() -> LocalGroups<MemoryGroups> {
    let mut groups = MemoryGroups::default();
    groups.topic("orders", 2);
    groups.group("billing", "orders", &[40, 50]);
    LocalGroups::new(groups)
}

fn condition(status: &ConsumerGroupStatus, type_: &str) -> Option<(String, String)> {
    let found = status.conditions.iter().find(|found| found.type_ == type_)?;
    Some((found.status.clone(), found.reason.clone()))
}

fn state(status: &str, reason: &str) -> Option<(String, String)> {
    Some((status.to_owned(), reason.to_owned()))
}

const RESET: &str = "management: Managed, reset: {requestId: one, to: Earliest}";

#[tokio::test]
async fn a_watched_group_is_reported() {
    let mut operator = operator();
    let wanted = wanted(&[("billing", ""), ("none", "")]);
    assert!(!operator.pass(&wanted, Groups::new()).await.0);
    let status = operator.report("billing").unwrap();
    assert_eq!((status.state.as_deref(), status.total_lag, status.lag_seconds), (Some("Empty"), Some(110), Some(7)));
    assert_eq!(condition(status, "Ready"), state("True", "Watched"));
    assert_eq!(condition(operator.report("none").unwrap(), "Ready"), state("False", "NotFound"));
    operator.admin().is_away = true;
    assert!(operator.pass(&wanted, Groups::new()).await.0, "it is looked at again soon");
    let status = operator.report("billing").unwrap();
    assert_eq!((condition(status, "Ready"), status.total_lag), (state("Unknown", "Unreachable"), Some(110)));
}

#[tokio::test]
async fn a_reset_waits_for_the_members_and_is_done_once_whatever_is_started_again() {
    let mut first = operator();
    first.admin().groups.get_mut("billing").unwrap().members = 1;
    assert!(first.pass(&wanted(&[("billing", RESET)]), Groups::new()).await.0);
    assert_eq!(condition(first.report("billing").unwrap(), "ResetBlocked"), state("True", "GroupActive"));
    first.admin().groups.get_mut("billing").unwrap().members = 0;
    assert!(!first.pass(&wanted(&[("billing", RESET)]), Groups::new()).await.0);
    assert_eq!(first.admin().committed("billing"), [10, 10]);
    assert_eq!(first.report("billing").unwrap().last_reset.as_ref().unwrap().before["orders-1"], 50);
    first.admin().group("billing", "orders", &[70, 70]);
    let mut second = LocalGroups::new(std::mem::take(first.admin()));
    assert!(!second.pass(&wanted(&[("billing", RESET)]), Groups::new()).await.0);
    assert_eq!(second.admin().committed("billing"), [70, 70]);
    assert_eq!(condition(second.report("billing").unwrap(), "ResetComplete"), state("True", "Done"));
}

#[tokio::test]
async fn a_group_goes_with_its_resource_only_if_that_said_so_and_once_it_can() {
    for (spec, is_kept) in [
        ("management: Managed, deletionPolicy: Delete", false),
        ("management: Managed", true),
        ("deletionPolicy: Delete", true),
    ] {
        let mut operator = operator();
        operator.pass(&wanted(&[("billing", spec)]), Groups::new()).await;
        operator.admin().is_away = true;
        let (is_waiting, undone) = operator.pass(&Groups::new(), wanted(&[("billing", spec)])).await;
        assert_eq!((is_waiting, undone.len()), (!is_kept, usize::from(!is_kept)), "{spec}");
        operator.admin().is_away = false;
        assert!(operator.pass(&Groups::new(), undone).await.1.is_empty());
        assert_eq!(operator.admin().groups.contains_key("billing"), is_kept, "{spec}");
        assert!(operator.report("billing").is_none());
    }
}
