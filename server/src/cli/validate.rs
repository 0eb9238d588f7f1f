//! `taffrail validate`: are files of resources right?

use serde_json::json;
use taffrail_operator::local;

use super::{Format, ValidateArgs, print};
use crate::exit::Exit;

/// Checks the files as `up` would; mistakes go to standard error, one a line.
pub(super) fn run(args: &ValidateArgs) -> anyhow::Result<Exit> {
    match local::load(&args.files) {
        Ok(desired) => {
            let clusters = usize::from(desired.cluster.is_some());
            let (topics, groups) = (desired.topics.len(), desired.groups.len());
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
