//! What goes to standard output: data, and nothing else.

use std::io::{self, Write};
use std::time::Duration;

use clap::ValueEnum;
use serde_json::Value;

/// How data are printed. The shapes of `json` and `yaml` are the contract; `table` is for people, with stable columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Columns
    #[default]
    Table,
    /// Columns, with more of them
    Wide,
    /// JSON
    Json,
    /// YAML
    Yaml,
}

/// Prints `data` as JSON or YAML, or what `text` makes for people.
pub(crate) fn print(format: Format, data: &Value, text: impl FnOnce() -> String) -> anyhow::Result<()> {
    match format {
        Format::Table | Format::Wide => write(&text()),
        Format::Json => write(&format!("{}\n", serde_json::to_string_pretty(data)?)),
        Format::Yaml => write(&serde_saphyr::to_string(data)?),
    }
}

/// Writes to standard output. A reader that has gone, as behind `| head`, is no failure.
pub(crate) fn write(text: &str) -> anyhow::Result<()> {
    offer(text.as_bytes()).map(|_| ())
}

/// The same for what goes on for long; whether anybody reads it still.
pub(crate) fn offer(bytes: &[u8]) -> anyhow::Result<bool> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Tells people something on standard error, where it is in no program's way.
pub(crate) fn tell(text: &str) {
    // Nobody is left to tell if it cannot be written.
    let _ = writeln!(io::stderr(), "{text}");
}

/// A text in which nothing is left that a terminal would take for a command: names of groups and clients, and records, come
/// from strangers.
pub(crate) fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\t' => shown.push(character),
            _ if character.is_control() => shown.extend(character.escape_default()),
            _ => shown.push(character),
        }
    }
    shown
}

/// A number of bytes as people say it.
pub(crate) fn bytes(bytes: i64) -> String {
    let (mut amount, mut unit) = (bytes as f64, "B");
    for larger in ["KiB", "MiB", "GiB", "TiB"] {
        if amount < 1_024.0 {
            break;
        }
        (amount, unit) = (amount / 1_024.0, larger);
    }
    if unit == "B" { format!("{bytes} B") } else { format!("{amount:.1} {unit}") }
}

/// A time as people say it, in two units.
pub(crate) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0, seconds) => format!("{seconds}s"),
        (0, 0, minutes, seconds) => format!("{minutes}m {seconds}s"),
        (0, hours, minutes, _) => format!("{hours}h {minutes}m"),
        (days, hours, ..) => format!("{days}d {hours}h"),
    }
}

/// Columns under upper-case headers, two blanks apart; an empty cell is `-`.
pub(crate) fn table(headers: &[&str], rows: &[Vec<String>]) -> String {
    let cell = |text: &str| if text.is_empty() { "-".to_owned() } else { shown(text).replace(['\n', '\t'], " ") };
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|text| cell(text)).collect()).collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|text| text.chars().count());
        cells.chain(headers.get(column).map(|text| text.chars().count())).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..headers.len()).map(width).collect();
    let mut text = String::new();
    let headers: Vec<String> = headers.iter().map(|header| (*header).to_owned()).collect();
    for row in std::iter::once(&headers).chain(&rows) {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(&format!("{cell:width$}  "));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_can_be_cut_by_scripts() {
        let rows = vec![vec!["a".to_owned(), "long value".to_owned()], vec!["bc".to_owned(), String::new()]];
        assert_eq!(table(&["NAME", "VALUE"], &rows), "NAME  VALUE\na     long value\nbc    -\n");
    }

    #[test]
    fn amounts_are_told_as_people_say_them() {
        let sizes = [(0, "0 B"), (1_023, "1023 B"), (1_024, "1.0 KiB"), (5 << 30, "5.0 GiB"), (3 << 50, "3072.0 TiB")];
        for (amount, expected) in sizes {
            assert_eq!(bytes(amount), expected);
        }
        let times = [(0, "0s"), (59, "59s"), (61, "1m 1s"), (7_322, "2h 2m"), (90_000, "1d 1h")];
        for (seconds, expected) in times {
            assert_eq!(duration(Duration::from_secs(seconds)), expected);
        }
    }

    #[test]
    fn names_from_strangers_are_no_commands_to_a_terminal() {
        let rows = vec![vec!["a\u{1b}[2J\nb\u{9b}".to_owned()]];
        assert_eq!(table(&["NAME"], &rows), "NAME\na\\u{1b}[2J b\\u{9b}\n");
        assert_eq!(shown("é\t\n"), "é\t\n");
    }
}
