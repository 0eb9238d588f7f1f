//! What happens beyond what is protected from: every broker's machine loses power at once, so more than `min.insync.replicas`
//! - 1 replicas lose what was not durable, and acknowledged records may be gone from all of them.
//!
//! Then nobody leads before a person asks for it, and the new leader tells exactly what is lost: of all that was
//! acknowledged before, what is at or after the offset that it names, and nothing else.

use std::collections::BTreeMap;

use taffrail_core::ids::{Offset, TopicPartition};
use taffrail_runtime::simulation::{Death, Host};

use super::clients::{self, PARTITIONS, TOPIC};
use super::invariants::{self, View, committed_prefix};
use super::run::{HEALING_MAX_MS, Run};

/// How long clients work after everything was healed, at least and at most.
const LOAD_MS: (u64, u64) = (50, 3_000);

/// How long a machine is without power, at least and at most.
const DARK_MS: (u64, u64) = (20, 3_000);

/// Who asks for leaders.
const PERSON: u8 = 6;

/// Losses that brokers have told of: the first lost offset of each partition. What a process has told stays when it dies.
#[derive(Default)]
pub(super) struct KnownLosses {
    first_lost: BTreeMap<TopicPartition, Offset>,
}

impl KnownLosses {
    /// Takes note of what brokers tell.
    pub(super) fn look(&mut self, view: &View) {
        for loss in view.brokers.iter().flat_map(|broker| broker.running.broker.losses()) {
            let first = self.first_lost.entry(loss.partition).or_insert(loss.from);
            *first = loss.from.min(*first);
        }
    }

    /// Refuses that anything was told.
    ///
    /// # Errors
    /// What was told, where nothing can be lost.
    pub(super) fn check_nothing(&self) -> Result<(), String> {
        if self.first_lost.is_empty() {
            Ok(())
        } else {
            Err(format!("nothing-is-told: {:?} are told to be lost", self.first_lost))
        }
    }

    fn of(&self, partition: i32) -> Option<Offset> {
        self.first_lost.get(&TopicPartition::new(TOPIC, partition)).copied()
    }
}

impl Run {
    /// Has all brokers lose power under load, brings them back, and compares what is gone with what they tell. Gives how many
    /// records are lost that clients knew of.
    ///
    /// # Errors
    /// The promise that is broken.
    pub(super) fn go_beyond(&mut self) -> Result<u64, String> {
        self.losses.check_nothing()?;
        let end_ms = self.simulation.elapsed_ms() + self.rng.between(LOAD_MS.0, LOAD_MS.1);
        while self.simulation.elapsed_ms() < end_ms {
            self.tick()?;
        }
        self.clients.drain(..).for_each(|client| client.end(Death::Process));
        self.invariants = invariants::of_metadata();
        self.trace.note("fault", "all brokers lose power");
        for broker in &mut self.brokers {
            let restart_at_ms = end_ms + self.rng.between(DARK_MS.0, DARK_MS.1);
            broker.end(Death::Machine, restart_at_ms);
        }
        self.until("liveness: all brokers are there again", HEALING_MAX_MS, |run| {
            run.brokers.iter().all(|broker| broker.running().is_some())
        })?;
        let person = clients::elect_anybody(PERSON, self.trace.clone());
        let person = Host::start(&self.simulation, super::machines::client_address(PERSON), person);
        self.clients.push(person.map_err(|error| error.to_string())?);
        self.until("liveness: all replicas are in sync after a loss", HEALING_MAX_MS, |run| {
            run.is_whole() && run.view().brokers.len() == run.brokers.len()
        })?;
        self.compare()
    }

    /// Compares what each replica has with what clients knew of before, and with what is told to be lost.
    fn compare(&self) -> Result<u64, String> {
        let view = self.view();
        let mut lost = 0;
        for partition in 0..PARTITIONS {
            let told = self.losses.of(partition);
            let known = view.ledger.with(partition, |seen| seen.everything_known());
            for broker in &view.brokers {
                let Some((_, log)) = view.replicas(broker).into_iter().find(|(index, _)| *index == partition) else {
                    continue;
                };
                let found = committed_prefix::records(&log, log.log_start_offset(), log.end_offset());
                let found: BTreeMap<_, _> =
                    found.map_err(|error| format!("broker {}: {error}", broker.number))?.into_iter().collect();
                for (offset, value) in &known {
                    let is_gone = found.get(offset) != Some(value);
                    if is_gone != told.is_some_and(|from| *offset >= from) {
                        return Err(format!(
                            "losses-are-told: partition {partition}, offset {offset}: {} on broker {}, and told to be lost is what comes \
                             from {told:?} on",
                            if is_gone { "gone" } else { "there" },
                            broker.number
                        ));
                    }
                }
            }
            lost += known.keys().filter(|offset| told.is_some_and(|from| **offset >= from)).count() as u64;
        }
        Ok(lost)
    }
}
