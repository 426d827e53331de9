//! The codes of the events that are written, by their own names.

#![allow(non_upper_case_globals, reason = "the events' own names")]

use super::layouts_v2::V2_0_0;

/// The code of an event, looked up when this is compiled.
const fn code(name: &str) -> u16 {
    let mut i = 0;
    while i < V2_0_0.len() {
        if is_same(V2_0_0[i].name.as_bytes(), name.as_bytes()) {
            return V2_0_0[i].code;
        }
        i += 1;
    }
    panic!("there is no such event")
}

const fn is_same(a: &[u8], b: &[u8]) -> bool {
    let mut i = 0;
    while i < a.len() && i < b.len() && a[i] == b[i] {
        i += 1;
    }
    i == a.len() && i == b.len()
}

macro_rules! codes {
    ($($name:ident)*) => {
        $(pub(super) const $name: u16 = code(stringify!($name));)*
    };
}

codes! {
    ArenaAlloc ArenaAllocFail ArenaCreateVM ArenaDestroy ArenaExtend ArenaFree ArenaPollBegin ArenaPollEnd
    ArenaSetEmergency BufferFill CommitLimitSet EventClockSync EventInit Intern Label LabelPointer MessagesDropped
    MessagesExist PoolAlloc PoolFinish PoolFree PoolInit RootScan SegAlloc SegAllocFail SegFree SegReclaim SegScan
    TraceBandAdvance TraceCondemnAll TraceCreate TraceDestroy TraceFix TraceFlipBegin TraceFlipEnd TraceReclaim
    TraceScanArea TraceStart VMFinish VMInit VMMap VMUnmap
}
