//! `#[derive(Trace)]`: what the generated layouts keep alive, and the messages for types that cannot be collected.

mod graph;
mod layouts;
mod names;

/// Each file in `errors/` fails to compile, with the message beside it.
#[test]
fn a_type_that_cannot_be_collected_is_an_error_that_names_the_field() {
    trybuild::TestCases::new().compile_fail("tests/derive/errors/*.rs");
}
