//! The file of contexts: YAML, in the folder where people's settings are.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};
use taffrail_storage::disk::real::RealDisk;
use taffrail_storage::disk::{self, Disk};

/// Variable that names the file, or `off`.
const FILE_VARIABLE: &str = "TAFFRAIL_CONTEXTS";

/// Largest file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Where a cluster is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Context {
    /// Addresses of brokers to begin with.
    pub(crate) brokers: Vec<String>,
    /// Addresses of the controllers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) controllers: Vec<String>,
    /// Address of a process's metrics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) metrics: Option<String>,
}

/// All contexts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Contexts {
    /// The one in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) current: Option<String>,
    /// All of them, by their names.
    pub(crate) contexts: BTreeMap<String, Context>,
}

/// Where the file is: as the variable says, or among the settings of whoever runs this. `None` where there is no such place.
fn path() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    match variable(FILE_VARIABLE) {
        Some(off) if off == "off" => None,
        Some(file) => Some(file.into()),
        None => {
            let settings = variable("XDG_CONFIG_HOME").map(PathBuf::from);
            let settings = settings.or_else(|| Some(Path::new(&variable("HOME")?).join(".config")))?;
            Some(settings.join("taffrail").join("contexts.yaml"))
        }
    }
}

impl Contexts {
    /// The contexts that there are.
    ///
    /// # Errors
    /// When the file cannot be read, or says something else.
    pub(crate) fn load() -> anyhow::Result<Self> {
        path().map_or_else(|| Ok(Self::default()), |path| Self::load_from(&path))
    }

    fn load_from(path: &Path) -> anyhow::Result<Self> {
        let bytes = match disk::read_file(&RealDisk::new(), path, FILE_BYTES_MAX) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error).context(path.display().to_string()),
        };
        let text = String::from_utf8(bytes).with_context(|| path.display().to_string())?;
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        serde_saphyr::from_str(&text)
            .with_context(|| format!("{} is no file of contexts: mend or remove it", path.display()))
    }

    /// Writes them down, so that a crash leaves what was there or what is to be.
    ///
    /// # Errors
    /// When there is no place for the file, or the disk refuses.
    pub(crate) fn save(&self) -> anyhow::Result<()> {
        match path() {
            Some(path) => self.save_to(&path),
            None => bail!("there is no place for contexts: set HOME, or {FILE_VARIABLE} to a file"),
        }
    }

    fn save_to(&self, path: &Path) -> anyhow::Result<()> {
        let disk = RealDisk::new();
        let text = serde_saphyr::to_string(self)?;
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        disk.create_dir(dir).with_context(|| dir.display().to_string())?;
        disk::replace_file(&disk, path, text.as_bytes()).with_context(|| path.display().to_string())
    }

    /// That there is no context of this name, and which there are.
    pub(super) fn unknown(&self, name: &str) -> String {
        let known: Vec<&str> = self.contexts.keys().map(String::as_str).collect();
        match known.as_slice() {
            [] => format!("there is no context {name}: `taffrail context add` makes one"),
            known => format!("there is no context {name}: there are {}", known.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_come_back_as_they_were_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep").join("contexts.yaml");
        assert_eq!(Contexts::load_from(&path).unwrap(), Contexts::default());
        let context = Context { brokers: vec!["[::1]:9092".to_owned(), "b:1".to_owned()], ..Context::default() };
        let contexts = Contexts {
            current: Some("a: b".to_owned()),
            contexts: [("a: b".to_owned(), context), ("c".to_owned(), Context::default())].into(),
        };
        contexts.save_to(&path).unwrap();
        assert_eq!(Contexts::load_from(&path).unwrap(), contexts);
        assert_eq!(contexts.unknown("d"), "there is no context d: there are a: b, c");

        for (text, said) in [("contexts: 7\n", "is no file of contexts"), ("curent: a\n", "is no file of contexts")] {
            std::fs::write(&path, text).unwrap();
            assert!(Contexts::load_from(&path).unwrap_err().to_string().contains(said), "{text}");
        }
    }
}
