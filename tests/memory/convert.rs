//! The memory of a conversion does not depend on the length of the trace (`.format.hostile`).

use std::io::{self, Read};

use crate::memory_support::{Pieces, alone, measured};
use crate::nettrace_support::{Block, Event, Form, Type, Writer, index_of};
use nettrace::Container;
use rstest::rstest;
use stopworld_analysis::convert::{Conversion, ConvertOptions, Target, convert};

const LIMIT: usize = 96 << 20;

fn converted(input: impl Read, target: Target) -> (Conversion, usize) {
    measured(|| convert(input, io::sink(), target, &ConvertOptions::default()).unwrap())
}

/// Blocks of version 6, which do not depend on their position: events of the runtime provider, without flags, that define new threads and
/// types again and again.
fn trace(blocks: u32) -> impl Read {
    let mut done = 0;
    Pieces::new(Writer::new(Form::V6, 8).bytes, move || {
        done += 1;
        if done > blocks {
            return (done == blocks + 1).then(|| vec![0; 4]);
        }
        let mut writer = Writer::new(Form::V6, 8);
        let begin = writer.bytes.len();
        one_of_many(&mut writer, done);
        Some(writer.bytes.split_off(begin))
    })
}

fn one_of_many(writer: &mut Writer, block: u32) {
    let thread = 2 * u64::from(block);
    writer.add(&Block::Threads(vec![(index_of(thread), format!("thread {block}"), 7, thread)]));
    let provider = "Microsoft-Windows-DotNETRuntime".to_owned();
    // Collections that begin and never end, segments, and an unknown event.
    let event = [1, 5, 9, 10, 4000][block as usize % 5];
    let version = [2, 1, 1, 4, 0][block as usize % 5];
    writer.add(&Block::Types(vec![Type { id: 1, provider, event, version, ..Type::default() }]));
    let time = i64::from(block) * 1000;
    let events = (1..=200u32).map(|sequence| Event {
        kind: 1,
        sequence,
        thread,
        capture: thread,
        time: time + i64::from(sequence),
        payload: (block * 256 + sequence).to_le_bytes().repeat(12),
        ..Event::default()
    });
    writer.add(&Block::Events(events.collect()));
    if block.is_multiple_of(3) {
        writer.add(&Block::Point(time + 500, 2, vec![(thread, 200)]));
    } else {
        writer.add(&Block::Ended(vec![(index_of(thread), 250)]));
        writer.add(&Block::Point(time + 500, 2, vec![]));
    }
}

#[rstest]
fn a_long_trace_of_dotnet_is_converted_in_little_memory(
    #[values(Target::Mps, Target::Nettrace(Container::V4), Target::Nettrace(Container::V6), Target::Json)]
    target: Target,
) {
    let _alone = alone();
    let (conversion, most) = converted(trace(8_000), target);
    assert!(
        conversion.damage.is_none() && !conversion.left_out.is_empty() || target == Target::Nettrace(Container::V6)
    );
    assert!(most < LIMIT, "{target:?}: {most}");
}

/// Records of three codes with new addresses. Their times descend, as they may between the categories of a stream.
fn stream(pieces: u32) -> impl Read {
    let mut done = 0;
    Pieces::new(Vec::new(), move || {
        done += 1;
        (done <= pieces).then(|| {
            let mut piece = Vec::new();
            for place in 0..2_000u64 {
                // PoolAlloc, ArenaAlloc, LabelPointer: new addresses each time.
                let (code, words) = [(0x2Au16, 3), (0x06, 5), (0x23, 2)][place as usize % 3];
                piece.extend(code.to_le_bytes());
                piece.extend((16 + 8 * words as u16).to_le_bytes());
                piece.extend([0; 4]);
                piece.extend((u64::from(done) * 10_000 + 5_000 - place).to_le_bytes());
                (0..words).for_each(|word| piece.extend((u64::from(done) << 20 | place << 4 | word).to_le_bytes()));
            }
            piece
        })
    })
}

#[rstest]
fn a_long_stream_is_converted_in_little_memory(
    #[values(Target::Mps, Target::Nettrace(Container::V4), Target::Json)] target: Target,
) {
    let _alone = alone();
    let (conversion, most) = converted(stream(400), target);
    assert_eq!((conversion.carried, conversion.damage), (800_000, None));
    assert!(most < LIMIT, "{target:?}: {most}");
}
