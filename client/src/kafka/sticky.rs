//! Which member of a group reads which partitions, as Kafka's `cooperative-sticky` has it: members keep what they have where that
//! is fair, and what goes from one to another is given up first and given out in the next round, so that nobody else stops.

use std::collections::{BTreeMap, BTreeSet};

use super::PartitionKey;
use super::assignor::{Assigned, Subscribed};

/// Who has what, by ids of members.
type Shares = BTreeMap<String, BTreeSet<PartitionKey>>;

/// What each of `members` reads in this round, by their ids, of topics with so many partitions. What is to move is left out
/// until who has it has given it up.
pub(super) fn cooperative(members: &[Subscribed], counts: &BTreeMap<String, i32>) -> BTreeMap<String, Assigned> {
    let all: Vec<PartitionKey> =
        counts.iter().flat_map(|(topic, count)| (0..*count).map(move |number| (topic.clone(), number))).collect();
    let mut shares = kept(members, counts);
    let owners: BTreeMap<PartitionKey, String> =
        shares.iter().flat_map(|(member, share)| share.iter().map(|it| (it.clone(), member.clone()))).collect();
    for partition in all.into_iter().filter(|partition| !owners.contains_key(partition)) {
        if let Some(reader) = least_loaded(members, &shares, &partition) {
            shares.entry(reader).or_default().insert(partition);
        }
    }
    while let Some((from, to, partition)) = unfair(members, &shares) {
        shares.entry(from).or_default().remove(&partition);
        shares.entry(to).or_default().insert(partition);
    }
    for (member, share) in &mut shares {
        share.retain(|partition| owners.get(partition).is_none_or(|owner| owner == member));
    }
    shares.into_iter().map(|(member, share)| (member, by_topic(share))).collect()
}

fn by_topic(share: BTreeSet<PartitionKey>) -> Assigned {
    let mut assigned = Assigned::new();
    for (topic, number) in share {
        assigned.entry(topic).or_default().push(number);
    }
    assigned
}

/// What members have and may keep. Where several say that they have the same, who was given it last is right.
fn kept(members: &[Subscribed], counts: &BTreeMap<String, i32>) -> Shares {
    let mut claims: BTreeMap<PartitionKey, Vec<&Subscribed>> = BTreeMap::new();
    for member in members {
        for (topic, numbers) in member.owned.iter().filter(|(topic, _)| member.topics.contains(topic)) {
            let count = counts.get(topic).copied().unwrap_or(0);
            for number in numbers.iter().filter(|number| (0..count).contains(number)) {
                claims.entry((topic.clone(), *number)).or_default().push(member);
            }
        }
    }
    let mut shares: Shares = members.iter().map(|member| (member.member_id.clone(), BTreeSet::new())).collect();
    for (partition, claimants) in claims {
        let newest = claimants.iter().map(|member| member.generation).max();
        let mut right = claimants.iter().filter(|member| Some(member.generation) == newest);
        if let (Some(owner), None) = (right.next(), right.next()) {
            shares.entry(owner.member_id.clone()).or_default().insert(partition);
        }
    }
    shares
}

/// The reader of a partition that has least.
fn least_loaded(members: &[Subscribed], shares: &Shares, (topic, _): &PartitionKey) -> Option<String> {
    let readers = members.iter().filter(|member| member.topics.contains(topic));
    let load = |member: &&Subscribed| (load(shares, &member.member_id), member.member_id.clone());
    readers.min_by_key(load).map(|member| member.member_id.clone())
}

fn load(shares: &Shares, member: &str) -> usize {
    shares.get(member).map_or(0, BTreeSet::len)
}

/// A partition that one member has and another could have who has fewer, by two or more. With each such move loads come nearer
/// to each other, so there is an end.
fn unfair(members: &[Subscribed], shares: &Shares) -> Option<(String, String, PartitionKey)> {
    let mut by_load: Vec<(&String, &BTreeSet<PartitionKey>)> = shares.iter().collect();
    by_load.sort_by_key(|(_, share)| std::cmp::Reverse(share.len()));
    for (from, share) in by_load {
        // The last first: the partitions that stay are neighbours.
        for partition in share.iter().rev() {
            if let Some(to) = least_loaded(members, shares, partition)
                && load(shares, &to) + 2 <= share.len()
            {
                return Some((from.clone(), to, partition.clone()));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(id: &str, owned: &[i32], generation: i32) -> Subscribed {
        let owned = if owned.is_empty() { BTreeMap::new() } else { [("t".to_owned(), owned.to_vec())].into() };
        Subscribed { member_id: id.to_owned(), instance_id: None, topics: vec!["t".to_owned()], owned, generation }
    }

    /// What each member is given of topic `t`, in the order of `members`.
    fn given(members: &[Subscribed], count: i32) -> Vec<Vec<i32>> {
        let counts = BTreeMap::from([("t".to_owned(), count)]);
        let assigned = cooperative(members, &counts);
        members.iter().map(|it| assigned[&it.member_id].get("t").cloned().unwrap_or_default()).collect()
    }

    /// Members with what they have, partitions, and what each member is given.
    type Case<'a> = (&'a [Subscribed], i32, &'a [&'a [i32]]);

    #[test]
    fn members_keep_what_they_have_and_what_moves_is_given_up_first() {
        let cases: [Case<'_>; 6] = [
            (&[member("a", &[], -1)], 3, &[&[0, 1, 2]]),
            (&[member("a", &[], -1), member("b", &[], -1)], 4, &[&[0, 2], &[1, 3]]),
            // A newcomer: half of it is given up, and nothing of that is given out yet.
            (&[member("a", &[0, 1, 2, 3], 1), member("b", &[], -1)], 4, &[&[0, 1], &[]]),
            // In the next round it is nobody's.
            (&[member("a", &[0, 1], 2), member("b", &[], 2)], 4, &[&[0, 1], &[2, 3]]),
            // Somebody has gone; new partitions came.
            (&[member("a", &[0, 1], 3)], 6, &[&[0, 1, 2, 3, 4, 5]]),
            // Two say that they have it: who was given it last.
            (&[member("a", &[0], 3), member("b", &[0, 1], 5)], 2, &[&[], &[0]]),
        ];
        for (members, count, expected) in cases {
            assert_eq!(given(members, count), expected, "{members:?}");
        }
    }

    #[test]
    fn in_the_end_each_partition_has_one_reader_and_loads_are_even() {
        for (readers, count) in [(1, 7), (2, 7), (3, 7), (5, 16), (9, 7)] {
            let mut members = vec![member("m0", &(0..count).collect::<Vec<_>>(), 1)];
            members.extend((1..readers).map(|number| member(&format!("m{number}"), &[], -1)));
            for round in 2..5 {
                let shares = given(&members, count);
                for (member, share) in members.iter_mut().zip(shares) {
                    (member.owned, member.generation) = ([("t".to_owned(), share)].into(), round);
                }
            }
            let shares: Vec<Vec<i32>> = members.iter().map(|member| member.owned["t"].clone()).collect();
            let mut all: Vec<i32> = shares.iter().flatten().copied().collect();
            all.sort_unstable();
            assert_eq!(all, (0..count).collect::<Vec<_>>(), "{readers} readers");
            let loads = shares.iter().map(Vec::len);
            assert!(loads.clone().max().unwrap() - loads.min().unwrap() <= 1, "{shares:?}");
        }
    }

    #[test]
    fn nobody_is_given_what_it_does_not_subscribe_to() {
        let counts = BTreeMap::from([("t".to_owned(), 2), ("u".to_owned(), 4)]);
        let both = Subscribed { topics: vec!["t".to_owned(), "u".to_owned()], ..member("a", &[], -1) };
        let assigned = cooperative(&[both, member("b", &[], -1)], &counts);
        assert_eq!(assigned["a"].get("u").map(Vec::len), Some(4));
        assert_eq!(assigned["b"].get("t").map(Vec::len), Some(2), "who reads one topic alone has all of it");
    }
}
