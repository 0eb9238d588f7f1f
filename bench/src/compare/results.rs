//! What a run has found, as it is kept in `bench/results`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::machine::Machine;
use super::stats::Summary;

/// Named numbers of one run; units are at the end of the names.
pub(crate) type Figures = BTreeMap<String, f64>;

/// Who was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Side {
    Taffrail,
    Kafka,
}

impl Side {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Taffrail => "Taffrail",
            Self::Kafka => "Kafka",
        }
    }
}

/// One run of one cell.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) side: Side,
    pub(crate) figures: Figures,
}

/// All runs of one cell, in the order in which they were made.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct CellRuns {
    pub(crate) runs: Vec<Run>,
    /// What went wrong, or was left out, in words.
    pub(crate) remarks: Vec<String>,
    /// The system's load average when the cell began.
    pub(crate) load_average: f64,
    /// When, and with which Taffrail: cells can be measured anew one at a time.
    #[serde(default)]
    pub(crate) taken: String,
}

/// A whole report.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    /// Of the run, as year-month-day.
    pub(crate) date: String,
    /// `short`, `full`, or the cells that were asked for.
    pub(crate) form: String,
    pub(crate) machine: Machine,
    /// Programs and their versions.
    pub(crate) versions: BTreeMap<String, String>,
    /// The floors, measured before and after the cells.
    pub(crate) floors: Vec<Figures>,
    pub(crate) cells: BTreeMap<String, CellRuns>,
}

impl Report {
    /// What is known of one figure of one side.
    pub(crate) fn summary(&self, cell: &str, figure: &str, side: Side) -> Option<Summary> {
        let runs = self.cells.get(cell)?.runs.iter().filter(|run| run.side == side);
        Summary::of(runs.filter_map(|run| run.figures.get(figure).copied()))
    }

    /// What is known of one floor.
    pub(crate) fn floor(&self, figure: &str) -> Option<Summary> {
        Summary::of(self.floors.iter().filter_map(|figures| figures.get(figure).copied()))
    }

    /// Reads a report.
    ///
    /// # Errors
    /// If there is none, or it is of another form.
    pub(crate) fn load(path: &Path) -> Result<Self> {
        let text = std::fs::read(path).with_context(|| format!("read {}", path.display()))?;
        serde_json::from_slice(&text).with_context(|| format!("understand {}", path.display()))
    }

    /// Keeps the report.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn save(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        std::fs::write(path, text).with_context(|| format!("write {}", path.display()))
    }
}

/// The workspace's folder.
pub(crate) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// What is measured together, and kept together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    OneNode,
    /// Three brokers and three controllers.
    Replicated,
}

/// Where the last committed report of a group is.
pub(crate) fn committed(group: Group) -> PathBuf {
    workspace().join(match group {
        Group::OneNode => "bench/results/latest.json",
        Group::Replicated => "bench/results/replicated.json",
    })
}
