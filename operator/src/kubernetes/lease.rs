//! Which of several operators leads: whoever holds a Lease.
//!
//! The decision is a pure function of the Lease and of how long this process has seen it unchanged, by its own clock: the
//! clocks of two machines are never compared. Writes carry the version that was read, so of two that try at once one wins.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, PostParams};
use taffrail_runtime::time::{self, Instant};

use super::names::MANAGER;

/// How long a Lease holds after its holder was heard of last.
const DURATION: Duration = Duration::from_secs(15);

/// How often the holder says that it lives.
const RENEW: Duration = Duration::from_secs(5);

/// How long the holder goes on without having been able to say so; before anybody else may take over.
const GIVE_UP: Duration = Duration::from_secs(10);

/// How often those that wait look.
const LOOK: Duration = Duration::from_secs(2);

/// What to do about the Lease.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Write this: it makes, or keeps, this process the holder.
    Write(LeaseSpec),
    /// Somebody else holds it.
    Wait,
}

/// Decides for `me` at `now`, with the Lease unchanged for `unchanged` by the own clock.
pub fn decide(present: Option<&LeaseSpec>, me: &str, unchanged: Duration, now: Timestamp) -> Decision {
    let seconds = i32::try_from(DURATION.as_secs()).unwrap_or(i32::MAX);
    let held = |acquired: MicroTime, transitions: i32| LeaseSpec {
        holder_identity: Some(me.to_owned()),
        lease_duration_seconds: Some(seconds),
        acquire_time: Some(acquired),
        renew_time: Some(MicroTime(now)),
        lease_transitions: Some(transitions),
        ..LeaseSpec::default()
    };
    let Some(present) = present else { return Decision::Write(held(MicroTime(now), 0)) };
    let transitions = present.lease_transitions.unwrap_or(0);
    match present.holder_identity.as_deref() {
        Some(holder) if holder == me => {
            let acquired = present.acquire_time.clone().unwrap_or(MicroTime(now));
            Decision::Write(held(acquired, transitions))
        }
        Some(holder) if !holder.is_empty() => {
            let duration = present.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
            let duration = duration.map_or(DURATION, Duration::from_secs);
            if unchanged < duration { Decision::Wait } else { Decision::Write(held(MicroTime(now), transitions + 1)) }
        }
        _ => Decision::Write(held(MicroTime(now), transitions + 1)),
    }
}

/// Epoch of a holder: when it became that, in milliseconds. Later holders have higher ones, and the clusters refuse lower.
pub fn epoch(spec: &LeaseSpec) -> i64 {
    spec.acquire_time.as_ref().map_or(0, |at| at.0.as_millisecond())
}

/// The Lease is lost: this process must not lead any more.
#[derive(Debug, thiserror::Error)]
#[error("the Lease {name} could not be kept: {reason}")]
pub struct LeaseLost {
    name: String,
    reason: String,
}

/// One process's part in the election.
pub struct Elector {
    api: Api<Lease>,
    name: String,
    me: String,
    /// The Lease as it was read last, and when it had last changed.
    seen: Option<(Lease, Instant)>,
}

impl Elector {
    /// A part in the election by the Lease `name` in `namespace`, as `me`.
    pub fn new(client: Client, namespace: &str, name: &str, me: &str) -> Self {
        Self { api: Api::namespaced(client, namespace), name: name.to_owned(), me: me.to_owned(), seen: None }
    }

    /// Waits until this process leads; gives its epoch.
    pub async fn lead(&mut self) -> i64 {
        let mut is_told = false;
        loop {
            match self.attempt().await {
                Ok(Some(epoch)) => return epoch,
                Ok(None) if !std::mem::replace(&mut is_told, true) => {
                    tracing::info!(lease = self.name, "another operator leads; waiting");
                }
                Ok(None) => {}
                Err(error) => tracing::warn!(lease = self.name, %error, "the Lease cannot be read or written"),
            }
            time::sleep(LOOK).await;
        }
    }

    /// Keeps leading; ends when that is lost.
    pub async fn keep(&mut self) -> LeaseLost {
        let mut kept_at = time::monotonic();
        loop {
            time::sleep(RENEW).await;
            let reason = match time::timeout(GIVE_UP, self.attempt()).await {
                Ok(Ok(Some(_))) => {
                    kept_at = time::monotonic();
                    continue;
                }
                Ok(Ok(None)) => return self.lost("another operator has it".to_owned()),
                Ok(Err(error)) => error.to_string(),
                Err(_) => "the API server does not answer".to_owned(),
            };
            if kept_at.elapsed() >= GIVE_UP {
                return self.lost(reason);
            }
        }
    }

    fn lost(&self, reason: String) -> LeaseLost {
        LeaseLost { name: self.name.clone(), reason }
    }

    /// Reads the Lease, and writes what is decided; the epoch, if this process holds it now.
    async fn attempt(&mut self) -> Result<Option<i64>, kube::Error> {
        let read = self.api.get_opt(&self.name).await?;
        let now = time::monotonic();
        let unchanged = match (&read, &self.seen) {
            (Some(read), Some((seen, since))) if read.metadata.resource_version == seen.metadata.resource_version => {
                now - *since
            }
            _ => Duration::ZERO,
        };
        if let Some(lease) = &read {
            self.seen = Some((lease.clone(), now - unchanged));
        }
        let wall = Timestamp::from_millisecond(time::unix_ms()).unwrap_or_default();
        let spec = read.as_ref().map(|lease| lease.spec.clone().unwrap_or_default());
        let Decision::Write(spec) = decide(spec.as_ref(), &self.me, unchanged, wall) else { return Ok(None) };
        self.write(read, spec).await
    }

    /// Writes the Lease over the version that was read; the epoch, if nobody was quicker.
    async fn write(&mut self, read: Option<Lease>, spec: LeaseSpec) -> Result<Option<i64>, kube::Error> {
        let epoch = epoch(&spec);
        let parameters = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        let written = match read {
            Some(lease) => {
                let lease = Lease { spec: Some(spec), ..lease };
                self.api.replace(&self.name, &parameters, &lease).await
            }
            None => {
                let metadata = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
                self.api.create(&parameters, &Lease { metadata, spec: Some(spec) }).await
            }
        };
        match written {
            Ok(lease) => {
                self.seen = Some((lease, time::monotonic()));
                Ok(Some(epoch))
            }
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Gives the Lease back, so that the next one need not wait.
    pub async fn give_back(&mut self) {
        let Some((lease, _)) = self.seen.take() else { return };
        let spec = LeaseSpec { holder_identity: Some(String::new()), ..lease.spec.clone().unwrap_or_default() };
        if let Err(error) = self.write(Some(lease), spec).await {
            tracing::debug!(%error, "the Lease could not be given back");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn held_by(holder: &str) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(15),
            acquire_time: Some(MicroTime(at(10))),
            renew_time: Some(MicroTime(at(20))),
            lease_transitions: Some(4),
            ..LeaseSpec::default()
        }
    }

    fn decided(present: Option<LeaseSpec>, unchanged_seconds: u64) -> Option<(i64, i32)> {
        match decide(present.as_ref(), "me", Duration::from_secs(unchanged_seconds), at(100)) {
            Decision::Wait => None,
            Decision::Write(spec) => {
                assert_eq!(spec.holder_identity.as_deref(), Some("me"));
                assert_eq!(spec.renew_time, Some(MicroTime(at(100))));
                Some((epoch(&spec) / 1000, spec.lease_transitions.unwrap()))
            }
        }
    }

    #[test]
    fn a_lease_is_taken_when_nobody_has_it_or_its_holder_is_silent() {
        for (present, unchanged_seconds, expected) in [
            (None, 0, Some((100, 0))),
            (Some(held_by("")), 0, Some((100, 5))),
            (Some(LeaseSpec::default()), 0, Some((100, 1))),
            (Some(held_by("other")), 0, None),
            (Some(held_by("other")), 14, None),
            (Some(held_by("other")), 15, Some((100, 5))),
            (Some(held_by("me")), 0, Some((10, 4))),
            (Some(held_by("me")), 99, Some((10, 4))),
        ] {
            assert_eq!(decided(present.clone(), unchanged_seconds), expected, "{present:?} for {unchanged_seconds} s");
        }
    }

    #[test]
    fn the_clock_of_the_holder_does_not_count() {
        let lies = LeaseSpec { renew_time: Some(MicroTime(at(-1_000_000))), ..held_by("other") };
        assert_eq!(decided(Some(lies), 1), None);
    }
}
