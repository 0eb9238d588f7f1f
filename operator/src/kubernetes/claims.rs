//! Who has the word about a thing that several resources name.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::ResourceExt;

use crate::crd::parts::Management;
use crate::crd::{ConsumerGroup, Topic};
use crate::reconcile::consumer_group::group_id;

/// A resource about something that another one may name too.
pub trait Claim: ResourceExt {
    /// What it names.
    fn claimed(&self) -> String;

    /// Whether it makes that so, or only watches.
    fn management(&self) -> Management;
}

impl Claim for Topic {
    fn claimed(&self) -> String {
        self.spec.topic_name.clone().unwrap_or_else(|| self.name_any())
    }

    fn management(&self) -> Management {
        self.spec.management
    }
}

impl Claim for ConsumerGroup {
    fn claimed(&self) -> String {
        group_id(self)
    }

    fn management(&self) -> Management {
        self.spec.management
    }
}

/// Who has the word about each thing.
#[derive(Debug)]
pub struct Claims<T> {
    /// The resource that it is made after.
    pub owners: BTreeMap<String, Arc<T>>,
    /// Resources that only watch, and those that are too late, with the owner's name.
    pub others: Vec<(Arc<T>, Option<String>)>,
}

/// Sorts out who owns what: the oldest resource that manages it. Resources that only watch are in nobody's way.
pub fn claims<T: Claim>(resources: &[Arc<T>]) -> Claims<T> {
    let age = |resource: &Arc<T>| (resource.creation_timestamp().map(|time| time.0), resource.uid());
    let mut sorted: Vec<&Arc<T>> = resources.iter().collect();
    sorted.sort_by_key(|resource| age(resource));
    let mut claims = Claims { owners: BTreeMap::<String, Arc<T>>::new(), others: Vec::new() };
    for resource in sorted {
        if resource.management() == Management::Observe {
            claims.others.push((Arc::clone(resource), None));
            continue;
        }
        match claims.owners.get(&resource.claimed()) {
            Some(owner) => {
                let owner = format!("{}/{}", owner.namespace().unwrap_or_default(), owner.name_any());
                claims.others.push((Arc::clone(resource), Some(owner)));
            }
            None => drop(claims.owners.insert(resource.claimed(), Arc::clone(resource))),
        }
    }
    claims
}
