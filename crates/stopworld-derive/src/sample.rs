//! Types that stand for the parameters of a generic type, so that what is wrong with it for every type is found where it is declared.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{GenericParam, Generics, Type, TypeParamBound, WherePredicate};

/// Traits that `u8` has, by the names that they have without an import. Another name may be that of a trait of the program.
const TRAITS_OF_A_BYTE: [&str; 11] =
    ["Trace", "Copy", "Clone", "Eq", "PartialEq", "Ord", "PartialOrd", "Default", "Send", "Sync", "Sized"];
/// Traits of the standard library that `u8` has, by the last part of their paths.
const TRAITS_OF_STD: [&str; 2] = ["Hash", "Debug"];

/// Returns an argument for each parameter: `u8` for a type. `None` if the bounds may exclude it.
pub fn arguments(generics: &Generics) -> Option<Vec<TokenStream>> {
    let predicates = generics.where_clause.iter().flat_map(|clause| &clause.predicates);
    let are_usual = |predicate: &WherePredicate| match predicate {
        WherePredicate::Type(of_type) => {
            of_type.lifetimes.is_none()
                && of_type.bounds.iter().all(is_usual)
                && is_parameter(&of_type.bounded_ty, generics)
        }
        _ => false,
    };
    predicates.into_iter().all(are_usual).then_some(())?;
    generics.params.iter().map(argument).collect()
}

fn argument(parameter: &GenericParam) -> Option<TokenStream> {
    match parameter {
        GenericParam::Type(of_type) => of_type.bounds.iter().all(is_usual).then(|| quote! { ::core::primitive::u8 }),
        GenericParam::Const(of_const) => match &of_const.ty {
            Type::Path(path) if path.path.is_ident("bool") => Some(quote! { true }),
            Type::Path(path) if path.path.is_ident("char") => Some(quote! { 'a' }),
            _ => Some(quote! { 1 }),
        },
        GenericParam::Lifetime(_) => None,
    }
}

/// Whether `u8` satisfies the bound.
fn is_usual(bound: &TypeParamBound) -> bool {
    match bound {
        TypeParamBound::Trait(of_trait) => {
            let segments = &of_trait.path.segments;
            let is_known_crate = matches!(segments.first(), Some(first) if ["std", "core", "stopworld", "__stopworld"].iter().any(|name| first.ident == name));
            let is_one_of = |names: &[&str]| {
                segments
                    .last()
                    .is_some_and(|last| last.arguments.is_empty() && names.iter().any(|name| last.ident == name))
            };
            let is_known = match segments.len() {
                1 => is_one_of(&TRAITS_OF_A_BYTE),
                _ => is_known_crate && (is_one_of(&TRAITS_OF_A_BYTE) || is_one_of(&TRAITS_OF_STD)),
            };
            of_trait.lifetimes.is_none() && is_known
        }
        TypeParamBound::Lifetime(lifetime) => lifetime.ident == "static",
        _ => false,
    }
}

/// Whether the type is one of the parameters.
fn is_parameter(of_type: &Type, generics: &Generics) -> bool {
    generics.type_params().any(|parameter| matches!(of_type, Type::Path(path) if path.path.is_ident(&parameter.ident)))
}
