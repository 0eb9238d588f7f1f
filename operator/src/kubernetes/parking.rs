//! Workloads that are scaled to nothing for a reset of their group's offsets, and back when it is done.
//!
//! From before a workload is scaled down until after it is scaled back, a ConfigMap beside the ConsumerGroup says how many
//! replicas it had: whoever goes on after a crash, with another spec or without the resource, finds it there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use super::api::{ApiError, Kube};
use super::cache::Key;
use super::caches::Caches;
use super::events::Events;
use super::names::{MANAGED_BY_LABEL, MANAGER, Names, PARKED_LABEL};
use crate::crd::ConsumerGroup;
use crate::crd::reasons::{EventReason, Reason};
use crate::reconcile::consumer_group::{Applied, Blocked, ValidGroup, ValidReset, Workload};

/// How long a group may keep members while its workload is parked: those that are left then belong to something else.
const PARKED_MAX: Duration = Duration::from_secs(300);

/// Keys of the ConfigMap.
mod field {
    /// The Cluster, with its namespace.
    pub(super) const CLUSTER: &str = "cluster";
    /// Name of the ConsumerGroup.
    pub(super) const RESOURCE: &str = "consumerGroup";
    /// The reset that it is for.
    pub(super) const REQUEST: &str = "requestId";
    /// Kind of the workload.
    pub(super) const KIND: &str = "kind";
    /// Its name.
    pub(super) const NAME: &str = "name";
    /// Replicas that it had.
    pub(super) const REPLICAS: &str = "replicas";
    /// Since when it has none.
    pub(super) const SINCE: &str = "since";
    /// Whether it was in vain, and the workload is scaled back already.
    pub(super) const IN_VAIN: &str = "inVain";
}

/// A workload that is parked.
#[derive(Clone, Debug, PartialEq)]
struct Parked {
    map: ConfigMap,
    request: String,
    workload: Workload,
    replicas: i32,
    since: Timestamp,
    in_vain: bool,
}

impl Parked {
    /// What a ConfigMap says; `None` if somebody has made nonsense of it.
    fn read(map: &ConfigMap) -> Option<Self> {
        let text = |key: &str| says(map, key).map(String::as_str);
        Some(Self {
            map: map.clone(),
            request: text(field::REQUEST)?.to_owned(),
            workload: Workload::named(text(field::KIND)?, text(field::NAME)?)?,
            replicas: text(field::REPLICAS)?.parse().ok()?,
            since: text(field::SINCE)?.parse().ok()?,
            in_vain: text(field::IN_VAIN).is_some(),
        })
    }

    /// The same, from now on in vain.
    fn map_in_vain(&self) -> ConfigMap {
        let mut data = self.map.data.clone().unwrap_or_default();
        data.insert(field::IN_VAIN.to_owned(), "true".to_owned());
        let ObjectMeta { name, namespace, labels, .. } = self.map.metadata.clone();
        let metadata = ObjectMeta { name, namespace, labels, ..ObjectMeta::default() };
        ConfigMap { metadata, data: Some(data), ..ConfigMap::default() }
    }

    fn is_for(&self, reset: &ValidReset) -> bool {
        self.request == reset.id && Some(&self.workload) == reset.park.as_ref()
    }
}

/// Parks workloads, and brings them back.
pub struct Parking {
    kube: Kube,
    events: Events,
    caches: Arc<Caches>,
}

impl Parking {
    /// Through `kube`, told through `events`; `caches` has the ConfigMaps.
    pub fn new(kube: Kube, events: Events, caches: Arc<Caches>) -> Self {
        Self { kube, events, caches }
    }

    fn find(&self, group: &ConsumerGroup) -> Option<Arc<ConfigMap>> {
        self.caches.maps.get(&group.namespace().unwrap_or_default(), &map_name(&group.name_any()))
    }

    /// Parks the workload of a group whose reset waits for its members, or brings it back if there is nothing to wait for.
    /// Gives what the reset waits for instead.
    ///
    /// # Errors
    /// When the workload cannot be scaled.
    pub async fn pass(
        &self,
        (group, valid, names): (&ConsumerGroup, &ValidGroup, &Names),
        applied: &Applied,
        now: &Time,
    ) -> Result<Option<Blocked>, ApiError> {
        let found = self.find(group).and_then(|map| Parked::read(&map));
        let reset = valid.reset.as_ref().filter(|reset| reset.park.is_some());
        match (waits_for_members(applied).zip(reset), found) {
            (None, None) => Ok(None),
            (None, Some(parked)) => self.bring_back(Some(group), &parked).await.map(|()| None),
            (Some((blocked, reset)), None) if blocked.reason == Reason::GroupActive => {
                self.park((group, names), reset, blocked, now).await.map(Some)
            }
            (Some(_), None) => Ok(None),
            (Some((blocked, reset)), Some(parked)) if parked.is_for(reset) => {
                self.wait(group, &parked, blocked, now).await.map(Some)
            }
            (Some((blocked, _)), Some(parked)) => {
                // Another request, or another workload: the next pass parks that.
                self.bring_back(Some(group), &parked).await?;
                Ok(Some(blocked.clone()))
            }
        }
    }

    async fn park(
        &self,
        (group, names): (&ConsumerGroup, &Names),
        reset: &ValidReset,
        blocked: &Blocked,
        now: &Time,
    ) -> Result<Blocked, ApiError> {
        let Some(workload) = &reset.park else { return Ok(blocked.clone()) };
        let namespace = group.namespace().unwrap_or_default();
        let replicas = match self.kube.replicas(&namespace, workload).await? {
            None => return Ok(Blocked::new(Reason::NotParked, format!("there is no {workload} in this namespace"))),
            Some(0) => {
                let message =
                    format!("{workload} has no replicas: other members are in the group. {}", blocked.message);
                return Ok(Blocked::new(Reason::GroupActive, message));
            }
            Some(replicas) => replicas,
        };
        let map = describe((group, names), reset, workload, replicas, now);
        self.caches.maps.put(self.kube.apply(&map).await?);
        self.kube.set_replicas(&namespace, workload, 0).await?;
        let note = format!("{workload} is scaled from {replicas} replicas to none for the reset {}", reset.id);
        self.events.tell(group, EventReason::WorkloadParked, note).await;
        Ok(leaving(workload, blocked))
    }

    /// Waits for the members of a parked workload to leave, but not without end.
    async fn wait(
        &self,
        group: &ConsumerGroup,
        parked: &Parked,
        blocked: &Blocked,
        now: &Time,
    ) -> Result<Blocked, ApiError> {
        let workload = &parked.workload;
        let in_vain = || {
            let minutes = PARKED_MAX.as_secs() / 60;
            let message =
                format!("members stayed for {minutes} minutes without {workload}, which is back. {}", blocked.message);
            Blocked::new(Reason::GroupActive, message)
        };
        if parked.in_vain {
            return Ok(in_vain());
        }
        let waited_ms = now.0.as_millisecond().saturating_sub(parked.since.as_millisecond());
        if blocked.reason == Reason::GroupActive
            && u128::try_from(waited_ms).is_ok_and(|ms| ms > PARKED_MAX.as_millis())
        {
            self.scale_back(Some(group), parked).await?;
            self.caches.maps.put(self.kube.apply(&parked.map_in_vain()).await?);
            return Ok(in_vain());
        }
        // Who was to scale it may have died before.
        let namespace = group.namespace().unwrap_or_default();
        if self.kube.replicas(&namespace, workload).await?.is_some_and(|replicas| replicas > 0) {
            self.kube.set_replicas(&namespace, workload, 0).await?;
        }
        Ok(if blocked.reason == Reason::GroupActive { leaving(workload, blocked) } else { blocked.clone() })
    }

    /// The ConfigMaps of a Cluster's ConsumerGroups.
    fn of_cluster(&self, names: &Names) -> Vec<Arc<ConfigMap>> {
        let cluster = cluster_of(names);
        self.caches
            .maps
            .select(|map| map.labels().contains_key(PARKED_LABEL) && says(map, field::CLUSTER) == Some(&cluster))
    }

    /// Whether anything is parked for this Cluster's groups.
    pub fn has_any(&self, names: &Names) -> bool {
        !self.of_cluster(names).is_empty()
    }

    /// Brings back what was parked by resources of this Cluster that nobody looks at any more.
    ///
    /// # Errors
    /// When a workload cannot be scaled.
    pub async fn bring_back_orphans(&self, names: &Names, is_looked_at: impl Fn(&Key) -> bool) -> Result<(), ApiError> {
        for map in self.of_cluster(names) {
            let key = says(&map, field::RESOURCE).map(|name| Key::new(map.namespace().unwrap_or_default(), name));
            if let Some(parked) = Parked::read(&map).filter(|_| key.is_none_or(|key| !is_looked_at(&key))) {
                self.bring_back(None, &parked).await?;
            }
        }
        Ok(())
    }

    /// Scales a workload back, and forgets that it was parked.
    async fn bring_back(&self, group: Option<&ConsumerGroup>, parked: &Parked) -> Result<(), ApiError> {
        if !parked.in_vain {
            self.scale_back(group, parked).await?;
        }
        self.kube.delete(&parked.map).await?;
        self.caches.maps.forget(&parked.map.namespace().unwrap_or_default(), &parked.map.name_any());
        Ok(())
    }

    /// Scales a workload back, unless somebody else has scaled it meanwhile, or it is gone.
    async fn scale_back(&self, group: Option<&ConsumerGroup>, parked: &Parked) -> Result<(), ApiError> {
        let Parked { workload, replicas, .. } = parked;
        let namespace = parked.map.namespace().unwrap_or_default();
        if self.kube.replicas(&namespace, workload).await? != Some(0) {
            return Ok(());
        }
        self.kube.set_replicas(&namespace, workload, *replicas).await?;
        let note = format!("{workload} is scaled back to {replicas} replicas");
        tracing::info!(namespace, "{note}");
        if let Some(group) = group {
            self.events.tell(group, EventReason::WorkloadRestored, note).await;
        }
        Ok(())
    }
}

/// What a reset waits for, if that passes once the group's members are gone: leaders that are silent for a while are no reason
/// to have the members back, and gone again.
fn waits_for_members(applied: &Applied) -> Option<&Blocked> {
    match applied {
        Applied::Blocked(blocked) if [Reason::GroupActive, Reason::LeadersSilent].contains(&blocked.reason) => {
            Some(blocked)
        }
        _ => None,
    }
}

fn says<'m>(map: &'m ConfigMap, key: &str) -> Option<&'m String> {
    map.data.as_ref()?.get(key)
}

fn leaving(workload: &Workload, blocked: &Blocked) -> Blocked {
    Blocked::new(
        Reason::Parking,
        format!("{workload} is scaled to nothing until the reset is done. {}", blocked.message),
    )
}

fn map_name(group: &str) -> String {
    format!("{group}-parked")
}

fn cluster_of(names: &Names) -> String {
    format!("{}/{}", names.namespace, names.cluster)
}

fn describe(
    (group, names): (&ConsumerGroup, &Names),
    reset: &ValidReset,
    workload: &Workload,
    replicas: i32,
    now: &Time,
) -> ConfigMap {
    let data = [
        (field::CLUSTER, cluster_of(names)),
        (field::RESOURCE, group.name_any()),
        (field::REQUEST, reset.id.clone()),
        (field::KIND, workload.kind.name().to_owned()),
        (field::NAME, workload.name.clone()),
        (field::REPLICAS, replicas.to_string()),
        (field::SINCE, now.0.to_string()),
    ];
    let labels = [(MANAGED_BY_LABEL, MANAGER), (PARKED_LABEL, "true")];
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(map_name(&group.name_any())),
            namespace: group.namespace(),
            labels: Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
            ..ObjectMeta::default()
        },
        data: Some(data.map(|(key, value)| (key.to_owned(), value)).into_iter().collect::<BTreeMap<_, _>>()),
        ..ConfigMap::default()
    }
}
