//! How topics differ from their resources.

use std::collections::BTreeMap;

use taffrail_client::kafka::{KafkaClient, Topic, TopicSetting};
use taffrail_core::config::Overrides;
use taffrail_operator::crd::reasons::Reason;
use taffrail_operator::reconcile::topic::{Action, ObservedTopic, TopicPlan, ValidTopic, build};

/// A topic beside its resource.
#[derive(Debug)]
pub(super) struct Compared {
    pub(super) name: String,
    /// What would make it as its resource says.
    pub(super) plan: TopicPlan,
    pub(super) differences: Vec<Difference>,
    /// Why it cannot be made so.
    pub(super) problem: Option<String>,
}

/// A difference between a topic and its resource.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Difference {
    pub(super) field: String,
    /// What the topic has, if it has anything.
    pub(super) have: Option<String>,
    /// What the resource says, if it says anything.
    pub(super) want: Option<String>,
}

impl Compared {
    fn of(wanted: &ValidTopic, observed: Option<&ObservedTopic>) -> Self {
        // Nothing is placed and nothing is deleted here, so a topic that depends on that is left as it is.
        let left_out =
            [("assignment", !wanted.assignment.is_empty()), ("deleteDeadline", wanted.delete_deadline_ms.is_some())];
        if let Some((field, _)) = left_out.iter().find(|(_, is_there)| *is_there) {
            let problem = format!("spec.{field} is for an operator or `taffrail up`: nothing is done about this topic");
            let (plan, differences) = (TopicPlan::default(), Vec::new());
            return Self { name: wanted.name.clone(), plan, differences, problem: Some(problem) };
        }
        let plan = build(wanted, observed, 0);
        let differences = match plan.actions.first() {
            Some(Action::Create { partitions, replicas, config, .. }) => created(*partitions, *replicas, config),
            _ => plan
                .drift
                .iter()
                .map(|drift| Difference {
                    field: drift.field.clone(),
                    have: drift.have.clone(),
                    want: drift.want.clone(),
                })
                .collect(),
        };
        let problem = plan.stall.as_ref().map(|stall| match (stall.reason, observed) {
            (Reason::ReplicasCannotChange, Some(observed)) => format!(
                "it has {} replicas of each partition; `taffrail cluster move` gives it others",
                observed.replicas
            ),
            _ => stall.message.clone(),
        });
        Self { name: wanted.name.clone(), plan, differences, problem }
    }

    /// Whether there is nothing to say.
    pub(super) fn is_same(&self) -> bool {
        self.plan.actions.is_empty() && self.differences.is_empty() && self.problem.is_none()
    }

    /// What is to be done, in a word.
    pub(super) fn word(&self) -> &'static str {
        match self.plan.actions.first() {
            Some(Action::Create { .. }) => "create",
            Some(_) => "change",
            None if self.is_same() => "unchanged",
            None => "differs",
        }
    }
}

fn created(partitions: Option<i32>, replicas: Option<i16>, config: &Overrides) -> Vec<Difference> {
    let difference = |field: &str, want: String| Difference { field: field.to_owned(), have: None, want: Some(want) };
    let default = || "(the cluster's default)".to_owned();
    let sizes = [
        difference("partitions", partitions.map_or_else(default, |count| count.to_string())),
        difference("replicas", replicas.map_or_else(default, |count| count.to_string())),
    ];
    let settings = config.iter().map(|(name, value)| difference(&format!("config[{name}]"), value.clone()));
    sizes.into_iter().chain(settings).collect()
}

/// Compares topics as they are wanted with those that are there.
///
/// # Errors
/// When the cluster does not tell.
pub(super) async fn compare(client: &mut KafkaClient, wanted: Vec<ValidTopic>) -> anyhow::Result<Vec<Compared>> {
    let names: Vec<String> = wanted.iter().map(|topic| topic.name.clone()).collect();
    let there = client.topics_that_exist(&names).await?;
    let names: Vec<String> = there.iter().map(|topic| topic.name.clone()).collect();
    let settings = client.topic_settings(&names).await?;
    let observed: BTreeMap<String, ObservedTopic> =
        there.iter().zip(&settings).map(|(topic, settings)| (topic.name.clone(), observed(topic, settings))).collect();
    Ok(wanted.iter().map(|wanted| Compared::of(wanted, observed.get(&wanted.name))).collect())
}

/// A topic as the operator's rules see it.
fn observed(topic: &Topic, settings: &[TopicSetting]) -> ObservedTopic {
    let leaderless = topic.partitions.iter().filter(|partition| partition.leader.is_none()).count();
    ObservedTopic {
        id: topic.id,
        partitions: i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX),
        replicas: topic.partitions.first().map_or(0, |first| i16::try_from(first.replicas.len()).unwrap_or(i16::MAX)),
        moving: 0,
        leaderless: i32::try_from(leaderless).unwrap_or(i32::MAX),
        min_isr_margin: 0,
        troubled: Vec::new(),
        config: own(settings),
        misplaced: Vec::new(),
    }
}

/// The settings that are a topic's own and no secrets.
pub(super) fn own(settings: &[TopicSetting]) -> Overrides {
    let own = settings.iter().filter(|setting| setting.is_own());
    own.filter_map(|setting| Some((setting.name.clone(), setting.value.clone()?))).collect()
}

#[cfg(test)]
mod tests {
    use taffrail_operator::reconcile;
    use taffrail_operator::yaml::load_texts;

    use super::*;

    fn wanted(spec: &str) -> ValidTopic {
        let text = format!(
            "apiVersion: taffrail.dev/v1alpha1\nkind: Topic\nmetadata: {{name: t}}\nspec: {{clusterRef: {{name: c}}, {spec}}}\n"
        );
        let resources = load_texts(&[("f.yaml".to_owned(), text)]).unwrap();
        reconcile::validate(&resources).unwrap().topics.remove("t").unwrap()
    }

    fn there(partitions: i32, replicas: i16, config: &[(&str, &str)]) -> ObservedTopic {
        ObservedTopic {
            id: taffrail_core::ids::Uuid::default(),
            partitions,
            replicas,
            moving: 0,
            leaderless: 0,
            min_isr_margin: 0,
            troubled: Vec::new(),
            config: config.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            misplaced: Vec::new(),
        }
    }

    #[test]
    fn what_differs_is_told_field_by_field() {
        let told = |spec: &str, observed: Option<ObservedTopic>| {
            let compared = Compared::of(&wanted(spec), observed.as_ref());
            let differences = compared.differences.iter().map(|it| {
                let [have, want] = [&it.have, &it.want].map(|value| value.as_deref().unwrap_or("-").to_owned());
                format!("{} {have} {want}", it.field)
            });
            (compared.word(), differences.collect::<Vec<_>>().join("; "), compared.problem)
        };
        let config = "config: {retention.ms: 5000}";
        let cases = [
            (
                format!("partitions: 3, {config}"),
                None,
                "create",
                "partitions - 3; replicas - (the cluster's default); config[retention.ms] - 5000",
            ),
            (config.to_owned(), Some(there(1, 1, &[("retention.ms", "5000")])), "unchanged", ""),
            (
                format!("partitions: 3, {config}"),
                Some(there(1, 1, &[("segment.ms", "9")])),
                "change",
                "partitions 1 3; config[retention.ms] - 5000; config[segment.ms] 9 -",
            ),
            ("partitions: 3, driftPolicy: Report".to_owned(), Some(there(1, 1, &[])), "differs", "partitions 1 3"),
        ];
        for (spec, observed, word, differences) in cases {
            assert_eq!(told(&spec, observed), (word, differences.to_owned(), None), "{spec}");
        }
        let (word, _, problem) = told("partitions: 1, replicas: 1", Some(there(3, 1, &[])));
        assert!(word == "differs" && problem.unwrap().contains("cannot be taken away"));
        let transient = ValidTopic { delete_deadline_ms: Some(0), ..wanted("partitions: 1") };
        let compared = Compared::of(&transient, None);
        assert_eq!(compared.word(), "differs");
        assert!(compared.problem.unwrap().starts_with("spec.deleteDeadline is for an operator"));
        let (_, _, problem) = told("replicas: 3", Some(there(3, 1, &[])));
        assert!(problem.unwrap().contains("`taffrail cluster move` gives it others"));
    }
}
