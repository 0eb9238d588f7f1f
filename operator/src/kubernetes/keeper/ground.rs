//! What stands before the pods: identity, secret, Services, disks, budgets, policies.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use kube::ResourceExt;
use taffrail_runtime::cluster_secret::ClusterSecret;
use taffrail_runtime::random;

use super::super::api::{Namespaced, covers};
use super::super::build;
use super::super::cache::Cache;
use super::super::identity::Identity;
use super::super::names::{CLUSTER_LABEL, LISTENER_LABEL, Node, Role};
use super::super::wanted::Wanted;
use super::{Keeper, KeeperError, Scene};

/// Bytes of a cluster's secret.
const SECRET_BYTES: usize = 32;

impl Keeper {
    /// Which cluster this is: read back, or written down now if it is new. `None` = there is no image to run.
    pub(super) async fn identity(&mut self, wanted: &Wanted) -> Result<Option<Identity>, KeeperError> {
        let (namespace, name) = (&wanted.names.namespace, wanted.names.identity());
        let known = match self.caches.maps.get(namespace, &name) {
            Some(map) => Some(map),
            // Not just what the watch has brought: a second identity would be a second cluster.
            None => self.kube.get::<ConfigMap>(namespace, &name).await?.map(Arc::new),
        };
        if let Some(map) = known {
            let identity = Identity::read(&map)?;
            if identity.resource_uid == wanted.uid || self.has_disks(wanted) {
                return Ok(Some(identity));
            }
            // Of a Cluster that is gone, with all its controllers' disks: nothing of it is left to be lost.
            self.kube.delete(&*map).await?;
            self.caches.maps.forget(namespace, &name);
        }
        let Some(image) = wanted.image.as_ref().or(self.defaults.image.as_ref()) else { return Ok(None) };
        let identity = Identity::new(random::uuid(), image, wanted.controllers, &wanted.uid);
        let metadata = build::beside_disks(wanted, name.clone());
        let map = match self.kube.create(&identity.to_config_map(&wanted.names, metadata)).await? {
            Some(map) => map,
            None => self.kube.get::<ConfigMap>(namespace, &name).await?.unwrap_or_default(),
        };
        let identity = Identity::read(&map)?;
        self.caches.maps.put(map);
        Ok(Some(identity))
    }

    /// Whether there is a disk of any controller.
    fn has_disks(&self, wanted: &Wanted) -> bool {
        let claims = &self.caches.claims;
        let disk = |id| claims.get(&wanted.names.namespace, &wanted.names.claim(Node::controller(id)));
        (0..super::super::names::CONTROLLERS_MAX).any(|id| disk(id).is_some())
    }

    /// The secret that all processes of the cluster share: read back, or made now.
    pub(super) async fn read_trust(&mut self, wanted: &Wanted) -> Result<(), KeeperError> {
        if self.trust.is_some() || wanted.paused {
            return Ok(());
        }
        let (namespace, name) = (&wanted.names.namespace, wanted.names.trust());
        let secret = match self.kube.get::<Secret>(namespace, &name).await? {
            Some(secret) => Some(secret),
            None => {
                let mut bytes = [0; SECRET_BYTES];
                random::fill(&mut bytes);
                let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                self.kube.create(&build::trust(wanted, &text)).await?
            }
        };
        let content = secret.and_then(|secret| secret.data?.remove(build::TRUST_KEY)).unwrap_or_default().0;
        self.trust = Some(ClusterSecret::new(&content).map_err(|_| KeeperError::Trust(name))?);
        Ok(())
    }

    /// Makes what pods need, and what clients begin with.
    pub(super) async fn apply_ground(&mut self, scene: &Scene) -> Result<(), KeeperError> {
        let Scene { wanted, identity, observed, .. } = scene;
        if observed.image.cluster_id().is_some() && !identity.founded {
            // From here on the disks know their cluster, and nobody may found it again.
            let founded = Identity { founded: true, ..identity.clone() };
            let metadata = build::beside_disks(wanted, wanted.names.identity());
            let applied = self.kube.apply(&founded.to_config_map(&wanted.names, metadata)).await?;
            self.caches.maps.put(applied);
            tracing::info!(cluster = wanted.names.cluster, id = %identity.cluster_id, "the cluster is founded");
            self.inbox.news.notify_one();
        }
        let caches = &self.caches;
        self.ensure(&caches.accounts, &build::account(wanted)).await?;
        for role in Role::ALL {
            self.ensure(&caches.services, &build::headless(wanted, role)).await?;
        }
        self.ensure(&caches.services, &build::bootstrap(wanted)).await?;
        self.apply_listeners(scene).await?;
        for role in Role::ALL {
            let nodes = scene.view.wanted.iter().filter(|node| node.role == role).count();
            let stay = build::must_stay(role, nodes, &scene.view);
            let budget = build::budget(wanted, role, i32::try_from(stay).unwrap_or(i32::MAX));
            self.ensure_if(wanted.has_budget, &caches.budgets, &budget).await?;
            self.ensure_if(wanted.has_policy, &caches.policies, &build::policy(wanted, role)).await?;
        }
        Ok(())
    }

    /// Makes the Services of brokers' listeners, and takes away those of listeners and brokers that are gone. Those of a
    /// cluster that is stopped stay, and with them the addresses that clients know.
    async fn apply_listeners(&self, scene: &Scene) -> Result<(), KeeperError> {
        let (wanted, services) = (&scene.wanted, &self.caches.services);
        let ids = scene.brokers.stay.iter().chain(&scene.brokers.leave);
        let wanted_services: Vec<_> = ids.flat_map(|id| build::of_listeners(wanted, *id)).collect();
        for service in &wanted_services {
            self.ensure(services, service).await?;
        }
        let names: BTreeSet<String> = wanted_services.iter().map(ResourceExt::name_any).collect();
        let is_left = |service: &Service| {
            service.namespace().as_ref() == Some(&wanted.names.namespace)
                && service.labels().get(CLUSTER_LABEL) == Some(&wanted.names.cluster)
                && service.labels().contains_key(LISTENER_LABEL)
                && !names.contains(&service.name_any())
        };
        for left in services.select(is_left) {
            self.kube.delete(&*left).await?;
            services.forget(&wanted.names.namespace, &left.name_any());
        }
        Ok(())
    }

    /// Writes an object that is wanted, and deletes one that is not.
    async fn ensure_if<K: Namespaced>(&self, wanted: bool, cache: &Cache<K>, object: &K) -> Result<(), KeeperError> {
        if wanted {
            return self.ensure(cache, object).await;
        }
        if let Some(present) = cache.get(&object.namespace().unwrap_or_default(), &object.name_any()) {
            self.kube.delete(&*present).await?;
        }
        Ok(())
    }

    /// Writes an object unless it is as it should be.
    async fn ensure<K: Namespaced>(&self, cache: &Cache<K>, object: &K) -> Result<(), KeeperError> {
        let present = cache.get(&object.namespace().unwrap_or_default(), &object.name_any());
        let json = |object: &K| serde_json::to_value(object).unwrap_or_default();
        if !present.is_some_and(|present| covers(&json(&present), &json(object))) {
            cache.put(self.kube.apply(object).await?);
        }
        Ok(())
    }

    /// Makes the nodes' disks, and makes those larger that are too small.
    pub(super) async fn apply_claims(&self, scene: &Scene) -> Result<(), KeeperError> {
        let names = &scene.wanted.names;
        for node in &scene.view.wanted {
            let claim = build::claim(&scene.wanted, *node);
            let present = self.caches.claims.get(&names.namespace, &names.claim(*node));
            if present.is_none_or(|present| build::is_grown(&present, &claim)) {
                self.caches.claims.put(self.kube.apply(&claim).await?);
            }
        }
        Ok(())
    }
}
