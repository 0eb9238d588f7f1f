//! Files of resources: YAML, several documents a file, several files.
//!
//! What is wrong is said with file, line, column and field, for all mistakes at once, and with the nearest known name
//! where one was misspelt. The checks run on the parsed tree, before the types of [`crate::crd`] are filled, against the
//! schemas that the API server gets.

mod check;
mod load;
mod node;
mod problem;
mod rules;

pub use load::{FILE_BYTES_MAX, FILES_MAX, Loaded, Origin, Resources, load_files, load_texts};
pub use node::{Entry, Node, NodeError, Value, parse_documents};
pub use problem::{Place, Problem, Problems};
pub use rules::{RULES, Rule};
