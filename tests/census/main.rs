//! Censuses and biographies: exact counts of live objects.

#[cfg(feature = "biography")]
mod biography;
mod counts;
#[path = "../heap_support/mod.rs"]
mod heap_support;
