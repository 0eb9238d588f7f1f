//! Prints records to standard output, as lines, by a format, or as JSON or YAML.

use std::io::{self, IsTerminal};
use std::ops::ControlFlow;

use anyhow::Context;
use taffrail_client::kafka::{Fetched, PartitionKey};
use taffrail_core::record::{Decompressor, Record};

use super::super::envelope;
use super::super::layout::Layout;
use super::{ConsumeArgs, Left};
use crate::cli::Format;
use crate::cli::output::offer;

/// Prints records to standard output.
pub(super) struct Printer {
    layout: Option<Layout>,
    output: Format,
    shown: bool,
    buffer: Vec<u8>,
    decompressor: Decompressor,
}

impl Printer {
    pub(super) fn new(args: &ConsumeArgs) -> Self {
        Self {
            layout: args.format.clone(),
            output: args.brokers.output,
            shown: io::stdout().is_terminal(),
            buffer: Vec::new(),
            decompressor: Decompressor::default(),
        }
    }

    /// Prints what is still wanted of `fetched`; gives the offset behind it, where to go on.
    pub(super) fn print(&mut self, fetched: &Fetched, left: &mut Left) -> anyhow::Result<i64> {
        let lines = Layout::lines();
        let layout = self.layout.as_ref().unwrap_or(&lines);
        let (output, shown, buffer) = (self.output, self.shown, &mut self.buffer);
        let (mut outcome, mut next_offset) = (Ok(()), fetched.next_offset);
        let visit = |record: &Record<'_>| {
            if !left.takes(&fetched.partition, record.offset) {
                next_offset = record.offset;
                return ControlFlow::Break(());
            }
            outcome = print_one(buffer, output, layout, shown, &fetched.partition, record);
            if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        fetched.visit(&mut self.decompressor, visit)?;
        outcome.map(|()| next_offset)
    }

    /// Hands over what was printed; whether anybody reads it still, who may have gone, as behind `| head`.
    pub(super) fn flush(&mut self) -> anyhow::Result<bool> {
        let is_read = offer(&self.buffer).context("records cannot be printed")?;
        self.buffer.clear();
        Ok(is_read)
    }
}

fn print_one(
    buffer: &mut Vec<u8>,
    output: Format,
    layout: &Layout,
    shown: bool,
    partition: &PartitionKey,
    record: &Record<'_>,
) -> anyhow::Result<()> {
    match output {
        Format::Table | Format::Wide => layout.write(buffer, partition, record, shown)?,
        Format::Json => {
            serde_json::to_writer(&mut *buffer, &envelope::write(partition, record))?;
            buffer.push(b'\n');
        }
        Format::Yaml => {
            buffer.extend_from_slice(b"---\n");
            buffer.extend_from_slice(serde_saphyr::to_string(&envelope::write(partition, record))?.as_bytes());
        }
    }
    Ok(())
}
