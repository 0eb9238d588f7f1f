//! Prometheus' text format, written piece by piece: a scrape of many series never stands in memory as a whole.

use std::fmt::Write;

use taffrail_core::metric::Metric;

use super::families::Value;

/// Writes HELP and TYPE of a metric, which stand once before its series.
pub fn write_head(out: &mut String, metric: &Metric) {
    let Metric { name, help, kind, .. } = metric;
    // Help texts are constants without anything to escape. Writing to a string cannot fail.
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {}", kind.name());
}

/// One series: labels are added in their order, and the value ends it.
pub(super) struct Line<'a> {
    out: &'a mut String,
    has_labels: bool,
}

impl<'a> Line<'a> {
    pub(super) fn new(out: &'a mut String, metric: &Metric) -> Self {
        out.push_str(metric.name);
        Self { out, has_labels: false }
    }

    pub(super) fn label(mut self, name: &str, value: &str) -> Self {
        self.begin(name);
        push_escaped(self.out, value);
        self.out.push('"');
        self
    }

    pub(super) fn number(mut self, name: &str, value: i32) -> Self {
        self.begin(name);
        let _ = write!(self.out, "{value}\"");
        self
    }

    fn begin(&mut self, name: &str) {
        self.out.push(if self.has_labels { ',' } else { '{' });
        self.has_labels = true;
        self.out.push_str(name);
        self.out.push_str("=\"");
    }

    pub(super) fn value(self, value: Value) {
        if self.has_labels {
            self.out.push('}');
        }
        let _ = match value {
            Value::Count(count) => writeln!(self.out, " {count}"),
            Value::Millis(ms) => writeln!(self.out, " {}.{:03}", ms / 1_000, ms % 1_000),
        };
    }
}

/// Writes a label's value so that it stays one, whatever it is.
fn push_escaped(out: &mut String, value: &str) {
    if !value.contains(['\\', '"', '\n']) {
        return out.push_str(value);
    }
    for character in value.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use taffrail_core::metric::Dialect;

    use super::*;

    const METRIC: Metric = Metric::gauge(Dialect::Taffrail, "taffrail_lag", &["group"], "Lag.");

    #[test]
    fn a_series_is_its_name_its_labels_and_its_value() {
        let mut out = String::new();
        write_head(&mut out, &METRIC);
        Line::new(&mut out, &METRIC).value(Value::Count(-3));
        Line::new(&mut out, &METRIC).label("group", "g").number("partition", 7).value(Value::Millis(61_005));
        let expected = "# HELP taffrail_lag Lag.\n# TYPE taffrail_lag gauge\ntaffrail_lag -3\n\
                        taffrail_lag{group=\"g\",partition=\"7\"} 61.005\n";
        assert_eq!(out, expected);
    }

    #[test]
    fn hostile_labels_stay_within_their_quotes() {
        let mut out = String::new();
        Line::new(&mut out, &METRIC).label("group", "a\"} 1\nfake{x=\"\\ 🦀").value(Value::Count(1));
        assert_eq!(out, "taffrail_lag{group=\"a\\\"} 1\\nfake{x=\\\"\\\\ 🦀\"} 1\n");
    }
}
