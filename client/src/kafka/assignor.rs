//! Which member of a group reads which partitions, as Kafka's `range` says: of each topic, the members that read it get
//! neighbouring partitions, and the first of them one more where they do not come out even. Every client knows it, so members of
//! other products may be in the group, and lead it.

use std::collections::BTreeMap;

/// A member, and what it wants to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Subscribed {
    /// Its id, from the coordinator.
    pub(super) member_id: String,
    /// Its own lasting name, if it is a static member.
    pub(super) instance_id: Option<String>,
    /// Topics that it subscribes to.
    pub(super) topics: Vec<String>,
    /// Partitions that it has, if it says so.
    pub(super) owned: Assigned,
    /// The generation in which it was given them; -1 = it does not say.
    pub(super) generation: i32,
}

/// Partitions, by their topics.
pub(super) type Assigned = BTreeMap<String, Vec<i32>>;

/// What each of `members` reads, by their ids, of topics with so many partitions.
pub(super) fn range(mut members: Vec<Subscribed>, counts: &BTreeMap<String, i32>) -> BTreeMap<String, Assigned> {
    // Static members come first, by their lasting names, so that they get the same again under another id.
    let rank = |it: &Subscribed| (it.instance_id.is_none(), it.instance_id.clone(), it.member_id.clone());
    members.sort_by_key(rank);
    let mut assigned: BTreeMap<String, Assigned> =
        members.iter().map(|member| (member.member_id.clone(), Assigned::new())).collect();
    for (topic, count) in counts {
        let readers: Vec<&Subscribed> = members.iter().filter(|member| member.topics.contains(topic)).collect();
        let mut next = 0;
        for (number, reader) in readers.iter().enumerate() {
            let (all, among) = (usize::try_from(*count).unwrap_or(0), readers.len());
            let share = all / among + usize::from(number < all % among);
            let until = next + i32::try_from(share).unwrap_or(i32::MAX);
            if let Some(its) = assigned.get_mut(&reader.member_id)
                && share > 0
            {
                its.insert(topic.clone(), (next..until).collect());
            }
            next = until;
        }
    }
    assigned
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(id: &str, instance: Option<&str>, topics: &[&str]) -> Subscribed {
        let topics = topics.iter().map(|topic| (*topic).to_owned()).collect();
        let instance_id = instance.map(str::to_owned);
        Subscribed { member_id: id.to_owned(), instance_id, topics, owned: Assigned::new(), generation: -1 }
    }

    fn of(assigned: &BTreeMap<String, Assigned>, member: &str, topic: &str) -> Vec<i32> {
        assigned[member].get(topic).cloned().unwrap_or_default()
    }

    #[test]
    fn partitions_are_given_out_as_by_kafkas_range() {
        let counts = BTreeMap::from([("t".to_owned(), 5), ("u".to_owned(), 1), ("empty".to_owned(), 0)]);
        let members = vec![member("b", None, &["t", "u"]), member("a", None, &["t", "empty"])];
        let assigned = range(members, &counts);
        assert_eq!((of(&assigned, "a", "t"), of(&assigned, "b", "t")), (vec![0, 1, 2], vec![3, 4]));
        assert_eq!((of(&assigned, "a", "u"), of(&assigned, "b", "u")), (vec![], vec![0]));

        let lasting = range(vec![member("a", None, &["u"]), member("z", Some("i"), &["u"])], &counts);
        assert_eq!((of(&lasting, "z", "u"), of(&lasting, "a", "u")), (vec![0], vec![]), "static members come first");
    }

    #[test]
    fn each_partition_has_one_reader() {
        let counts = BTreeMap::from([("t".to_owned(), 7)]);
        for readers in 1..10 {
            let members = (0..readers).map(|number| member(&format!("m{number}"), None, &["t"])).collect();
            let mut all: Vec<i32> =
                range(members, &counts).values().flat_map(|assigned| assigned.values().flatten()).copied().collect();
            all.sort_unstable();
            assert_eq!(all, (0..7).collect::<Vec<_>>(), "{readers} readers");
        }
    }
}
