//! Generates the implementation of `Trace`.

use proc_macro2::{Group, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Data, DataEnum, DeriveInput, Field, Fields, Index, Member, Path, Result, WherePredicate, parse_quote};

use crate::attributes::TypeOptions;
use crate::{attributes, sample, scoped};

/// Generates `unsafe impl Trace`, and checks that are made where the type is declared.
pub fn trace(input: &DeriveInput) -> Result<TokenStream> {
    attributes::refuse_packed(&input.attrs)?;
    let TypeOptions { bounds, library } = attributes::of_type(&input.attrs)?;
    let lifetime = scoped::lifetime(input)?;
    let declared = input;
    let for_the_heap = lifetime.as_ref().map(|lifetime| scoped::for_the_heap(input, lifetime)).transpose()?;
    let input = for_the_heap.as_ref().unwrap_or(declared);
    let body = match &input.data {
        Data::Struct(data) => of_struct(input, &data.fields)?,
        Data::Enum(data) => of_enum(input, data)?,
        Data::Union(data) => {
            let message =
                "a union can't be collected: the collector can't know which of its fields is in use. Use an enum";
            return Err(syn::Error::new(data.union_token.span, message));
        }
    };
    let name = &input.ident;
    let text = name.to_string();
    let generics = with_bounds(input, bounds);
    let scoped = scoped::scoped(declared, lifetime.as_ref(), &generics);
    let (parameters, arguments, conditions) = generics.split_for_impl();
    let arguments = if lifetime.is_some() {
        quote! { <'static> }
    } else {
        quote! { #arguments }
    };
    // The constant is checked here for a type without parameters, and for a generic one with a plain type for each parameter. The rest is checked
    // where the generic type is used.
    let checked = if input.generics.params.is_empty() {
        Some(quote! { #name #arguments })
    } else {
        sample::arguments(&generics).map(|arguments| quote! { #name <#(#arguments),*> })
    };
    let check =
        checked.map(|checked| quote! { const _: __stopworld::Layout = <#checked as __stopworld::Trace>::LAYOUT; });
    Ok(with_library(
        &library,
        quote! {
            #[automatically_derived]
            // SAFETY: the layout has the references of each field, every field is shared safely because its type is `Trace` or `Sync`, and the
            // constant `LAYOUT` does not compile if the type has references and drop glue.
            unsafe impl #parameters __stopworld::Trace for #name #arguments #conditions {
                const NAME: &'static str = ::core::concat!(::core::module_path!(), "::", #text);
                #body
            }
            #check
            #scoped
        },
    ))
}

/// Replaces `__stopworld` in generated code by the path of the crate `stopworld`, which the program may know by another name. An import of this
/// name would let the crate's own unit tests be linked with the crate itself.
pub fn with_library(library: &Path, code: TokenStream) -> TokenStream {
    code.into_iter()
        .flat_map(|token| match token {
            TokenTree::Group(group) => {
                let mut replaced = Group::new(group.delimiter(), with_library(library, group.stream()));
                replaced.set_span(group.span());
                TokenStream::from(TokenTree::Group(replaced))
            }
            TokenTree::Ident(ident) if ident == "__stopworld" => {
                let at_its_place = |mut token: TokenTree| {
                    token.set_span(ident.span());
                    token
                };
                library.to_token_stream().into_iter().map(at_its_place).collect()
            }
            other => other.into(),
        })
        .collect()
}

/// Adds `T: Trace` for each type parameter, or the bounds of the attribute.
fn with_bounds(input: &DeriveInput, bounds: Option<Vec<WherePredicate>>) -> syn::Generics {
    let mut generics = input.generics.clone();
    let bounds = bounds.unwrap_or_else(|| {
        let parameters = input.generics.type_params().map(|parameter| &parameter.ident);
        parameters.map(|parameter| parse_quote!(#parameter: __stopworld::Trace)).collect::<Vec<WherePredicate>>()
    });
    if !bounds.is_empty() {
        generics.make_where_clause().predicates.extend(bounds);
    }
    generics
}

/// A field, in a struct or in a variant of an enum.
struct Part<'a> {
    /// How messages name it: `next`, `0`, `Variant::next`.
    label: String,
    member: Member,
    field: &'a Field,
    skipped: bool,
}

impl Part<'_> {
    /// The field's type as a `Trace`. A type that is not one is reported at the field.
    fn traced(&self) -> TokenStream {
        let (of_type, span) = (&self.field.ty, self.field.ty.span());
        quote_spanned! { span=> <#of_type as __stopworld::Trace> }
    }

    /// Code that compiles only if the field, if it is skipped, has no references. A type that may have some is reported at the field.
    fn without_references(&self, reference: &TokenStream) -> Option<TokenStream> {
        let span = self.field.ty.span();
        // Written out: a function of the library could be replaced by one of a module that `#[trace(crate = "…")]` names.
        self.skipped.then(|| {
            quote_spanned! { span=> {
                fn __a_skipped_field_has_no_references_so_remove_skip<T: ::core::marker::Send + ::core::marker::Sync + 'static>(_: &T) {}
                __a_skipped_field_has_no_references_so_remove_skip(#reference);
            } }
        })
    }
}

fn parts_of<'a>(fields: &'a Fields, variant: Option<&str>) -> Result<Vec<Part<'a>>> {
    let part = |(index, field): (usize, &'a Field)| {
        let index = Index { index: index as u32, span: Span::call_site() };
        let member = field.ident.clone().map_or(Member::Unnamed(index.clone()), Member::Named);
        let name = field.ident.as_ref().map_or_else(|| index.index.to_string(), ToString::to_string);
        let label = variant.map_or_else(|| name.clone(), |variant| format!("{variant}::{name}"));
        Ok(Part { label, member, field, skipped: attributes::is_skipped(field)? })
    };
    fields.iter().enumerate().map(part).collect()
}

fn of_struct(input: &DeriveInput, fields: &Fields) -> Result<TokenStream> {
    let parts = parts_of(fields, None)?;
    let traced = || parts.iter().filter(|part| !part.skipped);
    let members: Vec<_> = traced().map(|part| &part.member).collect();
    let types: Vec<_> = traced().map(Part::traced).collect();
    let alignments = parts.iter().map(|part| {
        let of_type = &part.field.ty;
        let message =
            format!("`{}` can't be packed: the collector reads aligned words. Remove `repr(packed)`", input.ident);
        quote! { ::core::assert!(::core::mem::align_of::<#of_type>() <= ::core::mem::align_of::<Self>(), #message); }
    });
    let checks = checks(input, &parts);
    let is_traced = parts.iter().all(|part| !part.skipped);
    let every = every_field(&parts);
    Ok(quote! {
        const LAYOUT: __stopworld::Layout = {
            #(#alignments)*
            let __layout = __stopworld::Layout::LEAF #(.with(::core::mem::offset_of!(Self, #members), #types::LAYOUT))*;
            #checks
            __layout
        };
        const MUTABLE: bool = false #(|| #types::MUTABLE)*;
        const ZERO_IS_READABLE: bool = #is_traced #(&& #types::ZERO_IS_READABLE)*;
        const DESCRIPTION: ::core::option::Option<usize> = {
            let mut __first = ::core::option::Option::None;
            #(if let (::core::option::Option::None, ::core::option::Option::Some(__within)) = (__first, #types::DESCRIPTION) {
                __first = ::core::option::Option::Some(::core::mem::offset_of!(Self, #members) + __within);
            })*
            __first
        };

        unsafe fn clear_unused(__value: *mut Self) {
            #every
            // SAFETY: the caller's promise, for each field.
            #(unsafe { #types::clear_unused(&raw mut (*__value).#members) };)*
        }
    })
}

/// Code that compiles only if these are all fields of the struct, and the skipped ones have no references: another macro may change the
/// struct after this one. In an enum, the patterns of `clear_unused` do the same.
fn every_field(parts: &[Part<'_>]) -> TokenStream {
    let members = parts.iter().map(|part| &part.member);
    let names: Vec<_> = (0..parts.len()).map(|index| format_ident!("__field_{index}")).collect();
    let patterns = parts.iter().zip(&names).map(|(part, name)| {
        if part.skipped {
            quote! { #name }
        } else {
            quote! { _ }
        }
    });
    let skipped = parts.iter().zip(&names).map(|(part, name)| part.without_references(&quote! { #name }));
    quote! {
        let _ = |__value: &Self| {
            let Self { #(#members: #patterns),* } = __value;
            #(#skipped)*
        };
    }
}

fn of_enum(input: &DeriveInput, data: &DataEnum) -> Result<TokenStream> {
    if data.variants.is_empty() {
        let message = "an enum without variants can't be collected: it has no values. Add a variant";
        return Err(syn::Error::new(data.enum_token.span, message));
    }
    let (mut parts, mut arms) = (Vec::new(), Vec::new());
    for variant in &data.variants {
        attributes::refuse_on_variant(&variant.attrs)?;
        let fields = parts_of(&variant.fields, Some(&variant.ident.to_string()))?;
        let (name, members) = (&variant.ident, fields.iter().map(|part| &part.member));
        let bindings: Vec<_> = (0..fields.len()).map(|index| format_ident!("__field_{index}")).collect();
        let clear = fields.iter().zip(&bindings).filter(|(part, _)| !part.skipped).map(|(part, binding)| {
            let traced = part.traced();
            quote! { unsafe { #traced::clear_unused(#binding) }; }
        });
        let skipped =
            fields.iter().zip(&bindings).map(|(part, binding)| part.without_references(&quote! { &*#binding }));
        arms.push(quote! {
            Self::#name { #(#members: #bindings),* } => {
                #(__used.add(#bindings);)*
                #(#clear)*
                #(#skipped)*
            }
        });
        parts.extend(fields);
    }
    // A number of its own may leave no variant with the number 0, and of a skipped type nothing is known.
    let is_numbered = data.variants.iter().any(|variant| variant.discriminant.is_some());
    let is_plain = !is_numbered && parts.iter().all(|part| !part.skipped);
    let types: Vec<_> = parts.iter().filter(|part| !part.skipped).map(Part::traced).collect();
    let checks = checks(input, &parts);
    Ok(quote! {
        const LAYOUT: __stopworld::Layout = {
            let __is_leaf = true #(&& #types::LAYOUT.is_leaf())*;
            let __layout = if __is_leaf {
                __stopworld::Layout::LEAF
            } else {
                __stopworld::Layout::any_word(::core::mem::size_of::<Self>())
            };
            #checks
            __layout
        };
        const MUTABLE: bool = false #(|| #types::MUTABLE)*;
        const ZERO_IS_READABLE: bool = #is_plain #(&& #types::ZERO_IS_READABLE)*;

        unsafe fn clear_unused(__value: *mut Self) {
            if <Self as __stopworld::Trace>::LAYOUT.is_leaf() {
                return;
            }
            let mut __used = __stopworld::__private::UsedWords::of(__value);
            // SAFETY: the caller's promise.
            match unsafe { &mut *__value } {
                #(#arms)*
            }
            if <Self as __stopworld::Trace>::ZERO_IS_READABLE {
                // SAFETY: the caller's promise, and the constant.
                unsafe { __used.clear() };
            }
        }
    })
}

/// Checks that are made when the layout is computed. They use a variable `__layout`.
fn checks(input: &DeriveInput, parts: &[Part<'_>]) -> TokenStream {
    let name = &input.ident;
    let fields = parts.iter().map(|part| {
        let (label, of_type) = (&part.label, &part.field.ty);
        let dropped = format!(
            "the field `{label}` of `{name}` has drop glue, but `{name}` has references: the collector would drop it when the objects that \
             it refers to are gone. Put the field into an object of its own (`Gc<Leaf<…>>`), or use `Mutator::set_finalizer`"
        );
        quote! {
            ::core::assert!(__layout.is_leaf() || !::core::mem::needs_drop::<#of_type>(), #dropped);
        }
    });
    let dropped = format!(
        "`{name}` implements `Drop`, but has references: the collector would drop it when the objects that it refers to are gone. Use \
         `Mutator::set_finalizer`"
    );
    let aligned = format!(
        "`{name}` is aligned to more than 16 bytes: cells of the heap are aligned to 16. Lower its `repr(align)`"
    );
    quote! {
        #(#fields)*
        ::core::assert!(__layout.is_leaf() || !::core::mem::needs_drop::<Self>(), #dropped);
        ::core::assert!(::core::mem::align_of::<Self>() <= 16, #aligned);
    }
}
