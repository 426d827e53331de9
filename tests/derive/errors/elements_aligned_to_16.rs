use stopworld::{GcHashMap, Trace};

#[derive(Trace)]
struct Balances {
    of_accounts: GcHashMap<u128, u64>,
}

fn main() {}
