//! The layouts of event version 2.0.0: release 1.118 and later.
//!
//! `cargo doc` shows a struct for each event, with its code, its category and its parameters. The names are those of the MPS.
//!
//! ```
//! use mps_telemetry::reader::Reader;
//! use mps_telemetry::{Rank, TypedRecord, encode::Encoder, v2};
//!
//! let mut encoder = Encoder::new(Vec::new());
//! let written = v2::TraceBandAdvance { arena: 0x10, trace: 0x20, rank: Rank::Exact };
//! encoder.event(1000, &written)?;
//!
//! let stream = encoder.end()?;
//! let mut reader = Reader::new(&stream[..]);
//! reader.fill()?;
//! let record = reader.buffered()?.unwrap();
//! assert_eq!(v2::TraceBandAdvance::decode(&record), Some(written));
//! // The record is of no other event.
//! assert_eq!(v2::TraceDestroy::decode(&record), None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use super::layout::Layout;
use super::record::Record;
use super::typed::{Field, TypedRecord, events};

events! {
    /// All 92 events of event version 2.0.0, by code: `code name category(sort parameter [unit]: type, …)`.
    V2_0_0 "2.0.0" bytes
    0x01 AMCScanNailed Seg(
        W loops [Count], W summary [Set], W white [Set], W unfixed [Set], W fixed [Set], W refset [Set]
    );
    0x02 AWLDeclineSeg Seg(P seg, W singleAccesses [Count]);
    0x03 AWLDeclineTotal Seg(P seg, W succAccesses [Count]);
    0x04 ArenaAccessBegin Arena(P arena, P addr, U mode);
    0x05 ArenaAccessEnd Arena(P arena);
    0x06 ArenaAlloc Arena(P arena, P baseTract, A base, W size [Bytes], P pool);
    0x07 ArenaAllocFail Arena(P arena, W size [Bytes], P pool, U res: Res);
    0x08 ArenaCreateCL Arena(
        P arena, W size [Bytes], A base, W grainSize [Bytes], P arenaClass, W systemPools [Count], U serial
    );
    0x09 ArenaCreateVM Arena(
        P arena, W userSize [Bytes], W chunkSize [Bytes], W grainSize [Bytes], P arenaClass, W systemPools [Count],
        U serial
    );
    0x0A ArenaDestroy Arena(P arena);
    0x0B ArenaExtend Arena(P arena, A base, W size [Bytes]);
    0x0C ArenaFree Arena(P arena, A base, W size [Bytes], P pool);
    0x0D ArenaPollBegin Arena(P arena);
    0x0E ArenaPollEnd Arena(P arena, B workWasDone);
    0x0F ArenaSetEmergency Arena(P arena, B emergency);
    0x10 ArenaSetSpare Arena(P arena, D spare [Fraction]);
    0x11 ArenaUseFreeZone Arena(P arena, W zoneSet [Set]);
    0x12 BufferCommit Object(P buffer, A p, W size [Bytes], A clientClass);
    0x13 BufferEmpty Seg(P buffer, W spare [Bytes]);
    0x14 BufferFill Seg(P buffer, W size [Bytes], A base, W filled [Bytes]);
    0x15 BufferFinish Pool(P buffer);
    0x16 BufferInit Pool(P buffer, P pool, B isMutator);
    0x17 BufferInitRank Pool(P buffer, P pool, B isMutator, U rank: Rank);
    0x18 BufferInitSeg Pool(P buffer, P pool, B isMutator);
    0x19 BufferReserve Object(P buffer, A init, W size [Bytes]);
    0x1A ChainCondemnAuto Trace(P arena, P chain, P trace, W topCondemnedGenIndex, W genCount [Count]);
    0x1B CommitLimitSet Arena(P arena, W limit [Bytes], U res: Res);
    0x1C EventClockSync Arena(W clock [Clocks]);
    0x1D EventInit Arena(
        U major, U median, U minor, U maxCode, U maxNameLen, U wordWidth [Bits], W clocksPerSec [Clocks]
    );
    0x1E GenFinish Arena(P arena, P r#gen, U serial);
    0x1F GenInit Arena(P arena, P r#gen, U serial, W capacity [Bytes], D mortality [Fraction]);
    0x20 GenZoneSet Arena(P arena, P r#gen, W zoneSet [Set]);
    0x21 Intern<'a> User(W stringId, S string);
    0x22 Label User(A address, W stringId);
    0x23 LabelPointer User(P pointer, W stringId);
    0x24 LandInit Pool(P land, P owner);
    0x25 MessagesDropped Arena(W count [Count]);
    0x26 MessagesExist Arena();
    0x27 MeterInit Pool(P meter, P owner);
    0x28 MeterValues Pool(P meter, D total, D meanSquared, W count [Count], W max, W min);
    0x29 PauseTimeSet Arena(P arena, D pauseTime [Seconds]);
    0x2A PoolAlloc Object(P pool, A pReturn, W size [Bytes]);
    0x2B PoolFinish Pool(P pool, P arena);
    0x2C PoolFree Object(P pool, A old, W size [Bytes]);
    0x2D PoolInit Pool(P pool, P arena, P poolClass, U serial);
    0x2E PoolInitAMC Pool(P pool, P format);
    0x2F PoolInitAMCZ Pool(P pool, P format);
    0x30 PoolInitAMS Pool(P pool, P format);
    0x31 PoolInitAWL Pool(P pool, P format);
    0x32 PoolInitLO Pool(P pool, P format);
    0x33 PoolInitMFS Pool(P pool, W extendBy [Bytes], B extendSelf, W unitSize [Bytes]);
    0x34 PoolInitMVFF Pool(
        P pool, W extendBy [Bytes], W avgSize [Bytes], W align [Bytes], B slotHigh, B arenaHigh, B firstFit
    );
    0x35 PoolInitMVT Pool(
        P pool, W minSize [Bytes], W meanSize [Bytes], W maxSize [Bytes], W reserveDepth [Count], W fragLimig
    );
    0x36 PoolInitSNC Pool(P pool, P format);
    0x37 RootScan Seg(P root, W ts [Set], W summary [Set]);
    0x38 SegAlloc Seg(P arena, P seg, A base, W size [Bytes], P pool);
    0x39 SegAllocFail Seg(P arena, W size [Bytes], P pool, U res: Res);
    0x3A SegFree Seg(P arena, P seg);
    0x3B SegMerge Seg(P segLo, P segHi);
    0x3C SegReclaim Seg(P seg, P pool, P arena, P trace);
    0x3D SegScan Seg(P seg, P pool, P arena, U ts [Set], U rank: Rank);
    0x3E SegSetGrey Seg(P arena, P seg, U grey [Set]);
    0x3F SegSetSummary Seg(P arena, P seg, W size [Bytes], W oldSummary [Set], W newSummary [Set]);
    0x40 SegSplit Seg(P seg, P segLo, P segHi, A at);
    0x41 TraceAccess Seg(P arena, P seg, U mode);
    0x42 TraceBandAdvance Trace(P arena, P trace, W rank: Rank);
    0x43 TraceCondemnAll Trace(P arena, P trace);
    0x44 TraceCreate Trace(P trace, P arena, U why: TraceStartWhy);
    0x45 TraceCreatePoolGen Trace(
        P r#gen, W capacity [Bytes], D mortality [Fraction], W zone [Set], P pool, W totalSize [Bytes],
        W freeSize [Bytes], W newSize [Bytes], W oldSize [Bytes], W newDeferredSize [Bytes], W oldDeferredSize [Bytes]
    );
    0x46 TraceDestroy Trace(P arena, P trace);
    0x47 TraceEndGen Trace(
        P arena, P trace, P r#gen, W condemned [Bytes], W forwarded [Bytes], W preservedInPlace [Bytes],
        D mortalityTrace [Fraction], D mortalityAverage [Fraction]
    );
    0x48 TraceFindGrey Seg(P arena, P trace, P seg, W rank: Rank);
    0x49 TraceFix Ref(P ss, P refIO, A r#ref, U rank: Rank);
    0x4A TraceFixSeg Ref(P seg);
    0x4B TraceFlipBegin Trace(P trace, P arena);
    0x4C TraceFlipEnd Trace(P trace, P arena);
    0x4D TraceReclaim Trace(P trace, P arena);
    0x4E TraceScanArea Seg(P ss, P base, P limit);
    0x4F TraceScanAreaTagged Seg(P ss, P base, P limit);
    0x50 TraceScanSingleRef Seg(U ts [Set], U rank: Rank, P arena, P refIO);
    0x51 TraceStart Trace(
        P arena, P trace, D mortality [Fraction], D finishingTime, W condemned [Bytes], W notCondemned [Bytes],
        W foundation [Bytes], W white [Set], W quantumWork
    );
    0x52 TraceStatFix Trace(
        P trace, P arena, W fixRefCount [Count], W segRefCount [Count], W whiteSegRefCount [Count],
        W nailCount [Count], W snapCount [Count], W forwardedCount [Count], W forwardedSize [Bytes],
        W preservedInPlaceCount [Count], W preservedInPlaceSize [Bytes]
    );
    0x53 TraceStatReclaim Trace(P trace, P arena, W reclaimCount [Count], W reclaimSize [Bytes]);
    0x54 TraceStatScan Trace(
        P trace, P arena, W rootScanCount [Count], W rootScanSize [Bytes], W rootCopiedSize [Bytes],
        W segScanCount [Count], W segScanSize [Bytes], W segCopiedSize [Bytes], W singleScanCount [Count],
        W singleScanSize [Bytes], W singleCopiedSize [Bytes], W readBarrierHitCount [Count], W greySegMax [Count],
        W pointlessScanCount [Count]
    );
    0x55 VMArenaExtendDone Arena(W chunkSize [Bytes], W reserved [Bytes]);
    0x56 VMArenaExtendFail Arena(W chunkMin [Bytes], W reserved [Bytes]);
    0x57 VMArenaExtendStart Arena(W size [Bytes], W chunkSize [Bytes], W reserved [Bytes]);
    0x58 VMCompact Arena(W vmem0 [Bytes], W vmem1 [Bytes], W vmem2 [Bytes]);
    0x59 VMFinish Arena(P vm);
    0x5A VMInit Arena(P vm, A base, A limit);
    0x5B VMMap Seg(P vm, A base, A limit);
    0x5C VMUnmap Seg(P vm, A base, A limit);
}

/// The numbers of this version.
pub(super) const NUMBERS: [u32; 3] = [2, 0, 0];

impl EventInit {
    /// Returns the event that begins a stream of this version, in which `EventClockSync` records count this many ticks per second.
    pub const fn new(clocks_per_sec: u64) -> EventInit {
        let [major, median, minor] = NUMBERS;
        let (mut longest, mut i) = (0, 0);
        while i < V2_0_0.len() {
            let length = V2_0_0[i].name.len();
            longest = if length > longest { length } else { longest };
            i += 1;
        }
        EventInit {
            major,
            median,
            minor,
            maxCode: V2_0_0[V2_0_0.len() - 1].code as u32,
            maxNameLen: longest as u32,
            wordWidth: u64::BITS,
            clocksPerSec: clocks_per_sec,
        }
    }
}
