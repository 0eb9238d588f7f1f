//! The tree of names of the fault disk.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::disk::DirEntry;

/// What a name leads to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Node {
    Dir,
    /// A file by the number of its inode.
    File(u64),
}

/// A change of names.
pub(super) enum Change {
    Make(PathBuf, Node),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
}

/// All names with what they lead to.
#[derive(Clone, Default)]
pub(super) struct Names {
    nodes: BTreeMap<PathBuf, Node>,
}

impl Names {
    pub(super) fn apply(&mut self, change: &Change) {
        match change {
            Change::Make(path, node) => {
                self.nodes.insert(path.clone(), *node);
            }
            Change::Remove(path) => {
                self.nodes.remove(path);
            }
            Change::Rename(from, to) => {
                let moved: Vec<PathBuf> = std::iter::once(from.clone())
                    .filter(|path| self.nodes.contains_key(path))
                    .chain(self.below(from))
                    .collect();
                for path in moved {
                    let Some(node) = self.nodes.remove(&path) else { continue };
                    let target = match path.strip_prefix(from) {
                        Ok(rest) if !rest.as_os_str().is_empty() => to.join(rest),
                        _ => to.clone(),
                    };
                    self.nodes.insert(target, node);
                }
            }
        }
    }

    pub(super) fn files(&self) -> impl Iterator<Item = u64> + '_ {
        self.nodes.values().filter_map(|node| match node {
            Node::File(id) => Some(*id),
            Node::Dir => None,
        })
    }

    pub(super) fn is_dir(&self, path: &Path) -> bool {
        path == Path::new("/") || self.nodes.get(path) == Some(&Node::Dir)
    }

    pub(super) fn check_dir(&self, path: &Path) -> io::Result<()> {
        if self.is_dir(path) { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    pub(super) fn file(&self, path: &Path) -> io::Result<u64> {
        match self.nodes.get(path) {
            Some(Node::File(id)) => Ok(*id),
            Some(Node::Dir) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    pub(super) fn check_free(&self, path: &Path) -> io::Result<()> {
        if self.nodes.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.check_dir(path.parent().unwrap_or(Path::new("/")))
    }

    pub(super) fn check_rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let source = self.nodes.get(from).ok_or(io::ErrorKind::NotFound)?;
        self.check_dir(to.parent().unwrap_or(Path::new("/")))?;
        match (source, self.nodes.get(to)) {
            (_, None) | (Node::File(_), Some(Node::File(_))) => Ok(()),
            (Node::Dir, Some(Node::Dir)) if self.below(to).is_empty() => Ok(()),
            _ => Err(io::ErrorKind::AlreadyExists.into()),
        }
    }

    /// All paths strictly below a directory, deepest last.
    pub(super) fn below(&self, dir: &Path) -> Vec<PathBuf> {
        self.nodes.keys().filter(|path| path.as_path() != dir && path.starts_with(dir)).cloned().collect()
    }

    pub(super) fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.check_dir(dir)?;
        let entry = |(path, node): (&PathBuf, &Node)| {
            (path.parent() == Some(dir)).then(|| DirEntry {
                name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
                is_dir: *node == Node::Dir,
            })
        };
        Ok(self.nodes.iter().filter_map(entry).collect())
    }
}
