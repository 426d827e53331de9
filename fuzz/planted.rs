//! Planted bugs that fuzzing must find: `.ci/fuzz --self-test`. The environment variable STOPWORLD_FUZZ_PLANTED selects one.
#![no_main]

use std::sync::LazyLock;

static MISTAKE: LazyLock<String> = LazyLock::new(|| std::env::var("STOPWORLD_FUZZ_PLANTED").unwrap_or_default());

libfuzzer_sys::fuzz_target!(|input: &[u8]| stopworld_fuzz::planted(&MISTAKE, input));
