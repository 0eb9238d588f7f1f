//! `taffrail group`: who consumes, how far they are, and where they go on. What it says goes to brokers over Kafka's protocol.

mod reset;

use std::collections::{BTreeMap, BTreeSet};

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use taffrail_client::kafka::{CommittedOffset, Group, GroupMember, KafkaClient, KafkaError, ListedGroup, PartitionKey};
use taffrail_core::errors::ErrorCode;
use taffrail_runtime::task;

use super::brokers::{BrokersArgs, known, named, settle};
use super::{completion, print, table};
use crate::exit::Exit;

/// Threads of a command that only asks.
const THREADS: usize = 1;

/// Kafka's word for a group that is not there.
const DEAD: &str = "Dead";

#[derive(Subcommand, Debug)]
pub(crate) enum GroupCommand {
    /// List groups
    #[command(visible_alias = "ls")]
    List(ListArgs),
    /// Show members, offsets and lag of groups
    Describe(DescribeArgs),
    /// Have a group go on somewhere else; without --execute it only says where
    #[command(visible_alias = "seek")]
    Reset(reset::ResetArgs),
    /// Forget groups, and how far they were
    Delete(NamesArgs),
}

/// Arguments of `group list`.
#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    /// Only groups in this state, such as Stable or Empty
    #[arg(long, value_name = "STATE", value_delimiter = ',')]
    state: Vec<String>,
    /// Also how many members each has, and how far it lags; this asks for each group
    #[arg(long)]
    lag: bool,
    #[command(flatten)]
    brokers: BrokersArgs,
}

/// Arguments of `group describe`.
#[derive(Args, Debug)]
pub(crate) struct DescribeArgs {
    /// Names of groups
    #[arg(value_name = "GROUP", required_unless_present = "all", add = completion::groups())]
    names: Vec<String>,
    /// All groups
    #[arg(long, conflicts_with = "names")]
    all: bool,
    #[command(flatten)]
    brokers: BrokersArgs,
}

/// Names of groups.
#[derive(Args, Debug)]
pub(crate) struct NamesArgs {
    /// Names of groups
    #[arg(value_name = "GROUP", required = true, add = completion::groups())]
    names: Vec<String>,
    #[command(flatten)]
    brokers: BrokersArgs,
}

/// Carries out `group ...`.
pub(super) fn run(command: &GroupCommand) -> anyhow::Result<Exit> {
    task::block_on(THREADS, async {
        match command {
            GroupCommand::List(args) => list(args).await,
            GroupCommand::Describe(args) => describe(args).await,
            GroupCommand::Reset(args) => reset::run(args).await,
            GroupCommand::Delete(args) => delete(args).await,
        }
    })?
}

async fn list(args: &ListArgs) -> anyhow::Result<Exit> {
    let mut client = args.brokers.connect().await?;
    let mut groups = client.groups().await?;
    let is_wanted = |state: &str| args.state.iter().any(|wanted| wanted.eq_ignore_ascii_case(state));
    groups.retain(|group| args.state.is_empty() || is_wanted(&group.state));
    let mut outcomes = Vec::new();
    if args.lag {
        for group in &groups {
            outcomes.push(Described::read(&mut client, &group.name).await);
        }
    }
    let (described, exit) = settle(outcomes);
    let found: BTreeMap<&str, &Described> = described.iter().map(|it| (it.group.name.as_str(), it)).collect();
    let members = |group: &ListedGroup| found.get(group.name.as_str()).map(|it| it.group.members.len());
    let lag = |group: &ListedGroup| found.get(group.name.as_str()).map(|it| it.total_lag());
    let data = |group: &ListedGroup| {
        json!({
            "name": group.name,
            "state": group.state,
            "protocolType": group.protocol_type,
            "coordinator": group.coordinator,
            "members": members(group),
            "lag": lag(group),
        })
    };
    let row = |group: &ListedGroup| {
        let (name, state) = (group.name.clone(), group.state.clone());
        let mut row = vec![name, state, group.protocol_type.clone(), group.coordinator.to_string()];
        if args.lag {
            row.extend([known(members(group)), known(lag(group))]);
        }
        row
    };
    print(args.brokers.output, &json!({ "groups": groups.iter().map(data).collect::<Vec<_>>() }), || {
        let headers = ["GROUP", "STATE", "TYPE", "COORDINATOR", "MEMBERS", "LAG"];
        table(&headers[..if args.lag { 6 } else { 4 }], &groups.iter().map(row).collect::<Vec<_>>())
    })?;
    Ok(exit)
}

async fn delete(args: &NamesArgs) -> anyhow::Result<Exit> {
    let mut client = args.brokers.connect().await?;
    let mut outcomes = Vec::with_capacity(args.names.len());
    for name in &args.names {
        outcomes.push(client.delete_group(name).await.map(|()| name.clone()));
    }
    let (done, exit) = settle(outcomes);
    let rows: Vec<Vec<String>> = done.iter().map(|name| vec![name.clone(), "deleted".to_owned()]).collect();
    print(args.brokers.output, &named("groups", &done), || table(&["GROUP", "OUTCOME"], &rows))?;
    Ok(exit)
}

async fn describe(args: &DescribeArgs) -> anyhow::Result<Exit> {
    let mut client = args.brokers.connect().await?;
    let names = match args.all {
        true => client.groups().await?.into_iter().map(|group| group.name).collect(),
        false => args.names.clone(),
    };
    let mut outcomes = Vec::with_capacity(names.len());
    for name in &names {
        outcomes.push(Described::read(&mut client, name).await);
    }
    let (done, exit) = settle(outcomes);
    let wide = args.brokers.is_wide();
    let data: Vec<Value> = done.iter().map(Described::data).collect();
    print(args.brokers.output, &json!({ "groups": data }), || {
        done.iter().map(|described| described.text(wide)).collect::<Vec<_>>().join("\n")
    })?;
    Ok(exit)
}

/// A group, and how far it is.
#[derive(Debug)]
pub(super) struct Described {
    group: Group,
    committed: BTreeMap<PartitionKey, CommittedOffset>,
    /// Where partitions begin and end, if their leaders tell.
    bounds: BTreeMap<PartitionKey, (i64, i64)>,
}

impl Described {
    /// Reads what its coordinator and the leaders of its partitions say.
    ///
    /// # Errors
    /// The refusal, or that there is no such group.
    pub(super) async fn read(client: &mut KafkaClient, name: &str) -> Result<Self, KafkaError> {
        let group = client.group(name).await?;
        // Committed offsets first and ends after them, so that no lag is negative.
        let committed = client.committed(name).await?;
        if group.state == DEAD && committed.is_empty() {
            let (code, text) = (ErrorCode::GroupIdNotFound, "There is no such group.".to_owned());
            return Err(KafkaError::Refused { what: format!("group {name}"), code, text });
        }
        let mut described = Self { group, committed, bounds: BTreeMap::new() };
        described.bounds = client.bounds(&described.partitions().into_iter().collect::<Vec<_>>()).await?;
        Ok(described)
    }

    /// Where it has committed, or reads.
    fn partitions(&self) -> BTreeSet<PartitionKey> {
        let assigned = self.group.members.iter().flat_map(|member| member.partitions.iter().cloned());
        assigned.chain(self.committed.keys().cloned()).collect()
    }

    /// Records that it can still read; `None` without a committed offset, or while nobody tells where the end is.
    fn lag(&self, partition: &PartitionKey) -> Option<i64> {
        let (committed, (start, end)) = (self.committed.get(partition)?, self.bounds.get(partition)?);
        Some((end - committed.offset.max(*start)).max(0))
    }

    fn total_lag(&self) -> i64 {
        self.partitions().iter().filter_map(|partition| self.lag(partition)).sum()
    }

    fn reader(&self, partition: &PartitionKey) -> Option<&GroupMember> {
        self.group.members.iter().find(|member| member.partitions.contains(partition))
    }

    /// The group for programs.
    pub(super) fn data(&self) -> Value {
        let member = |member: &GroupMember| {
            json!({
                "id": member.id,
                "instanceId": member.instance_id,
                "clientId": member.client_id,
                "host": member.host,
            })
        };
        let offset = |partition: &PartitionKey| {
            let (committed, bounds) = (self.committed.get(partition), self.bounds.get(partition));
            json!({
                "topic": partition.0,
                "partition": partition.1,
                "committed": committed.map(|committed| committed.offset),
                "metadata": committed.map(|committed| &committed.metadata),
                "startOffset": bounds.map(|(start, _)| start),
                "endOffset": bounds.map(|(_, end)| end),
                "lag": self.lag(partition),
                "member": self.reader(partition).map(|member| &member.id),
            })
        };
        let Group { name, state, protocol_type, assignor, coordinator, members } = &self.group;
        json!({
            "name": name,
            "state": state,
            "protocolType": protocol_type,
            "assignor": assignor,
            "coordinator": coordinator,
            "lag": self.total_lag(),
            "members": members.iter().map(member).collect::<Vec<_>>(),
            "offsets": self.partitions().iter().map(offset).collect::<Vec<_>>(),
        })
    }

    /// The group for people.
    fn text(&self, wide: bool) -> String {
        let Group { name, state, assignor, coordinator, members, .. } = &self.group;
        let (count, lag) = (members.len().to_string(), self.total_lag().to_string());
        let head = vec![name.clone(), state.clone(), assignor.clone(), coordinator.to_string(), count, lag];
        let mut text = table(&["GROUP", "STATE", "ASSIGNOR", "COORDINATOR", "MEMBERS", "LAG"], &[head]);
        let row = |partition: &PartitionKey| {
            let (reader, bounds) = (self.reader(partition), self.bounds.get(partition));
            let mut row = vec![
                partition.0.clone(),
                partition.1.to_string(),
                known(self.committed.get(partition).map(|committed| committed.offset)),
                known(bounds.map(|(_, end)| end)),
                known(self.lag(partition)),
                known(reader.map(|member| &member.client_id)),
                known(reader.map(|member| &member.host)),
            ];
            if wide {
                row.push(known(bounds.map(|(start, _)| start)));
                row.push(known(reader.map(|member| &member.id)));
                row.push(known(reader.and_then(|member| member.instance_id.as_ref())));
            }
            row
        };
        let headers = ["TOPIC", "PARTITION", "OFFSET", "END", "LAG", "CLIENT", "HOST", "START", "MEMBER", "INSTANCE"];
        let rows: Vec<Vec<String>> = self.partitions().iter().map(row).collect();
        if !rows.is_empty() {
            text += "\n";
            text += &table(&headers[..if wide { 10 } else { 7 }], &rows);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_shown_with_its_lag_and_never_a_negative_one() {
        let key = |partition| ("t".to_owned(), partition);
        let committed = |offset| CommittedOffset { offset, metadata: String::new() };
        let described = Described {
            group: Group {
                name: "g".to_owned(),
                state: "Stable".to_owned(),
                protocol_type: "consumer".to_owned(),
                assignor: "range".to_owned(),
                coordinator: 1,
                members: vec![GroupMember {
                    id: "m-1".to_owned(),
                    instance_id: None,
                    client_id: "c".to_owned(),
                    host: "127.0.0.1".to_owned(),
                    partitions: [key(0), key(3)].into(),
                }],
            },
            // Behind; before the log's start; beyond its end; nothing committed; nobody leads.
            committed: [(key(0), committed(5)), (key(1), committed(1)), (key(2), committed(9)), (key(4), committed(1))]
                .into(),
            bounds: [(key(0), (0, 8)), (key(1), (4, 8)), (key(2), (0, 8)), (key(3), (0, 8))].into(),
        };
        let expected = "\
GROUP  STATE   ASSIGNOR  COORDINATOR  MEMBERS  LAG
g      Stable  range     1            1        7

TOPIC  PARTITION  OFFSET  END  LAG  CLIENT  HOST
t      0          5       8    3    c       127.0.0.1
t      1          1       8    4    -       -
t      2          9       8    0    -       -
t      3          -       8    -    c       127.0.0.1
t      4          1       -    -    -       -
";
        assert_eq!(described.text(false), expected);
        let data = described.data();
        assert_eq!((&data["lag"], &data["offsets"][3]["lag"]), (&json!(7), &Value::Null));
        assert_eq!((&data["offsets"][0]["member"], &data["members"][0]["clientId"]), (&json!("m-1"), &json!("c")));
    }
}
