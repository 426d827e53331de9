//! The layouts of event version 2.0.0: release 1.118 and later.

use super::layout::{Layout, layouts};

layouts! {
    /// All 92 events of event version 2.0.0, by code: `code name category(sort parameter, …)`.
    V2_0_0: bytes
    0x01 AMCScanNailed Seg(W loops, W summary, W white, W unfixed, W fixed, W refset);
    0x02 AWLDeclineSeg Seg(P seg, W singleAccesses);
    0x03 AWLDeclineTotal Seg(P seg, W succAccesses);
    0x04 ArenaAccessBegin Arena(P arena, P addr, U mode);
    0x05 ArenaAccessEnd Arena(P arena);
    0x06 ArenaAlloc Arena(P arena, P baseTract, A base, W size, P pool);
    0x07 ArenaAllocFail Arena(P arena, W size, P pool, U res);
    0x08 ArenaCreateCL Arena(P arena, W size, A base, W grainSize, P arenaClass, W systemPools, U serial);
    0x09 ArenaCreateVM Arena(P arena, W userSize, W chunkSize, W grainSize, P arenaClass, W systemPools, U serial);
    0x0A ArenaDestroy Arena(P arena);
    0x0B ArenaExtend Arena(P arena, A base, W size);
    0x0C ArenaFree Arena(P arena, A base, W size, P pool);
    0x0D ArenaPollBegin Arena(P arena);
    0x0E ArenaPollEnd Arena(P arena, B workWasDone);
    0x0F ArenaSetEmergency Arena(P arena, B emergency);
    0x10 ArenaSetSpare Arena(P arena, D spare);
    0x11 ArenaUseFreeZone Arena(P arena, W zoneSet);
    0x12 BufferCommit Object(P buffer, A p, W size, A clientClass);
    0x13 BufferEmpty Seg(P buffer, W spare);
    0x14 BufferFill Seg(P buffer, W size, A base, W filled);
    0x15 BufferFinish Pool(P buffer);
    0x16 BufferInit Pool(P buffer, P pool, B isMutator);
    0x17 BufferInitRank Pool(P buffer, P pool, B isMutator, U rank);
    0x18 BufferInitSeg Pool(P buffer, P pool, B isMutator);
    0x19 BufferReserve Object(P buffer, A init, W size);
    0x1A ChainCondemnAuto Trace(P arena, P chain, P trace, W topCondemnedGenIndex, W genCount);
    0x1B CommitLimitSet Arena(P arena, W limit, U res);
    0x1C EventClockSync Arena(W clock);
    0x1D EventInit Arena(U major, U median, U minor, U maxCode, U maxNameLen, U wordWidth, W clocksPerSec);
    0x1E GenFinish Arena(P arena, P gen, U serial);
    0x1F GenInit Arena(P arena, P gen, U serial, W capacity, D mortality);
    0x20 GenZoneSet Arena(P arena, P gen, W zoneSet);
    0x21 Intern User(W stringId, S string);
    0x22 Label User(A address, W stringId);
    0x23 LabelPointer User(P pointer, W stringId);
    0x24 LandInit Pool(P land, P owner);
    0x25 MessagesDropped Arena(W count);
    0x26 MessagesExist Arena();
    0x27 MeterInit Pool(P meter, P owner);
    0x28 MeterValues Pool(P meter, D total, D meanSquared, W count, W max, W min);
    0x29 PauseTimeSet Arena(P arena, D pauseTime);
    0x2A PoolAlloc Object(P pool, A pReturn, W size);
    0x2B PoolFinish Pool(P pool, P arena);
    0x2C PoolFree Object(P pool, A old, W size);
    0x2D PoolInit Pool(P pool, P arena, P poolClass, U serial);
    0x2E PoolInitAMC Pool(P pool, P format);
    0x2F PoolInitAMCZ Pool(P pool, P format);
    0x30 PoolInitAMS Pool(P pool, P format);
    0x31 PoolInitAWL Pool(P pool, P format);
    0x32 PoolInitLO Pool(P pool, P format);
    0x33 PoolInitMFS Pool(P pool, W extendBy, B extendSelf, W unitSize);
    0x34 PoolInitMVFF Pool(P pool, W extendBy, W avgSize, W align, B slotHigh, B arenaHigh, B firstFit);
    0x35 PoolInitMVT Pool(P pool, W minSize, W meanSize, W maxSize, W reserveDepth, W fragLimig);
    0x36 PoolInitSNC Pool(P pool, P format);
    0x37 RootScan Seg(P root, W ts, W summary);
    0x38 SegAlloc Seg(P arena, P seg, A base, W size, P pool);
    0x39 SegAllocFail Seg(P arena, W size, P pool, U res);
    0x3A SegFree Seg(P arena, P seg);
    0x3B SegMerge Seg(P segLo, P segHi);
    0x3C SegReclaim Seg(P seg, P pool, P arena, P trace);
    0x3D SegScan Seg(P seg, P pool, P arena, U ts, U rank);
    0x3E SegSetGrey Seg(P arena, P seg, U grey);
    0x3F SegSetSummary Seg(P arena, P seg, W size, W oldSummary, W newSummary);
    0x40 SegSplit Seg(P seg, P segLo, P segHi, A at);
    0x41 TraceAccess Seg(P arena, P seg, U mode);
    0x42 TraceBandAdvance Trace(P arena, P trace, W rank);
    0x43 TraceCondemnAll Trace(P arena, P trace);
    0x44 TraceCreate Trace(P trace, P arena, U why);
    0x45 TraceCreatePoolGen Trace(
        P gen, W capacity, D mortality, W zone, P pool, W totalSize, W freeSize, W newSize, W oldSize,
        W newDeferredSize, W oldDeferredSize
    );
    0x46 TraceDestroy Trace(P arena, P trace);
    0x47 TraceEndGen Trace(
        P arena, P trace, P gen, W condemned, W forwarded, W preservedInPlace, D mortalityTrace, D mortalityAverage
    );
    0x48 TraceFindGrey Seg(P arena, P trace, P seg, W rank);
    0x49 TraceFix Ref(P ss, P refIO, A ref, U rank);
    0x4A TraceFixSeg Ref(P seg);
    0x4B TraceFlipBegin Trace(P trace, P arena);
    0x4C TraceFlipEnd Trace(P trace, P arena);
    0x4D TraceReclaim Trace(P trace, P arena);
    0x4E TraceScanArea Seg(P ss, P base, P limit);
    0x4F TraceScanAreaTagged Seg(P ss, P base, P limit);
    0x50 TraceScanSingleRef Seg(U ts, U rank, P arena, P refIO);
    0x51 TraceStart Trace(
        P arena, P trace, D mortality, D finishingTime, W condemned, W notCondemned, W foundation, W white,
        W quantumWork
    );
    0x52 TraceStatFix Trace(
        P trace, P arena, W fixRefCount, W segRefCount, W whiteSegRefCount, W nailCount, W snapCount,
        W forwardedCount, W forwardedSize, W preservedInPlaceCount, W preservedInPlaceSize
    );
    0x53 TraceStatReclaim Trace(P trace, P arena, W reclaimCount, W reclaimSize);
    0x54 TraceStatScan Trace(
        P trace, P arena, W rootScanCount, W rootScanSize, W rootCopiedSize, W segScanCount, W segScanSize,
        W segCopiedSize, W singleScanCount, W singleScanSize, W singleCopiedSize, W readBarrierHitCount,
        W greySegMax, W pointlessScanCount
    );
    0x55 VMArenaExtendDone Arena(W chunkSize, W reserved);
    0x56 VMArenaExtendFail Arena(W chunkMin, W reserved);
    0x57 VMArenaExtendStart Arena(W size, W chunkSize, W reserved);
    0x58 VMCompact Arena(W vmem0, W vmem1, W vmem2);
    0x59 VMFinish Arena(P vm);
    0x5A VMInit Arena(P vm, A base, A limit);
    0x5B VMMap Seg(P vm, A base, A limit);
    0x5C VMUnmap Seg(P vm, A base, A limit);
}
