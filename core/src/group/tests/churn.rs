//! Any mix of joins, deaths and time ends in a stable or an empty group (case G-06), and the log tells the same story.

use super::client::Client;
use super::*;
use proptest::prelude::*;

/// What happens next.
#[derive(Clone, Debug)]
enum Event {
    Start { is_static: bool },
    Kill(usize),
    Leave(usize),
    Pass(i64),
    Restart,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => any::<bool>().prop_map(|is_static| Event::Start { is_static }),
        2 => any::<usize>().prop_map(Event::Kill),
        2 => any::<usize>().prop_map(Event::Leave),
        4 => (0..20_000_i64).prop_map(Event::Pass),
        1 => Just(Event::Restart),
    ]
}

fn act_all(h: &mut Harness, clients: &mut [Client], ms: i64) {
    let mut left = ms;
    while left > 0 {
        for _ in 0..4 {
            clients.iter_mut().for_each(|client| client.act(h));
        }
        h.advance(left.min(3_000));
        left -= 3_000;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn churn_ends_in_a_stable_or_an_empty_group(events in proptest::collection::vec(event(), 1..40), delay in 0..2_i32) {
        let config = GroupConfig { initial_rebalance_delay_ms: delay * 3_000, ..GroupConfig::default() };
        let mut h = Harness::with(config);
        let mut clients: Vec<Client> = Vec::new();
        let mut started = 0;
        for event in events {
            match event {
                Event::Start { is_static } => {
                    started += 1;
                    let instance_id = is_static.then(|| format!("instance-{started}"));
                    clients.push(Client::new(instance_id));
                }
                Event::Kill(which) if !clients.is_empty() => {
                    clients.swap_remove(which % clients.len());
                }
                Event::Leave(which) if !clients.is_empty() => {
                    let client = clients.swap_remove(which % clients.len());
                    if !client.member_id.is_empty() {
                        h.leave(&client.member_id, client.instance_id.as_deref());
                    }
                }
                Event::Restart => {
                    // Connections break: who waits for a reply gets none and begins again.
                    h.restart();
                    clients.iter_mut().for_each(Client::disconnect);
                }
                Event::Pass(ms) => act_all(&mut h, &mut clients, ms),
                Event::Kill(_) | Event::Leave(_) => {}
            }
        }
        // Left in peace, the group settles within the longest of its timeouts, twice over.
        act_all(&mut h, &mut clients, 120_000);
        if clients.is_empty() {
            prop_assert!(matches!(h.state(), None | Some(GroupState::Empty)), "{:?}", h.state());
        } else {
            prop_assert_eq!(h.state(), Some(GroupState::Stable));
            prop_assert!(clients.iter().all(|client| client.is_member), "{clients:?}");
            let described = h.shard.describe("g").unwrap();
            prop_assert_eq!(described.members.len(), clients.len());
            for client in &clients {
                let described = described.members.iter().find(|member| member.member_id == client.member_id).unwrap();
                prop_assert_eq!(&described.assignment, &client.assignment);
            }
            h.restart();
            let again = h.shard.describe("g").unwrap();
            prop_assert_eq!(again, described);
        }
    }
}
