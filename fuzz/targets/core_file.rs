#![no_main]

libfuzzer_sys::fuzz_target!(
    init: {
        // The layout of a core depends on that of the collector's structures, so fuzz/run has this program write the seed.
        if let Some(path) = std::env::var_os("STOPWORLD_FUZZ_SEED") {
            std::fs::write(path, stopworld_fuzz::checked_core_seed()).expect("the seed can be written");
        }
    },
    |input: &[u8]| stopworld_fuzz::core_file(input)
);
