//! Constants with the codes of the events written here, under the events' names in the MPS.

#![allow(non_upper_case_globals, reason = "the names of the events in the MPS")]

use mps_telemetry::Version;

/// Returns the code of an event. Evaluated at compile time.
const fn code(name: &str) -> u16 {
    let layouts = Version::V2.layouts();
    let mut i = 0;
    while i < layouts.len() {
        if is_same(layouts[i].name.as_bytes(), name.as_bytes()) {
            return layouts[i].code;
        }
        i += 1;
    }
    panic!("the MPS has no event of this name")
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

#[cfg(test)]
mod tests {
    use mps_telemetry::Version;

    use stopworld::events::DESCRIPTORS;

    #[test]
    fn the_mps_records_of_the_event_table_exist() {
        for record in DESCRIPTORS.iter().flat_map(|descriptor| descriptor.mps) {
            let layout = Version::V2.layout(record.code).unwrap_or_else(|| panic!("{record:?} is not an MPS event"));
            assert_eq!((layout.name, layout.category.name()), (record.name, record.category.name()));
        }
    }
}
