//! What is in the Kubernetes API, kept up to date by watching it.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::StreamExt;
use kube::ResourceExt;
use kube::api::Api;
use kube::core::DeserializeGuard;
use kube::core::error_boundary::InvalidObject;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use parking_lot::RwLock;

use super::api::Namespaced;

/// Namespace and name of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Key {
    /// The key of an object of this name.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    fn of<K: Namespaced>(object: &K) -> Self {
        Self::new(object.namespace().unwrap_or_default(), object.name_any())
    }
}

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is there, new or changed.
    Applied,
    /// It was deleted, and somebody saw it.
    Deleted,
    /// It is not there any more, and nobody saw it go.
    Missed,
}

/// All objects of one kind that are watched.
#[derive(Debug)]
pub struct Cache<K> {
    objects: RwLock<BTreeMap<Key, Arc<K>>>,
    /// Watches that have not listed what there is yet.
    waiting: AtomicUsize,
}

impl<K> Default for Cache<K> {
    fn default() -> Self {
        Self { objects: RwLock::default(), waiting: AtomicUsize::new(0) }
    }
}

impl<K: Namespaced> Cache<K> {
    /// One object.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        self.objects.read().get(&Key::new(namespace, name)).cloned()
    }

    /// The objects that `wanted` picks.
    pub fn select(&self, wanted: impl Fn(&K) -> bool) -> Vec<Arc<K>> {
        self.objects.read().values().filter(|object| wanted(object)).cloned().collect()
    }

    /// Whether everything that there is has been listed.
    pub fn is_synced(&self) -> bool {
        self.waiting.load(Ordering::Acquire) == 0
    }

    /// One more watch is about to start: what there is is not known before it has listed.
    pub fn expect_list(&self) {
        self.waiting.fetch_add(1, Ordering::AcqRel);
    }

    /// Takes over an object that was just written, ahead of the watch: the next pass must not write it again.
    pub fn put(&self, object: K) {
        self.objects.write().insert(Key::of(&object), Arc::new(object));
    }

    /// Forgets an object that was just deleted, ahead of the watch.
    pub fn forget(&self, namespace: &str, name: &str) {
        self.remove(&Key::new(namespace, name));
    }

    fn put_trimmed(&self, mut object: K) -> Arc<K> {
        // Who set which field is of no use here, and takes more room than the object.
        object.managed_fields_mut().clear();
        let object = Arc::new(object);
        self.objects.write().insert(Key::of(&*object), Arc::clone(&object));
        object
    }

    fn remove(&self, key: &Key) {
        self.objects.write().remove(key);
    }

    /// Watches, after [`Self::expect_list`], the objects of `api`, which are those of `namespace` (all if `None`), without end. `told` hears of every change.
    pub async fn watch(
        &self,
        api: Api<DeserializeGuard<K>>,
        namespace: Option<String>,
        selector: watcher::Config,
        told: impl Fn(&Arc<K>, Change),
    ) {
        let mut is_listed = false;
        let mut listed: BTreeSet<Key> = BTreeSet::new();
        let mut events = pin!(watcher(api, selector).default_backoff());
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => listed.clear(),
                Ok(Event::InitApply(object)) => {
                    listed.insert(Key::new(object.namespace().unwrap_or_default(), object.name_any()));
                    if let Some(object) = readable(object) {
                        told(&self.put_trimmed(object), Change::Applied);
                    }
                }
                Ok(Event::InitDone) => {
                    for object in self.forget_all_but(&listed, namespace.as_deref()) {
                        told(&object, Change::Missed);
                    }
                    if !std::mem::replace(&mut is_listed, true) {
                        self.waiting.fetch_sub(1, Ordering::AcqRel);
                    }
                }
                Ok(Event::Apply(object)) => {
                    if let Some(object) = readable(object) {
                        told(&self.put_trimmed(object), Change::Applied);
                    }
                }
                Ok(Event::Delete(object)) => {
                    let key = Key::new(object.namespace().unwrap_or_default(), object.name_any());
                    // Of one that cannot be read, what it was when it could be.
                    let last = self.get(&key.namespace, &key.name);
                    self.remove(&key);
                    if let Some(object) = readable(object).map(Arc::new).or(last) {
                        told(&object, Change::Deleted);
                    }
                }
                Err(error) => {
                    let kind = K::kind(&()).into_owned();
                    tracing::warn!(kind, namespace, %error, "watching is interrupted, and tried again");
                }
            }
        }
    }

    /// Forgets the objects of `namespace` that are not listed, and gives them.
    fn forget_all_but(&self, listed: &BTreeSet<Key>, namespace: Option<&str>) -> Vec<Arc<K>> {
        let mut objects = self.objects.write();
        let is_gone = |key: &&Key| namespace.is_none_or(|own| own == key.namespace) && !listed.contains(*key);
        let gone: Vec<Key> = objects.keys().filter(is_gone).cloned().collect();
        gone.iter().filter_map(|key| objects.remove(key)).collect()
    }
}

/// An object, unless it is none that this release can read: a later one may have written it. It hinders no other one, and
/// what it was before stays what is known of it.
fn readable<K: Namespaced>(object: DeserializeGuard<K>) -> Option<K> {
    match object.0 {
        Ok(object) => Some(object),
        Err(InvalidObject { error, metadata }) => {
            let (kind, name, namespace) = (K::kind(&()).into_owned(), metadata.name, metadata.namespace);
            tracing::warn!(kind, name, namespace, error, "this resource cannot be read, and is left as it is");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn map(namespace: &str, name: &str) -> ConfigMap {
        let mut map = ConfigMap::default();
        (map.metadata.namespace, map.metadata.name) = (Some(namespace.to_owned()), Some(name.to_owned()));
        map
    }

    #[test]
    fn a_new_list_takes_away_what_it_lacks_and_only_in_its_namespace() {
        let cache = Cache::default();
        [map("a", "1"), map("a", "2"), map("b", "1")].into_iter().for_each(|object| cache.put(object));
        let listed = BTreeSet::from([Key::new("a", "1")]);
        let gone = cache.forget_all_but(&listed, Some("a"));
        assert_eq!(gone.iter().map(|map| map.name_any()).collect::<Vec<_>>(), ["2"]);
        assert!(cache.get("b", "1").is_some());
        assert_eq!(cache.forget_all_but(&listed, None).len(), 1);
    }
}
