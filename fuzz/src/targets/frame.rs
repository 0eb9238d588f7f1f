//! Frames, however they are cut into pieces on the way.

use bytes::BytesMut;
use taffrail_protocol::frame::FrameReader;

use crate::memory::bounded;
use crate::random::Random;

/// Largest frame that the reader under test takes.
const LIMIT_BYTES: usize = 4096;

/// The first byte is the length of the pieces in which the rest arrives. Whatever the pieces are, the same frames come out.
pub(super) fn run(input: &[u8]) {
    let Some((&piece_bytes, stream)) = input.split_first() else { return };
    let in_pieces = bounded(input, 16, 2 * 1024 * 1024, || frames(stream, usize::from(piece_bytes).max(1)));
    let at_once = frames(stream, stream.len().max(1));
    assert_eq!(in_pieces, at_once, "pieces of {piece_bytes} bytes");
}

/// The frames of a stream, and whether it ended by an error.
fn frames(stream: &[u8], piece_bytes: usize) -> (Vec<Vec<u8>>, bool) {
    let reader = FrameReader::for_requests(LIMIT_BYTES);
    let mut received = BytesMut::new();
    let mut frames = Vec::new();
    for piece in stream.chunks(piece_bytes) {
        received.extend_from_slice(piece);
        loop {
            match reader.next(&mut received) {
                Ok(Some(frame)) => {
                    assert!(frame.len() <= LIMIT_BYTES);
                    frames.push(frame.to_vec());
                }
                Ok(None) => break,
                Err(_) => return (frames, true),
            }
        }
    }
    (frames, false)
}

pub(super) fn sound(random: &mut Random) -> Vec<u8> {
    let mut stream = vec![random.next_u64() as u8];
    for _ in 0..random.below(4) {
        let length = 8 + random.below(64);
        stream.extend((length as u32).to_be_bytes());
        stream.extend(random.bytes(length));
    }
    stream
}
