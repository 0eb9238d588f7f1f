//! The files that people give to `taffrail up`.

use taffrail_operator::yaml::load_texts;

use crate::memory::bounded;
use crate::random::Random;

/// A value in a file becomes a node of a tree, then a resource; each problem found becomes a text.
const MEMORY_PER_BYTE: usize = 4096;
/// The schemas that resources are checked against, made anew for each file.
const MEMORY_BYTES: usize = 64 * 1024 * 1024;

/// Any text: resources, or problems that name the file.
pub(super) fn resources(input: &[u8]) {
    let text = String::from_utf8_lossy(input).into_owned();
    let texts = [("file.yaml".to_owned(), text)];
    if let Err(problems) = bounded(input, MEMORY_PER_BYTE, MEMORY_BYTES, || load_texts(&texts)) {
        assert!(!problems.0.is_empty());
        assert!(problems.0.iter().all(|problem| problem.file == "file.yaml"));
        assert!(!problems.to_string().is_empty());
    }
}

const DOCUMENTS: [&str; 4] = [
    "apiVersion: taffrail.dev/v1alpha1\nkind: Cluster\nmetadata:\n  name: local\nspec:\n  config:\n    \
     auto.create.topics.enable: true\n",
    "apiVersion: taffrail.dev/v1alpha1\nkind: Topic\nmetadata: {name: orders}\nspec:\n  clusterRef: {name: local}\n  \
     partitions: 3\n  config: &shared\n    retention.ms: \"60000\"\n    cleanup.policy: [compact, delete]\n",
    "apiVersion: taffrail.dev/v1alpha1\nkind: ConsumerGroup\nmetadata:\n  name: readers\n  labels: {a: b}\nspec:\n  \
     clusterRef:\n    name: local\n",
    "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n",
];

pub(super) fn sound_resources(random: &mut Random) -> Vec<u8> {
    let documents: Vec<&str> = (0..=random.below(3)).map(|_| *random.one_of(&DOCUMENTS)).collect();
    documents.join("---\n").into_bytes()
}
