//! "Did you mean …?": finds the known name nearest to a mistyped one.

/// Returns the candidate with the smallest edit distance from `given`. A candidate is considered only if its distance is at most a third of
/// its own length (rounded up), or if it contains `given`, which must then have at least three bytes.
pub fn nearest<'a>(given: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let near = |name: &&str| distance(given, name) <= name.chars().count().div_ceil(3);
    let contained = |name: &&str| given.len() >= 3 && name.contains(given);
    let mut best: Option<&str> = None;
    for name in candidates.into_iter().filter(|name| near(name) || contained(name)) {
        if best.is_none_or(|b| distance(given, name) < distance(given, b)) {
            best = Some(name);
        }
    }
    best
}

/// Returns the number of letters to insert, remove or replace (Levenshtein distance). Ignores letter case and the
/// difference between `_` and `-`.
fn distance(a: &str, b: &str) -> usize {
    let letters = |s: &str| s.to_ascii_lowercase().replace('_', "-");
    strsim::levenshtein(&letters(a), &letters(b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    const NAMES: [&str; 4] = ["binary-trees", "gcbench", "churn", "hammer"];

    #[rstest]
    #[case("binary-tree", Some("binary-trees"))]
    #[case("binary_trees", Some("binary-trees"))]
    #[case("trees", Some("binary-trees"))]
    #[case("GCBench", Some("gcbench"))]
    #[case("hamer", Some("hammer"))]
    #[case("chrun", Some("churn"))]
    #[case("sort", None)]
    #[case("", None)]
    fn the_nearest_name_is_suggested_and_a_far_one_is_not(#[case] given: &str, #[case] suggested: Option<&str>) {
        assert_eq!(nearest(given, NAMES), suggested);
    }
}
