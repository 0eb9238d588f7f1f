//! Files of settings: YAML, or Kafka's properties.

use std::path::Path;

use taffrail_operator::yaml::{Value, parse_documents};

use super::OptionsError;

/// Largest file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The settings of a file with their lines. `.properties` files are read as Kafka reads them, all others as YAML.
pub(super) fn read(path: &Path) -> Result<Vec<(usize, String, String)>, OptionsError> {
    let refused = |message: String| OptionsError::File(format!("{}: {message}", path.display()));
    let size = std::fs::metadata(path).map_err(|error| refused(error.to_string()))?.len();
    if size > FILE_BYTES_MAX {
        return Err(refused(format!("is larger than {FILE_BYTES_MAX} bytes")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| refused(error.to_string()))?;
    let is_properties = path.extension().is_some_and(|extension| extension == "properties");
    let settings = if is_properties { properties(&text) } else { yaml(&text) };
    settings.map_err(|(line, message)| OptionsError::File(format!("{}:{line}: {message}", path.display())))
}

type Settings = Result<Vec<(usize, String, String)>, (usize, String)>;

fn yaml(text: &str) -> Settings {
    let documents = parse_documents(text).map_err(|error| (error.place.line, error.message))?;
    let Some(document) = documents.first() else { return Ok(Vec::new()) };
    if documents.len() > 1 {
        return Err((documents[1].place.line, "one document of settings is expected".to_owned()));
    }
    let Value::Map(entries) = &document.value else {
        return Err((document.place.line, format!("expected settings, found {}", document.describe())));
    };
    if document.get("apiVersion").is_some() {
        return Err((document.place.line, "this is a file of resources: give it with -f".to_owned()));
    }
    let setting = |entry: &taffrail_operator::yaml::Entry| match entry.node.scalar_text() {
        Some(value) => Ok((entry.place.line, entry.key.clone(), value.into_owned())),
        None => Err((entry.place.line, format!("{}: expected one value, found {}", entry.key, entry.node.describe()))),
    };
    entries.iter().map(setting).collect()
}

/// Java properties as far as Kafka's own files use them: `#` and `!` comments, `=` or `:`, lines that go on after `\`.
fn properties(text: &str) -> Settings {
    let mut settings = Vec::new();
    let mut lines = (1..).zip(text.lines());
    while let Some((number, line)) = lines.next() {
        let mut line = line.trim().to_owned();
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        while line.ends_with('\\') {
            line.pop();
            let Some((_, more)) = lines.next() else { break };
            line.push_str(more.trim());
        }
        let Some((name, value)) = line.split_once(['=', ':']) else {
            return Err((number, format!("expected name=value, found {line}")));
        };
        settings.push((number, name.trim().to_owned(), value.trim().to_owned()));
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(settings: Settings) -> Vec<(usize, String, String)> {
        settings.unwrap()
    }

    fn row(line: usize, name: &str, value: &str) -> (usize, String, String) {
        (line, name.to_owned(), value.to_owned())
    }

    #[test]
    fn properties_are_read_as_kafkas_files_are_written() {
        let text = "# a comment\n\nnum.partitions=3\nlog.cleanup.policy = compact,\\\n   delete\n! other\nrequest.timeout.ms: 5\n";
        let expected = [
            row(3, "num.partitions", "3"),
            row(4, "log.cleanup.policy", "compact,delete"),
            row(7, "request.timeout.ms", "5"),
        ];
        assert_eq!(pairs(properties(text)), expected);
        assert_eq!(properties("a=1\nnonsense").unwrap_err().0, 2);
    }

    #[test]
    fn yaml_is_a_flat_map_of_single_values() {
        let expected = [row(1, "data_dir", "/d"), row(3, "num.partitions", "3"), row(4, "ephemeral", "true")];
        assert_eq!(pairs(yaml("data_dir: /d\n# x\nnum.partitions: 3\nephemeral: true\n")), expected);
        assert_eq!(pairs(yaml("")), []);
        for (text, part) in [
            ("- a", "expected settings"),
            ("a: [1]", "expected one value"),
            ("apiVersion: x", "-f"),
            ("a: 1\n---\nb: 2", "one document"),
        ] {
            assert!(yaml(text).unwrap_err().1.contains(part), "{text}");
        }
    }
}
