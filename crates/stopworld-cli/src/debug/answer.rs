//! Answers to requests, in the form that the prompt shows.

use anyhow::anyhow;

use stopworld::debugger::inspect::Refusal;
use stopworld_ptrace::Address;

/// One step of a path from a root.
pub(super) struct PathStep {
    pub(super) place: String,
    pub(super) object: Address,
    pub(super) name: String,
}

/// Converts a negative result of a call to an error.
pub(super) fn refused(result: i64) -> anyhow::Result<u64> {
    let why = match result {
        0.. => return Ok(result as u64),
        r if r == Refusal::NoWorld as i64 => "the address is not in the heap of a world: `status` lists the worlds",
        r if r == Refusal::NoObject as i64 => "no object is there: it is free memory of the heap",
        r if r == Refusal::NoMemory as i64 => "the process could not allocate memory for the search",
        r if r == Refusal::NoBuffer as i64 => "the memory for the results is not aligned, or there is none",
        r if r == Refusal::Changed as i64 => "the heap has changed during the request: try again",
        r if r == Refusal::Busy as i64 => {
            "a thread was stopped in the middle of registering a stack: let the program run for a moment, and try again"
        }
        _ => "the collector in the process refused the request",
    };
    Err(anyhow!(why))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_error_code_has_a_text_of_its_own() {
        let text = |result| refused(result).unwrap_err().to_string();
        let codes = Refusal::ALL.map(|refusal| refusal as i64);
        let unknown = codes.iter().min().unwrap() - 1;
        let texts: BTreeSet<_> = codes.into_iter().chain([unknown]).map(text).collect();
        assert_eq!(texts.len(), Refusal::ALL.len() + 1, "{texts:?}");
    }
}
