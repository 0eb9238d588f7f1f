//! How `topic consume -f` prints a record: a text with places for its parts, as kcat has it.

use std::io::{self, Write};

use taffrail_client::kafka::PartitionKey;
use taffrail_core::record::Record;

/// What may stand in it.
pub(super) const GRAMMAR: &str = "%t topic, %p partition, %o offset, %T timestamp in milliseconds, %k key, %v value, %K and %V their bytes \
     (-1 for null), %h headers, %% a percent sign; \\n, \\t, \\0, \\\\ as usual";

/// A part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(Vec<u8>),
    Topic,
    Partition,
    Offset,
    Timestamp,
    Key,
    Value,
    KeyBytes,
    ValueBytes,
    Headers,
}

/// A format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout(Vec<Piece>);

/// Why a text is no format.
#[derive(Debug, thiserror::Error)]
#[error("{unknown} means nothing; known are {}", GRAMMAR)]
pub(crate) struct NoLayout {
    unknown: String,
}

impl Layout {
    /// Values, one on a line.
    pub(super) fn lines() -> Self {
        Self(vec![Piece::Value, Piece::Text(b"\n".to_vec())])
    }

    /// Writes a record. With `shown` it goes to a terminal: what the terminal would take for a command is told instead.
    pub(super) fn write(
        &self,
        out: &mut Vec<u8>,
        partition: &PartitionKey,
        record: &Record<'_>,
        shown: bool,
    ) -> io::Result<()> {
        let length = |bytes: Option<&[u8]>| bytes.map_or(-1, |bytes| i64::try_from(bytes.len()).unwrap_or(i64::MAX));
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text),
                Piece::Topic => out.extend_from_slice(partition.0.as_bytes()),
                Piece::Partition => write!(out, "{}", partition.1)?,
                Piece::Offset => write!(out, "{}", record.offset)?,
                Piece::Timestamp => write!(out, "{}", record.timestamp)?,
                Piece::Key => put(out, record.key.unwrap_or_default(), shown),
                Piece::Value => put(out, record.value.unwrap_or_default(), shown),
                Piece::KeyBytes => write!(out, "{}", length(record.key))?,
                Piece::ValueBytes => write!(out, "{}", length(record.value))?,
                Piece::Headers => {
                    for (number, (name, value)) in record.headers.enumerate() {
                        out.extend_from_slice(if number > 0 { b"," } else { b"" });
                        put(out, name, shown);
                        out.push(b'=');
                        put(out, value.unwrap_or_default(), shown);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Appends bytes; for a terminal without what it would obey.
fn put(out: &mut Vec<u8>, bytes: &[u8], shown: bool) {
    if !shown {
        return out.extend_from_slice(bytes);
    }
    out.extend_from_slice(crate::cli::output::shown(&String::from_utf8_lossy(bytes)).as_bytes());
}

impl std::str::FromStr for Layout {
    type Err = NoLayout;

    fn from_str(text: &str) -> Result<Self, NoLayout> {
        let (mut pieces, mut plain) = (Vec::new(), Vec::new());
        let mut rest = text.chars();
        while let Some(next) = rest.next() {
            let mut escaped = || rest.next().map_or_else(|| next.to_string(), |after| format!("{next}{after}"));
            let piece = match next {
                '%' => match escaped().as_str() {
                    "%t" => Piece::Topic,
                    "%p" => Piece::Partition,
                    "%o" => Piece::Offset,
                    "%T" => Piece::Timestamp,
                    "%k" => Piece::Key,
                    "%v" | "%s" => Piece::Value,
                    "%K" => Piece::KeyBytes,
                    "%V" | "%S" => Piece::ValueBytes,
                    "%h" => Piece::Headers,
                    "%%" => Piece::Text(b"%".to_vec()),
                    unknown => return Err(NoLayout { unknown: unknown.to_owned() }),
                },
                '\\' => match escaped().as_str() {
                    "\\n" => Piece::Text(b"\n".to_vec()),
                    "\\t" => Piece::Text(b"\t".to_vec()),
                    "\\0" => Piece::Text(vec![0]),
                    "\\\\" => Piece::Text(b"\\".to_vec()),
                    unknown => return Err(NoLayout { unknown: unknown.to_owned() }),
                },
                other => Piece::Text(other.to_string().into_bytes()),
            };
            match piece {
                Piece::Text(text) => plain.extend(text),
                piece => {
                    if !plain.is_empty() {
                        pieces.push(Piece::Text(std::mem::take(&mut plain)));
                    }
                    pieces.push(piece);
                }
            }
        }
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Ok(Self(pieces))
    }
}

#[cfg(test)]
mod tests {
    use taffrail_core::record::Headers;

    use super::*;

    fn printed(format: &str, shown: bool) -> String {
        let record = Record {
            offset: 17,
            timestamp: 5,
            sequence: -1,
            key: None,
            value: Some(b"a\x1b[2J"),
            headers: Headers::default(),
        };
        let mut out = Vec::new();
        format.parse::<Layout>().unwrap().write(&mut out, &("t".to_owned(), 3), &record, shown).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn formats_have_places_for_the_parts_of_a_record() {
        assert_eq!(printed(r"%t-%p@%o %T\t%K:%k %V %h%%\n", false), "t-3@17 5\t-1: 5 %\n");
        assert_eq!(printed("%v %s", false), "a\x1b[2J a\x1b[2J");
        assert_eq!("%v\\n".parse::<Layout>().unwrap(), Layout::lines());
    }

    #[test]
    fn terminals_are_given_no_commands() {
        assert_eq!(printed("%v", true), "a\\u{1b}[2J");
    }

    #[test]
    fn what_means_nothing_is_refused() {
        for format in ["%x", "\\q", "abc%", "\\"] {
            let error = format.parse::<Layout>().unwrap_err().to_string();
            assert!(error.contains("means nothing; known are %t topic"), "{error}");
        }
    }
}
