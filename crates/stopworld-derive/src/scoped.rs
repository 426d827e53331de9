//! Generates the implementation of `Scoped`, for types of objects in an arena. The heap knows a type with a lifetime by its form with
//! `'static`.

use proc_macro2::{Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Field, GenericParam, Generics, Lifetime, Result, Type};

use crate::attributes;

/// The lifetime of a type that is the scope's, if it has one.
pub fn lifetime(input: &DeriveInput) -> Result<Option<Lifetime>> {
    let mut lifetimes = input.generics.lifetimes();
    let Some(first) = lifetimes.next() else { return Ok(None) };
    if let Some(second) = lifetimes.next() {
        let message = "a collected type has at most one lifetime, which is that of a scope (`stopworld::Arena`): its `Local` references \
                       all have the same";
        return Err(syn::Error::new(second.span(), message));
    }
    if let Some(other) = input.generics.params.iter().find(|parameter| !matches!(parameter, GenericParam::Lifetime(_)))
    {
        let message = "a collected type with the lifetime of a scope (`stopworld::Arena`) can't have other parameters";
        return Err(syn::Error::new(other.span(), message));
    }
    Ok(Some(first.lifetime.clone()))
}

/// The type as the heap knows it: without the lifetime, which is `'static` in each field.
pub fn for_the_heap(input: &DeriveInput, lifetime: &Lifetime) -> Result<DeriveInput> {
    let mut input = input.clone();
    input.generics = Generics::default();
    let fields: Vec<&mut Field> = match &mut input.data {
        Data::Struct(data) => data.fields.iter_mut().collect(),
        Data::Enum(data) => data.variants.iter_mut().flat_map(|variant| variant.fields.iter_mut()).collect(),
        Data::Union(_) => Vec::new(),
    };
    for field in fields {
        let tokens = field.ty.to_token_stream();
        if !depends_on(tokens.clone(), lifetime) {
            continue;
        }
        if let Some(borrow) = borrow(tokens.clone(), lifetime) {
            let message = "an object can't borrow: it lives as long as it is reachable, longer than the scope. Refer to other objects by \
                           `Local<'gc, T>`, to text by `Local<'gc, str>` or `&'static str`";
            return Err(syn::Error::new(borrow, message));
        }
        if attributes::is_skipped(field)? {
            let message = format!(
                "a field with the lifetime `{lifetime}` can't be skipped: the collector must see its references"
            );
            return Err(syn::Error::new(field.ty.span(), message));
        }
        field.ty = syn::parse2::<Type>(with_static(tokens, lifetime))?;
    }
    Ok(input)
}

/// Generates `unsafe impl Scoped`. `generics` are those of the implementation of `Trace`.
pub fn scoped(input: &DeriveInput, lifetime: Option<&Lifetime>, generics: &Generics) -> TokenStream {
    let name = &input.ident;
    let Some(lifetime) = lifetime else {
        let (parameters, arguments, conditions) = generics.split_for_impl();
        return quote! {
            #[automatically_derived]
            // SAFETY: it has no lifetime parameter, and no field that borrows: each is `Trace`, so `'static`.
            unsafe impl #parameters __stopworld::Scoped for #name #arguments #conditions {
                type In<'__scope> = Self;
                type Static = Self;
            }
        };
    };
    let checks = fields(input).filter(|field| depends_on(field.ty.to_token_stream(), lifetime)).map(|field| {
        let (of_type, span) = (&field.ty, field.ty.span());
        quote_spanned! { span=> {
            fn __is_scoped<'gc, T: __stopworld::Scoped<In<'gc> = T>>() {}
            __is_scoped::<#lifetime, #of_type>();
        } }
    });
    quote! {
        #[automatically_derived]
        // SAFETY: each field with the lifetime is checked below.
        unsafe impl<#lifetime> __stopworld::Scoped for #name<#lifetime> {
            type In<'__scope> = #name<'__scope>;
            type Static = #name<'static>;
        }
        const _: () = {
            // A method, so that `Self` in a field is the type with this lifetime.
            #[allow(dead_code)]
            trait Check {
                fn check();
            }
            impl<#lifetime> Check for #name<#lifetime> {
                fn check() {
                    #(#checks)*
                }
            }
        };
    }
}

fn fields(input: &DeriveInput) -> impl Iterator<Item = &Field> {
    let (of_struct, of_enum) = match &input.data {
        Data::Struct(data) => (Some(data.fields.iter()), None),
        Data::Enum(data) => (None, Some(data.variants.iter().flat_map(|variant| variant.fields.iter()))),
        Data::Union(_) => (None, None),
    };
    of_struct.into_iter().flatten().chain(of_enum.into_iter().flatten())
}

/// Whether the type may be another one for another lifetime: the lifetime is among its tokens, or `Self`, or a macro that may expand to either.
fn depends_on(tokens: TokenStream, lifetime: &Lifetime) -> bool {
    fn has_self_or_macro(tokens: TokenStream) -> bool {
        tokens.into_iter().any(|token| match token {
            TokenTree::Group(group) => has_self_or_macro(group.stream()),
            TokenTree::Punct(punct) => punct.as_char() == '!',
            TokenTree::Ident(ident) => ident == "Self",
            TokenTree::Literal(_) => false,
        })
    }
    mentions(tokens.clone(), lifetime) || has_self_or_macro(tokens)
}

/// Whether the lifetime is among the tokens.
fn mentions(tokens: TokenStream, lifetime: &Lifetime) -> bool {
    let mut after_quote = false;
    tokens.into_iter().any(|token| match token {
        TokenTree::Group(group) => mentions(group.stream(), lifetime),
        TokenTree::Punct(punct) => {
            after_quote = punct.as_char() == '\'';
            false
        }
        TokenTree::Ident(ident) => std::mem::take(&mut after_quote) && ident == lifetime.ident,
        TokenTree::Literal(_) => false,
    })
}

/// Returns the place of a reference of the language with this lifetime.
fn borrow(tokens: TokenStream, lifetime: &Lifetime) -> Option<Span> {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let in_groups = || {
        tokens.iter().find_map(|token| match token {
            TokenTree::Group(group) => borrow(group.stream(), lifetime),
            _ => None,
        })
    };
    let here = tokens.windows(3).find_map(|window| match window {
        [TokenTree::Punct(and), TokenTree::Punct(quote), TokenTree::Ident(ident)] => {
            let is_borrow = and.as_char() == '&' && quote.as_char() == '\'' && *ident == lifetime.ident;
            is_borrow.then(|| and.span())
        }
        _ => None,
    });
    here.or_else(in_groups)
}

/// Replaces the lifetime by `'static`.
fn with_static(tokens: TokenStream, lifetime: &Lifetime) -> TokenStream {
    let mut after_quote = false;
    let replaced = tokens.into_iter().map(|token| match token {
        TokenTree::Group(group) => {
            let mut replaced = Group::new(group.delimiter(), with_static(group.stream(), lifetime));
            replaced.set_span(group.span());
            replaced.into()
        }
        TokenTree::Punct(punct) => {
            after_quote = punct.as_char() == '\'';
            punct.into()
        }
        TokenTree::Ident(ident) if std::mem::take(&mut after_quote) && ident == lifetime.ident => {
            Ident::new("static", ident.span()).into()
        }
        other => other,
    });
    replaced.collect()
}
