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
            let data = json!({"valid": true, "clusters": clusters, "topics": desired.topics.len(), "problems": []});
            print(args.output, &data, || {
                let topics = desired.topics.len();
                let plural = |count: usize| if count == 1 { "" } else { "s" };
                format!("valid: {clusters} Cluster{}, {topics} Topic{}\n", plural(clusters), plural(topics))
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
