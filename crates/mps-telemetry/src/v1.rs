//! The layouts of event version 1.0.0, as the collector wrote it in October 2012, when the manual described `-S`, `-SL` and `-SC`.
//!
//! `cargo doc` shows a struct for each event, with its code, its category and its parameters. The names are those of the MPS.

use super::layout::Layout;
use super::record::Record;
use super::typed::{Field, TypedRecord, events};

events! {
    /// All 86 events of event version 1.0.0, by code: `code name category(sort parameter [unit]: type, …)`.
    V1_0_0 "1.0.0" bits
    0x01 AMCGenCreate Pool(P amc, P r#gen);
    0x02 AMCGenDestroy Pool(P r#gen);
    0x03 AMCInit Pool(P pool, P amc);
    0x04 AMCFinish Pool(P amc);
    0x05 ArenaCreateVM Arena(P arena, W userSize [Bytes], W chunkSize [Bytes]);
    0x06 ArenaCreateVMNZ Arena(P arena, W userSize [Bytes], W chunkSize [Bytes]);
    0x07 ArenaWriteFaults Trace(P arena, W writeBarrierHitCount [Count]);
    0x08 MeterInit Pool(P meter, P owner);
    0x09 MeterValues Pool(P meter, D total, D meanSquared, W count [Count], W max, W min);
    0x0A AMCScanBegin Seg(P amc, P seg, P ss);
    0x0B AMCScanEnd Seg(P amc, P seg, P ss);
    0x0C AMCFix Ref();
    0x0D AMCFixInPlace Ref();
    0x0E AMCFixForward Ref(A newRef);
    0x0F AMCReclaim Seg(P r#gen, P trace, P seg);
    0x11 ArenaCreateCL Arena(P arena, W size [Bytes], A base);
    0x12 ArenaDestroy Arena(P arena);
    0x13 SegAlloc Seg(P arena, P seg, A base, W size [Bytes], P pool);
    0x14 SegFree Seg(P arena, P seg);
    0x15 PoolInit Pool(P pool, P arena, P poolClass);
    0x16 PoolFinish Pool(P pool);
    0x17 PoolAlloc Object(P pool, A pReturn, W size [Bytes]);
    0x18 PoolFree Object(P pool, A old, W size [Bytes]);
    0x19 CBSInit Pool(P cbs, P owner);
    0x1A Intern<'a> User(W stringId, S string);
    0x1B Label User(A address, W stringId);
    0x1E TraceDestroy Trace(P trace);
    0x1F SegSetGrey Seg(P arena, P seg, U grey [Set]);
    0x20 TraceFlipBegin Trace(P trace, P arena);
    0x21 TraceFlipEnd Trace(P trace, P arena);
    0x22 TraceReclaim Seg(P trace);
    0x24 TraceAccess Seg(P arena, P seg, U mode);
    0x26 TraceFix Ref(P ss, P refIO, A r#ref, U rank: Rank);
    0x27 TraceFixSeg Ref(P seg);
    0x28 TraceFixWhite Ref();
    0x29 TraceScanArea Seg(P ss, P base, P limit);
    0x2A TraceScanAreaTagged Seg(P ss, P base, P limit);
    0x2B VMCreate Arena(P vm, A base, A limit);
    0x2C VMDestroy Arena(P vm);
    0x2D VMMap Seg(P vm, A base, A limit);
    0x2E VMUnmap Seg(P vm, A base, A limit);
    0x2F ArenaExtend Arena(P arena, A base, W size [Bytes]);
    0x32 RootScan Seg(P root, W ts [Set], W summary [Set]);
    0x34 BufferReserve Object(P buffer, A init, W size [Bytes]);
    0x35 BufferCommit Object(P buffer, A p, W size [Bytes], A clientClass);
    0x36 BufferInit Pool(P buffer, P pool, B isMutator);
    0x37 BufferFinish Pool(P buffer);
    0x39 BufferFill Seg(P buffer, W size [Bytes], A base, W filled [Bytes]);
    0x3A BufferEmpty Seg(P buffer, W spare [Bytes]);
    0x3B SegAllocFail Seg(P arena, W size [Bytes], P pool);
    0x3C TraceScanSeg Seg(U ts [Set], U rank: Rank, P arena, P seg);
    0x3D TraceScanSingleRef Seg(U ts [Set], U rank: Rank, P arena, A refIO);
    0x3E TraceStatCondemn Trace(
        P trace, W condemned [Bytes], W notCondemned [Bytes], W foundation [Bytes], W rate, D mortality [Fraction],
        D finishingTime
    );
    0x3F TraceStatScan Trace(
        P trace, W rootScanCount [Count], W rootScanSize [Bytes], W rootCopiedSize [Bytes], W segScanCount [Count],
        W segScanSize [Bytes], W segCopiedSize [Bytes], W singleScanCount [Count], W singleScanSize [Bytes],
        W singleCopiedSize [Bytes], W readBarrierHitCount [Count], W greySegMax [Count], W pointlessScanCount [Count]
    );
    0x40 TraceStatFix Trace(
        P trace, W fixRefCount [Count], W segRefCount [Count], W whiteSegRefCount [Count], W nailCount [Count],
        W snapCount [Count], W forwardedCount [Count], W forwardedSize [Bytes], W preservedInPlaceCount [Count],
        W preservedInPlaceSize [Bytes]
    );
    0x41 TraceStatReclaim Trace(P trace, W reclaimCount [Count], W reclaimSize [Bytes]);
    0x42 PoolInitMVFF Pool(
        P pool, P arena, W extendBy [Bytes], W avgSize [Bytes], W align [Bytes], B slotHigh, B arenaHigh, B firstFit
    );
    0x43 PoolInitMV Pool(P pool, P arena, W extendBy [Bytes], W avgSize [Bytes], W maxSize [Bytes]);
    0x44 PoolInitMFS Pool(P pool, P arena, W extendBy [Bytes], W unitSize [Bytes]);
    0x47 PoolInitAMS Pool(P pool, P arena, P format);
    0x48 PoolInitAMC Pool(P pool, P format);
    0x49 PoolInitAMCZ Pool(P pool, P format);
    0x4A PoolInitAWL Pool(P pool, P format);
    0x4B PoolInitLO Pool(P pool, P format);
    0x4C PoolInitSNC Pool(P pool, P format);
    0x4D PoolInitMVT Pool(
        P pool, W minSize [Bytes], W meanSize [Bytes], W maxSize [Bytes], W reserveDepth [Count], W fragLimig
    );
    0x51 BufferInitSeg Pool(P buffer, P pool, B isMutator);
    0x52 BufferInitRank Pool(P buffer, P pool, B isMutator, U rank: Rank);
    0x62 ReservoirLimitSet Arena(P arena, W size [Bytes]);
    0x63 CommitLimitSet Arena(P arena, W limit [Bytes], U OK);
    0x64 SpareCommitLimitSet Arena(P arena, W limit [Bytes]);
    0x65 ArenaAlloc Arena(P arena, P baseTract, A base, W size [Bytes], P pool);
    0x66 ArenaFree Arena(P arena, A base, W size [Bytes]);
    0x67 ArenaAllocFail Arena(P arena, W size [Bytes], P pool);
    0x68 SegMerge Seg(P segLo, P segHi, B withReservoirPermit);
    0x69 SegSplit Seg(P seg, P segLo, P segHi, A at);
    0x6A vmArenaExtendStart Arena(W size [Bytes], W chunkSize [Bytes], W reserved [Bytes]);
    0x6B vmArenaExtendFail Arena(W chunkMin [Bytes], W reserved [Bytes]);
    0x6C vmArenaExtendDone Arena(W chunkSize [Bytes], W reserved [Bytes]);
    0x6D MessagesDropped Arena(W count [Count]);
    0x6E MessagesExist Arena();
    0x6F ChainCondemnAuto Trace(P chain, W topCondemnedGenSerial, W genCount [Count]);
    0x70 TraceFindGrey Trace(P arena, W ti, P seg, W rank: Rank);
    0x71 TraceBandAdvance Trace(P arena, W ti, W rank: Rank);
    0x72 AWLDeclineTotal Trace(P seg, W succAccesses [Count]);
    0x73 AWLDeclineSeg Trace(P seg, W singleAccesses [Count]);
}
