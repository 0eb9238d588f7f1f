//! The coordinator dies at every step of static members' rejoins: before an append, between an append and what follows
//! from it, between two replies. Afterwards
//!
//! - a static member is fenced only if another process has asked for its place since,
//! - the loaded group is the one that was acknowledged, or a later one.

use super::client::Client;
use super::*;
use proptest::prelude::*;

/// Static instances that the scripts know.
const INSTANCES: [&str; 3] = ["a", "b", "c"];

/// What happens next. Numbers choose an instance, or a client among those that live.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A process starts; `None` = without an instance id. Another one with the same goes on as well.
    Start(Option<usize>),
    Kill(usize),
    Forget(usize),
    Rejoin(usize),
    /// An administrator removes an instance.
    Remove(usize),
    /// Every client takes its replies and sends its next request, this often, without any time passing.
    Act(usize),
    /// Clients act for these milliseconds.
    Pass(i64),
    /// Nobody is heard for these milliseconds.
    Silence(i64),
}
use Event::{Act, Forget, Kill, Pass, Rejoin, Remove, Silence, Start};

/// The group, its clients, and what they were told.
struct Run {
    h: Harness,
    clients: Vec<Client>,
    /// The newest generation that someone was given an assignment of, and what each was given: instance, member, part.
    acknowledged: (i32, Vec<(Option<String>, String, Bytes)>),
    /// How many steps the coordinator lives after each start, the last first.
    fuses: Vec<usize>,
    deaths: usize,
}

impl Run {
    fn new(mut fuses: Vec<usize>) -> Self {
        let mut h = Harness::new();
        h.fuse = fuses.pop();
        Self { h, clients: Vec::new(), acknowledged: (0, Vec::new()), fuses, deaths: 0 }
    }

    fn take(&mut self, event: Event) {
        self.revive();
        let count = self.clients.len();
        match event {
            Start(instance) => {
                let instance_id = instance.map(|i| INSTANCES[i % INSTANCES.len()].to_owned());
                self.clients.push(Client::new(instance_id));
            }
            Act(times) => (0..times).for_each(|_| self.act()),
            Pass(ms) => self.pass(ms),
            Silence(ms) => self.h.advance(ms),
            Remove(i) => self.h.remove_instance(INSTANCES[i % INSTANCES.len()]),
            Kill(_) | Forget(_) | Rejoin(_) if count == 0 => {}
            Kill(i) => {
                self.clients.swap_remove(i % count);
            }
            Forget(i) => self.clients[i % count].forget(),
            Rejoin(i) => self.clients[i % count].rejoin(),
        }
        self.revive();
    }

    fn pass(&mut self, ms: i64) {
        for _ in 0..(ms + 2_999) / 3_000 {
            (0..4).for_each(|_| self.act());
            self.h.advance(3_000);
        }
    }

    fn act(&mut self) {
        for i in 0..self.clients.len() {
            self.revive();
            self.clients[i].act(&mut self.h);
            let client = &mut self.clients[i];
            assert!(!client.is_fenced || client.is_superseded, "fenced, and nobody took its place: {client:?}");
            let claims = std::mem::take(&mut client.has_claimed) && client.instance_id.is_some();
            if client.is_member {
                let told = (client.instance_id.clone(), client.member_id.clone(), client.assignment.clone());
                if client.generation > self.acknowledged.0 {
                    self.acknowledged = (client.generation, vec![told]);
                } else if client.generation == self.acknowledged.0 {
                    self.acknowledged.1.push(told);
                }
            }
            if claims {
                let instance_id = client.instance_id.clone();
                for (other, client) in self.clients.iter_mut().enumerate() {
                    if client.instance_id == instance_id {
                        client.is_superseded = other != i;
                    }
                }
            }
        }
        self.clients.retain(|client| !client.is_fenced);
    }

    /// If the coordinator has died: starts it, and looks at what it has loaded.
    fn revive(&mut self) {
        if !self.h.is_down {
            return;
        }
        self.deaths += 1;
        self.clients.iter_mut().for_each(Client::disconnect);
        self.h.restart();
        self.h.fuse = self.fuses.pop();
        let (generation, told) = &self.acknowledged;
        let Some(group) = self.h.shard.group("g") else {
            assert_eq!(*generation, 0, "an acknowledged group is gone");
            return;
        };
        assert!(group.generation >= *generation, "generation {} was loaded after {generation}", group.generation);
        if group.generation > *generation {
            return;
        }
        for (instance_id, member_id, assignment) in told {
            let is_same = |member: &&Member| match instance_id {
                Some(_) => member.instance_id.as_deref() == instance_id.as_deref(),
                None => *member.member_id == **member_id,
            };
            let member = group.members.values().find(is_same);
            assert_eq!(member.map(|member| &member.assignment), Some(assignment), "what {member_id} was told");
        }
    }

    /// Left in peace, everyone has its place, and the log says the same.
    fn settle(mut self) {
        (self.h.fuse, self.fuses) = (None, Vec::new());
        self.pass(120_000);
        self.revive();
        self.pass(120_000);
        if self.clients.is_empty() {
            assert!(matches!(self.h.state(), None | Some(GroupState::Empty)), "{:?}", self.h.state());
            return;
        }
        assert_eq!(self.h.state(), Some(GroupState::Stable));
        assert!(self.clients.iter().all(|client| client.is_member), "{:?}", self.clients);
        let described = self.h.shard.describe("g").unwrap();
        assert_eq!(described.members.len(), self.clients.len());
        self.h.restart();
        assert_eq!(self.h.shard.describe("g").unwrap(), described);
    }
}

/// Three instances that are stable, and what happens to them then.
fn stable_then(events: &[Event]) -> Vec<Event> {
    let mut all = vec![Start(Some(0)), Start(Some(1)), Start(Some(2)), Pass(9_000)];
    all.extend_from_slice(events);
    all.push(Act(6));
    all
}

#[test]
fn no_static_member_is_fenced_by_its_former_self_wherever_the_coordinator_dies() {
    let scripts = [
        ("back in a stable group", stable_then(&[Forget(1)])),
        ("the leader is back", stable_then(&[Forget(0)])),
        ("everyone is back", stable_then(&[Forget(0), Forget(1), Forget(2)])),
        ("back while the others join", stable_then(&[Rejoin(0), Act(1), Forget(1)])),
        ("back while the leader assigns", stable_then(&[Rejoin(0), Rejoin(1), Rejoin(2), Act(1), Forget(1)])),
        ("twice while the others join", stable_then(&[Rejoin(0), Act(1), Forget(1), Act(1), Forget(1)])),
        ("another process beside the first", stable_then(&[Start(Some(1))])),
        ("another process while the others join", stable_then(&[Rejoin(0), Act(1), Start(Some(1))])),
        ("removed by an administrator", stable_then(&[Remove(1), Act(3), Remove(0)])),
        ("silent for longer than a session", stable_then(&[Silence(11_000)])),
        (
            "the leader dies after it joined",
            stable_then(&[Forget(1), Rejoin(0), Act(1), Kill(0), Act(2), Pass(40_000)]),
        ),
        ("a dynamic member comes meanwhile", stable_then(&[Start(None), Act(1), Forget(1), Act(1), Forget(2)])),
    ];
    for (name, script) in scripts {
        for fuse in 0.. {
            let mut run = Run::new(vec![fuse]);
            script.iter().for_each(|event| run.take(*event));
            let deaths = run.deaths;
            run.settle();
            if deaths == 0 {
                assert!(fuse > 10, "{name}: the coordinator took {fuse} steps only");
                break;
            }
        }
    }
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => proptest::option::weighted(0.8, 0..3_usize).prop_map(Start),
        1 => any::<usize>().prop_map(Kill),
        3 => any::<usize>().prop_map(Forget),
        2 => any::<usize>().prop_map(Rejoin),
        1 => any::<usize>().prop_map(Remove),
        4 => (1..4_usize).prop_map(Act),
        2 => (0..15_000_i64).prop_map(Pass),
        1 => (0..15_000_i64).prop_map(Silence),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_mix_of_rejoins_and_deaths_keeps_what_was_told(
        events in proptest::collection::vec(event(), 1..60),
        fuses in proptest::collection::vec(0..40_usize, 0..8),
    ) {
        let mut run = Run::new(fuses);
        events.iter().for_each(|event| run.take(*event));
        run.settle();
    }
}
