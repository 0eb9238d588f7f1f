//! `taffrail log`: work on the files of partitions, without a cluster.

mod dump;
mod entries;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Format, SettingsArgs};
use crate::exit::Exit;

#[derive(Subcommand, Debug)]
pub(crate) enum LogCommand {
    /// Print what is in files of partitions, of ours or of Kafka's; the exit code is 10 if something in them is broken
    Dump(dump::DumpArgs),
    /// Adopt the partitions of a stopped Kafka 4.4 into a data directory that nobody is using
    Import(Box<ImportArgs>),
}

/// Arguments of `log import`.
#[derive(Args, Debug)]
pub(crate) struct ImportArgs {
    /// One of Kafka's log directories, or the folder of a single partition
    #[arg(value_name = "DIR")]
    pub(crate) source: PathBuf,
    /// Take the folders away from there, instead of copying them; needs the same volume
    #[arg(long = "move")]
    pub(crate) move_folders: bool,
    #[command(flatten)]
    pub(crate) settings: SettingsArgs,
    /// How to print what was adopted
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

/// Carries out `log ...`.
pub(super) fn run(command: &LogCommand) -> anyhow::Result<Exit> {
    match command {
        LogCommand::Dump(args) => dump::run(args),
        LogCommand::Import(args) => crate::up::import(args),
    }
}
