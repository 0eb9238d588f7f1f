//! `taffrail validate`: are files of resources right?

use std::path::PathBuf;

use serde_json::json;
use taffrail_operator::kubernetes::offline;
use taffrail_operator::local;
use taffrail_operator::yaml::{Problems, load_files};

use super::{Format, ValidateArgs, print};
use crate::exit::Exit;

/// Clusters, topics and groups of files that are right.
type Counts = (usize, usize, usize);

/// Checks the files as `up` would, or as the operator would; mistakes go to standard error, one a line.
pub(super) fn run(args: &ValidateArgs) -> anyhow::Result<Exit> {
    let checked = if args.kubernetes { for_kubernetes(&args.files) } else { for_up(&args.files) };
    match checked {
        Ok((clusters, topics, groups)) => {
            let data = json!({"valid": true, "clusters": clusters, "topics": topics, "groups": groups, "problems": []});
            print(args.output, &data, || {
                let counted = |count: usize, kind: &str| format!("{count} {kind}{}", if count == 1 { "" } else { "s" });
                let kinds = [(clusters, "Cluster"), (topics, "Topic"), (groups, "ConsumerGroup")];
                let counted: Vec<String> = kinds.into_iter().map(|(count, kind)| counted(count, kind)).collect();
                format!("valid: {}\n", counted.join(", "))
            })?;
            Ok(Exit::Done)
        }
        Err(problems) if matches!(args.output, Format::Table | Format::Wide) => Err(problems.into()),
        Err(problems) => {
            let list: Vec<_> = problems
                .0
                .iter()
                .map(|problem| {
                    json!({
                        "file": problem.file, "line": problem.place.line, "column": problem.place.column,
                        "field": problem.field, "message": problem.message,
                    })
                })
                .collect();
            print(args.output, &json!({"valid": false, "problems": list}), String::new)?;
            Ok(Exit::Failed)
        }
    }
}

fn for_up(files: &[PathBuf]) -> Result<Counts, Problems> {
    let desired = local::load(files)?;
    Ok((usize::from(desired.cluster.is_some()), desired.topics.len(), desired.groups.len()))
}

fn for_kubernetes(files: &[PathBuf]) -> Result<Counts, Problems> {
    let resources = load_files(files)?;
    let problems = offline::problems(&resources);
    match problems.is_empty() {
        true => Ok((resources.clusters.len(), resources.topics.len(), resources.groups.len())),
        false => Err(Problems(problems)),
    }
}
