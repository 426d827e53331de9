//! Generates the implementation of `Word`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Result};

use crate::attributes;
use crate::expand::with_library;

/// Generates `unsafe impl Word` for an enum without fields, and a check that its values have no padding.
pub fn word(input: &DeriveInput) -> Result<TokenStream> {
    let Data::Enum(data) = &input.data else {
        let message = "only an enum without fields can be a `Word`: a `GcCell` holds one word. Allocate the value, and store the \
                       reference: `GcCell<Gc<T>>`";
        return Err(syn::Error::new(input.ident.span(), message));
    };
    if let Some(parameter) = input.generics.params.first() {
        return Err(syn::Error::new(parameter.span(), "an enum without fields needs no parameters: remove them"));
    }
    if data.variants.is_empty() {
        return Err(syn::Error::new(
            data.enum_token.span,
            "an enum without variants can't be a `Word`: it has no values",
        ));
    }
    if let Some(variant) = data.variants.iter().find(|variant| !variant.fields.is_empty()) {
        let message =
            "a variant with fields can't be a `Word`: allocate the value, and store the reference: `GcCell<Gc<T>>`";
        return Err(syn::Error::new(variant.fields.span(), message));
    }
    let name = &input.ident;
    let variants = data.variants.iter().map(|variant| &variant.ident);
    let library = attributes::of_type(&input.attrs)?.library;
    Ok(with_library(
        &library,
        quote! {
            #[automatically_derived]
            // SAFETY: the constant below reads all bytes of each value as a word, which does not compile if one of them is padding or the enum
            // has more than 8. The values are the variants, and no reference is among them.
            unsafe impl __stopworld::Word for #name {
                const MAY_REFER: bool = false;
            }
            const _: () = {
                /// `stopworld`'s union of the same shape could be replaced by one of a module that `#[trace(crate = "…")]` names.
                #[repr(C)]
                union __Bits {
                    bits: usize,
                    value: #name,
                }
                ::core::assert!(
                    ::core::mem::size_of::<#name>() <= ::core::mem::size_of::<usize>(),
                    "a `Word` has at most 8 bytes"
                );
                #(
                    let mut __bits = __Bits { bits: 0 };
                    __bits.value = #name::#variants;
                    // SAFETY: the value is not larger than the word. A byte of it that is not initialised is an error of this constant.
                    let _ = unsafe { __bits.bits };
                )*
            };
        },
    ))
}
