//! The targets, one file for each kind of reader.

mod frame;
mod message;
mod metadata;
mod offsets;
mod record;
mod storage;
mod yaml;

use crate::Target;
use crate::random::Random;

/// Every target. A name is also that of a corpus folder and of a libFuzzer binary.
pub const TARGETS: &[Target] = &[
    Target { name: "frame", run: frame::run, sound: frame::sound, mend: nothing },
    Target { name: "header", run: message::header, sound: message::sound_request, mend: nothing },
    Target { name: "request", run: message::request, sound: message::sound_request, mend: nothing },
    Target { name: "response", run: message::response, sound: message::sound_response, mend: nothing },
    Target { name: "record_batch", run: record::batch, sound: record::sound_batch, mend: record::mend_crc },
    Target { name: "produced", run: record::produced, sound: record::sound_batch, mend: record::mend_crc },
    Target { name: "gzip", run: record::gzip, sound: record::sound_gzip, mend: nothing },
    Target { name: "snappy", run: record::snappy, sound: record::sound_snappy, mend: nothing },
    Target { name: "lz4", run: record::lz4, sound: record::sound_lz4, mend: nothing },
    Target { name: "zstd", run: record::zstd, sound: record::sound_zstd, mend: nothing },
    Target { name: "metadata_events", run: metadata::events, sound: metadata::sound_events, mend: nothing },
    Target { name: "metadata_snapshot", run: metadata::snapshot, sound: metadata::sound_snapshot, mend: nothing },
    Target { name: "offsets_record", run: offsets::record, sound: offsets::sound_record, mend: nothing },
    Target { name: "yaml", run: yaml::resources, sound: yaml::sound_resources, mend: nothing },
    Target { name: "index", run: storage::index, sound: storage::sound_index, mend: nothing },
    Target {
        name: "producer_snapshot",
        run: storage::producer_snapshot,
        sound: storage::sound_producer_snapshot,
        mend: storage::mend_producer_snapshot,
    },
    Target {
        name: "data_directory",
        run: storage::data_directory,
        sound: storage::sound_data_directory,
        mend: storage::mend_data_directory,
    },
];

/// For formats that have nothing to mend.
fn nothing(_: &mut [u8]) {}

/// Whether something is so, at random.
fn coin(random: &mut Random) -> bool {
    random.below(2) == 1
}
