//! A program that must not allocate while it writes can use the encoder: all memory is allocated when the encoder is created.

use std::alloc::{GlobalAlloc, Layout, System};
use std::borrow::Cow;
use std::cell::Cell;
use std::io;

use nettrace::encode::{BLOCK_BYTES, Describe, Encoder, Field, Header, Identity, OnStack, Output, Written};
use nettrace::{Container, TraceInfo, Type, Utc};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: the system's allocator, after a count.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// An output that counts bytes.
#[derive(Default)]
struct Bytes(u64);

impl Output for Bytes {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0 += bytes.len() as u64;
        Ok(())
    }
}

struct Ticked;

impl Describe for Ticked {
    fn identity(&self) -> Identity<'_> {
        Identity { provider: "clock", event: 1, name: "Ticked", version: 1, level: 4, keywords: 1, opcode: Some(11) }
    }

    fn fields(&self) -> impl Iterator<Item = Field<'_>> {
        (0..40).map(|_| ("Ticks", Cow::Owned(Type::Unsigned(8))))
    }
}

#[test]
fn a_file_without_labels_is_written_without_allocation() {
    for container in [Container::V4, Container::V6] {
        let info = TraceInfo {
            container,
            start: Utc::default(),
            start_ticks: 0,
            ticks_per_second: 1_000,
            pointer_bytes: 8,
            process_id: 1,
            processors: 1,
            sampling_period_ns: 0,
            pairs: Vec::new(),
        };
        let mut encoder: Encoder<Bytes, OnStack> = Encoder::new(Bytes::default(), container);
        let _ = encoder.trace(&info).unwrap();
        let payload = vec![7; 64_000];
        let before = ALLOCATIONS.get();
        let mut stacks = 0;
        for number in 1..3_000_u32 {
            let thread = u64::from(number);
            if container == Container::V6 {
                encoder.thread(thread, (1, thread), "", &[]).unwrap();
            }
            assert!(!encoder.event_type(number, &Ticked).unwrap().without_fields);
            stacks += 1;
            encoder.stack(stacks, &payload[..8 * (number as usize * 31 % 4_000)]).unwrap();
            let header = Header {
                kind: number,
                sequence: number,
                thread,
                capture: thread,
                processor: None,
                time: number.into(),
                sorted: true,
                context: OnStack(stacks),
            };
            let length = number as usize * 7_919 % payload.len();
            assert_eq!(encoder.event(&header, &payload[..length]).unwrap(), Written::Yes);
            encoder.last_number(thread, number);
            if encoder.point_is_full() || number % 700 == 0 {
                encoder.sequence_point(number.into(), 0).unwrap();
                stacks = 0;
            }
            if container == Container::V6 && number % 100 == 0 {
                encoder.thread_ended(thread, number).unwrap();
            }
        }
        encoder.flush().unwrap();
        assert_eq!(ALLOCATIONS.get() - before, 0, "{container:?}");
        assert!(encoder.output().0 > 100 * BLOCK_BYTES as u64);
    }
}
