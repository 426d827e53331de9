#![no_main]

libfuzzer_sys::fuzz_target!(
    init: {
        // Where pointers lead in an image that is as it should be depends on the layouts: fuzz/run asks for one.
        if let Some(path) = std::env::var_os("STOPWORLD_FUZZ_SEED") {
            std::fs::write(path, stopworld::fuzzing::hostile_seed()).expect("the seed can be written");
        }
    },
    |input: &[u8]| stopworld_fuzz::hostile_target(input)
);
