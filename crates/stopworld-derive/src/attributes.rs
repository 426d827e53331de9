//! The attributes that the derive macro reads.

use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Attribute, Field, LitStr, Meta, Result, Token, WherePredicate};

/// The bounds of `#[trace(bound = "…")]` on the type; `None` without the attribute.
pub fn bounds(attributes: &[Attribute]) -> Result<Option<Vec<WherePredicate>>> {
    let mut bounds = None;
    each_trace_argument(attributes, |argument| {
        if !argument.path.is_ident("bound") {
            return Err(argument.error("a type has no such option; the only one is `bound = \"T: Bound\"`"));
        }
        let text: LitStr = argument.value()?.parse()?;
        let predicates = text.parse_with(Punctuated::<WherePredicate, Token![,]>::parse_terminated)?;
        bounds = Some(predicates.into_iter().collect());
        Ok(())
    })?;
    Ok(bounds)
}

/// Returns whether the field has `#[trace(skip = "reason")]`.
pub fn is_skipped(field: &Field) -> Result<bool> {
    let mut skipped = false;
    each_trace_argument(&field.attrs, |argument| {
        if !argument.path.is_ident("skip") {
            return Err(argument.error("a field has no such option; the only one is `skip = \"reason\"`"));
        }
        let no_reason = "give the reason why the collector need not scan this field: `#[trace(skip = \"reason\")]`";
        let reason: LitStr = argument.value().and_then(|value| value.parse()).map_err(|_| argument.error(no_reason))?;
        if reason.value().trim().is_empty() {
            return Err(syn::Error::new(reason.span(), no_reason));
        }
        skipped = true;
        Ok(())
    })?;
    Ok(skipped)
}

/// Refuses `#[trace(…)]` on a variant, which has no options.
pub fn refuse_on_variant(attributes: &[Attribute]) -> Result<()> {
    each_trace_argument(attributes, |argument| {
        Err(argument.error("a variant has no options: write the attribute on its fields"))
    })
}

/// Refuses `#[repr(packed)]`. A layout that only `cfg_attr` or another macro makes packed is found by its alignment.
pub fn refuse_packed(attributes: &[Attribute]) -> Result<()> {
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("repr")) {
        let Meta::List(list) = &attribute.meta else { continue };
        let arguments = Punctuated::<Meta, Token![,]>::parse_terminated.parse2(list.tokens.clone())?;
        if let Some(packed) = arguments.iter().find(|argument| argument.path().is_ident("packed")) {
            let message =
                "a collected type can't be `repr(packed)`: the collector reads aligned words. Remove `packed`";
            return Err(syn::Error::new_spanned(packed, message));
        }
    }
    Ok(())
}

fn each_trace_argument(
    attributes: &[Attribute],
    mut visit: impl FnMut(syn::meta::ParseNestedMeta<'_>) -> Result<()>,
) -> Result<()> {
    attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("trace"))
        .try_for_each(|attribute| attribute.parse_nested_meta(&mut visit))
}
