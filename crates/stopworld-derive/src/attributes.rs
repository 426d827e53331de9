//! The attributes that the derive macro reads.

use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Attribute, Field, LitStr, Meta, Path, Result, Token, WherePredicate, parse_quote};

/// The options of a type.
pub struct TypeOptions {
    /// The bounds of `#[trace(bound = "…")]`; `None` without the attribute.
    pub bounds: Option<Vec<WherePredicate>>,
    /// The path of `#[trace(crate = "…")]` to the crate `stopworld`.
    pub library: Path,
}

/// Reads the options of a type.
pub fn of_type(attributes: &[Attribute]) -> Result<TypeOptions> {
    let mut options = TypeOptions { bounds: None, library: parse_quote!(::stopworld) };
    each_trace_argument(attributes, |argument| {
        if argument.path.is_ident("bound") {
            let text: LitStr = argument.value()?.parse()?;
            let predicates = text.parse_with(Punctuated::<WherePredicate, Token![,]>::parse_terminated)?;
            options.bounds = Some(predicates.into_iter().collect());
        } else if argument.path.is_ident("crate") {
            let text: LitStr = argument.value()?.parse()?;
            options.library = text.parse_with(Path::parse_mod_style)?;
        } else {
            let message =
                "a type has no such option; there are `bound = \"T: Bound\"` and `crate = \"path::to::stopworld\"`";
            return Err(argument.error(message));
        }
        Ok(())
    })?;
    Ok(options)
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
