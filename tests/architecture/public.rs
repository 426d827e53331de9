//! The list of a library's public items, computed from its sources, and its comparison with the committed list.
//!
//! An item is listed by the shortest path by which users can name it, with its public fields, variants, methods and constants. Each other
//! path is one line, `use OTHER = PATH`. Signatures, trait implementations and what derives generate are not listed, nor are items marked
//! `#[doc(hidden)]`.
//! Macros are not expanded. If a macro is called with items, these items are listed; for a `macro_rules!` of the library, the items in its
//! definition are listed, without its repetitions. So the items that are generated for each row of the table of events are not listed;
//! `docs/events.md` has that.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::env;
use std::fs;
use std::path::Path;

use proc_macro2::{Group, Ident, TokenStream, TokenTree};
use syn::{Attribute, ImplItem, Item, TraitItem};

use super::modules::{Modules, inside, is_hidden, is_of_tests, is_public};
use super::{planted, root};

/// Begins the names that stand for parameters of macros.
const PARAMETER: &str = "parameter_";

/// Something with a public path.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Thing {
    Module(usize),
    Item(usize, String),
    /// An item of another crate, by its path there.
    Foreign(String),
}

/// A line of the list; lines are sorted by path.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    path: String,
    kind: String,
}

/// Returns the public items of the library with this root file, one per line.
fn public_items(root: &Path, library: &str) -> Vec<String> {
    let mut modules = Modules::of_crate(root);
    let bodies = bodies_of_macros(&modules);
    for module in &mut modules.modules {
        let generated: Vec<Item> = module.syntax.iter().flat_map(|item| generated(item, &bodies)).collect();
        module.syntax.extend(generated);
    }
    let library = Library { modules: &modules, name: library, members: members(&modules) };
    library.list().into_iter().map(|line| format!("{} {}", line.kind, line.path)).collect()
}

struct Library<'a> {
    modules: &'a Modules,
    name: &'a str,
    members: Members,
}

/// The public methods and constants of each type: kind and name.
type Members = BTreeMap<(usize, String), Vec<(&'static str, String)>>;

fn members(modules: &Modules) -> Members {
    let mut members = Members::new();
    for (number, module) in modules.modules.iter().enumerate() {
        for item in &module.syntax {
            let Item::Impl(block) = item else { continue };
            let (None, syn::Type::Path(of)) = (&block.trait_, &*block.self_ty) else { continue };
            let path: Vec<String> = of.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            // A path of one name may be that of a type that a macro defines in this module.
            let found = modules.resolve(number, &path).or_else(|| modules.resolve(number, &inside(&path)));
            if let Some((target, Some(name))) = found {
                members.entry((target, name)).or_default().extend(block.items.iter().filter_map(member));
            }
        }
    }
    members
}

impl Library<'_> {
    /// Walks the public paths, the shortest first.
    fn list(&self) -> BTreeSet<Line> {
        let mut lines = BTreeSet::new();
        let mut known: BTreeMap<Thing, String> = BTreeMap::new();
        let mut queue = VecDeque::from([(self.name.to_owned(), Thing::Module(0))]);
        queue.extend(self.exported_macros().map(|(name, thing)| (format!("{}::{name}", self.name), thing)));
        while let Some((path, thing)) = queue.pop_front() {
            match known.get(&thing) {
                Some(listed) if *listed == path => continue,
                Some(listed) => {
                    lines.insert(Line { path: format!("{path} = {listed}"), kind: "use".to_owned() });
                    continue;
                }
                None => known.insert(thing.clone(), path.clone()),
            };
            match &thing {
                Thing::Module(module) => {
                    lines.insert(Line { path: path.clone(), kind: "mod".to_owned() });
                    let entries = self.entries(*module, &mut BTreeSet::new());
                    queue.extend(entries.into_iter().map(|(name, thing)| (format!("{path}::{name}"), thing)));
                }
                Thing::Item(module, name) => lines.extend(self.lines(&path, *module, name)),
                Thing::Foreign(target) => {
                    lines.insert(Line { path: format!("{path} = {target}"), kind: "use".to_owned() });
                }
            }
        }
        lines
    }

    fn exported_macros(&self) -> impl Iterator<Item = (&str, Thing)> {
        let items = self.modules.macros.iter().filter(|(name, module)| {
            self.definitions(**module, name).any(|item| matches!(item, Item::Macro(it) if is_exported(it)))
        });
        items.map(|(name, module)| (name.as_str(), Thing::Item(*module, name.clone())))
    }

    /// The items of a module that have this name.
    fn definitions<'s>(&'s self, module: usize, name: &'s str) -> impl Iterator<Item = &'s Item> {
        self.modules.modules[module]
            .syntax
            .iter()
            .filter(move |item| outside(item).is_some_and(|(_, _, ident)| *ident == name))
    }

    /// Returns the items of a module that can be named from outside the crate, by name. `visited` has the modules whose globs led to this
    /// one.
    fn entries(&self, module: usize, visited: &mut BTreeSet<usize>) -> BTreeSet<(String, Thing)> {
        let mut entries = BTreeSet::new();
        if !visited.insert(module) {
            return entries;
        }
        for item in &self.modules.modules[module].syntax {
            let Some((attributes, visibility, ident)) = outside(item) else { continue };
            let name = ident.to_string();
            if !is_public(visibility) || attributes.iter().any(is_hidden) || is_parameter(&name) {
                continue;
            }
            let thing = match item {
                Item::Mod(_) => Thing::Module(self.modules.modules[module].children[&name]),
                _ => Thing::Item(module, name.clone()),
            };
            entries.insert((name, thing));
        }
        for used in self.modules.modules[module].uses.iter().filter(|used| used.is_public) {
            let thing = match self.modules.resolve(module, &used.path) {
                Some((target, None)) => Thing::Module(target),
                Some((target, Some(name))) => Thing::Item(target, name),
                None => Thing::Foreign(self.modules.foreign(module, &used.path)),
            };
            entries.insert((used.name.clone(), thing));
        }
        for glob in self.modules.modules[module].globs.iter().filter(|glob| glob.is_public) {
            match self.modules.resolve(module, &glob.path) {
                Some((target, None)) => entries.extend(self.entries(target, visited)),
                _ => drop(
                    entries.insert(("*".to_owned(), Thing::Foreign(self.modules.foreign(module, &glob.path) + "::*"))),
                ),
            }
        }
        entries
    }

    /// The lines of an item and of its members.
    fn lines(&self, path: &str, module: usize, name: &str) -> Vec<Line> {
        let mut found: Vec<(&str, Vec<(&str, String)>)> = self.definitions(module, name).filter_map(parts).collect();
        if found.is_empty() {
            found.push(("generated", Vec::new()));
        }
        let methods = self.members.get(&(module, name.to_owned())).cloned().unwrap_or_default();
        let mut lines = Vec::new();
        for (kind, members) in found {
            lines.push(Line { path: path.to_owned(), kind: kind.to_owned() });
            let members = members.into_iter().chain(methods.iter().cloned());
            lines.extend(members.map(|(kind, name)| Line { path: format!("{path}::{name}"), kind: kind.to_owned() }));
        }
        lines
    }
}

/// An item's attributes, visibility and name, unless it has no name.
fn outside(item: &Item) -> Option<(&[Attribute], &syn::Visibility, &Ident)> {
    const NONE: &syn::Visibility = &syn::Visibility::Inherited;
    Some(match item {
        Item::Const(it) => (&it.attrs, &it.vis, &it.ident),
        Item::Enum(it) => (&it.attrs, &it.vis, &it.ident),
        Item::Fn(it) => (&it.attrs, &it.vis, &it.sig.ident),
        Item::Macro(it) => (&it.attrs, NONE, it.ident.as_ref()?),
        Item::Mod(it) => (&it.attrs, &it.vis, &it.ident),
        Item::Static(it) => (&it.attrs, &it.vis, &it.ident),
        Item::Struct(it) => (&it.attrs, &it.vis, &it.ident),
        Item::Trait(it) => (&it.attrs, &it.vis, &it.ident),
        Item::Type(it) => (&it.attrs, &it.vis, &it.ident),
        Item::Union(it) => (&it.attrs, &it.vis, &it.ident),
        _ => return None,
    })
}

/// An item's kind, and its public fields or variants or the items of a trait: kind and name.
fn parts(item: &Item) -> Option<(&'static str, Vec<(&'static str, String)>)> {
    Some(match item {
        Item::Const(_) => ("const", Vec::new()),
        Item::Enum(it) => {
            let variants = it.variants.iter().filter(|variant| !variant.attrs.iter().any(is_hidden));
            ("enum", variants.map(|variant| ("variant", variant.ident.to_string())).collect())
        }
        Item::Fn(it) => (kind_of_function(&it.sig), Vec::new()),
        Item::Macro(_) => ("macro", Vec::new()),
        Item::Static(_) => ("static", Vec::new()),
        Item::Struct(it) => ("struct", fields(it.fields.iter())),
        Item::Trait(it) => {
            let kind = if it.unsafety.is_some() { "unsafe trait" } else { "trait" };
            (kind, it.items.iter().filter_map(trait_member).collect())
        }
        Item::Type(_) => ("type", Vec::new()),
        Item::Union(it) => ("union", fields(it.fields.named.iter())),
        _ => return None,
    })
}

fn fields<'a>(fields: impl Iterator<Item = &'a syn::Field>) -> Vec<(&'static str, String)> {
    let public = fields.enumerate().filter(|(_, field)| {
        let is_listed = is_public(&field.vis) && !field.attrs.iter().any(is_hidden);
        is_listed && !field.ident.as_ref().is_some_and(|name| is_parameter(&name.to_string()))
    });
    let name = |(index, field): (usize, &syn::Field)| field.ident.as_ref().map_or(index.to_string(), Ident::to_string);
    public.map(|field| ("field", name(field))).collect()
}

fn member(item: &ImplItem) -> Option<(&'static str, String)> {
    let (attributes, visibility, kind, name) = match item {
        ImplItem::Const(it) => (&it.attrs, &it.vis, "const", &it.ident),
        ImplItem::Fn(it) => (&it.attrs, &it.vis, kind_of_function(&it.sig), &it.sig.ident),
        ImplItem::Type(it) => (&it.attrs, &it.vis, "type", &it.ident),
        _ => return None,
    };
    let is_listed = is_public(visibility) && !attributes.iter().any(|it| is_hidden(it) || is_of_tests(it));
    is_listed.then(|| (kind, name.to_string())).filter(|(_, name)| !is_parameter(name))
}

fn trait_member(item: &TraitItem) -> Option<(&'static str, String)> {
    let (attributes, kind, name) = match item {
        TraitItem::Const(it) => (&it.attrs, "const", &it.ident),
        TraitItem::Fn(it) => (&it.attrs, kind_of_function(&it.sig), &it.sig.ident),
        TraitItem::Type(it) => (&it.attrs, "type", &it.ident),
        _ => return None,
    };
    (!attributes.iter().any(is_hidden)).then(|| (kind, name.to_string()))
}

fn kind_of_function(signature: &syn::Signature) -> &'static str {
    if signature.unsafety.is_some() { "unsafe fn" } else { "fn" }
}

fn is_exported(item: &syn::ItemMacro) -> bool {
    item.attrs.iter().any(|it| it.path().is_ident("macro_export")) && !item.attrs.iter().any(is_hidden)
}

fn is_parameter(name: &str) -> bool {
    name.starts_with(PARAMETER)
}

/// The right-hand sides of every `macro_rules!`, by its name.
fn bodies_of_macros(modules: &Modules) -> BTreeMap<String, Vec<TokenStream>> {
    let items = modules.modules.iter().flat_map(|module| &module.syntax);
    let macros = items.filter_map(|item| match item {
        Item::Macro(it) => it.ident.as_ref().map(|name| (name.to_string(), it)),
        _ => None,
    });
    macros.map(|(name, it)| (name, bodies(it.mac.tokens.clone()))).collect()
}

/// The right-hand sides of the rules `(…) => {…};`.
fn bodies(rules: TokenStream) -> Vec<TokenStream> {
    let groups = rules.into_iter().filter_map(|token| match token {
        TokenTree::Group(group) => Some(group.stream()),
        _ => None,
    });
    groups.skip(1).step_by(2).map(without_parameters).collect()
}

/// Leaves out the repetitions `$(…)*` of a macro's body, and replaces each parameter `$x` by a name.
fn without_parameters(body: TokenStream) -> TokenStream {
    let mut plain = Vec::new();
    let mut tokens = body.into_iter();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(mark) if mark.as_char() == '$' => match tokens.next() {
                Some(TokenTree::Group(_)) => {
                    let is_operator =
                        |token: &TokenTree| matches!(token, TokenTree::Punct(mark) if "*+?".contains(mark.as_char()));
                    while tokens.next().is_some_and(|token| !is_operator(&token)) {}
                }
                Some(TokenTree::Ident(name)) if name == "crate" => plain.push(TokenTree::Ident(name)),
                Some(TokenTree::Ident(name)) => {
                    plain.push(TokenTree::Ident(Ident::new(&format!("{PARAMETER}{name}"), name.span())));
                }
                other => plain.extend(other),
            },
            TokenTree::Group(group) => {
                let inner = without_parameters(group.stream());
                plain.push(TokenTree::Group(Group::new(group.delimiter(), inner)));
            }
            token => plain.push(token),
        }
    }
    plain.into_iter().collect()
}

/// The items that a call of a macro generates, as far as they can be seen.
fn generated(item: &Item, bodies: &BTreeMap<String, Vec<TokenStream>>) -> Vec<Item> {
    let Item::Macro(syn::ItemMacro { ident: None, mac, .. }) = item else { return Vec::new() };
    let name = mac.path.segments.last().map(|segment| segment.ident.to_string());
    // A macro that is given the name of another one calls it: `for_each_event!(payloads)`.
    let called = syn::parse2::<Ident>(mac.tokens.clone()).ok().and_then(|name| bodies.get(&name.to_string()));
    let bodies = called.or_else(|| bodies.get(&name?)).cloned().unwrap_or_else(|| Vec::from([mac.tokens.clone()]));
    let files = bodies.into_iter().filter_map(|body| syn::parse2::<syn::File>(body).ok());
    files.flat_map(|file| file.items).filter(|item| !matches!(item, Item::Mod(_) | Item::Use(_))).collect()
}

/// The differences between two lists, as lines that begin with `+` or `-`.
fn differences(listed: &[String], found: &[String]) -> Vec<String> {
    let (before, now): (BTreeSet<_>, BTreeSet<_>) = (listed.iter().collect(), found.iter().collect());
    let added = now.difference(&before).map(|line| format!("+ {line}"));
    let removed = before.difference(&now).map(|line| format!("- {line}"));
    removed.chain(added).collect()
}

#[test]
fn the_public_items_are_those_of_the_committed_list() {
    const UPDATE: &str = "UPDATE_PUBLIC_API";
    let list = root().join("tests/architecture/public-api.txt");
    let found = public_items(&root().join("src/lib.rs"), "stopworld");
    if env::var_os(UPDATE).is_some() {
        fs::write(&list, found.join("\n") + "\n").unwrap();
        return;
    }
    let listed: Vec<String> = fs::read_to_string(&list).unwrap().lines().map(str::to_owned).collect();
    let differences = differences(&listed, &found);
    assert!(
        differences.is_empty(),
        "the public items of stopworld have changed:\n{}\nIf this is intended, update the list with `{UPDATE}=1 cargo test --test \
         architecture public`, and add the change to CHANGELOG.md",
        differences.join("\n")
    );
}

fn items_of(files: &[(&str, &str)]) -> Vec<String> {
    let folder = planted(files);
    public_items(&folder.path().join("lib.rs"), "it")
}

#[test]
fn public_members_of_public_items_are_listed() {
    let text = "pub struct S { pub open: u8, closed: u8 } pub struct T(pub u8, u8); pub enum E { One, Two(u8) }
        impl S { pub fn f(&self) {} fn g() {} pub(crate) fn h() {} pub const C: u8 = 1; #[cfg(test)] pub fn t() {} }
        impl<U> S where U: Copy { pub unsafe fn u(self) {} }
        impl Clone for S { fn clone(&self) -> S { S } }
        pub trait Able { const N: u8; type A; fn can(&self); }
        pub unsafe trait Dangerous {}
        #[doc(hidden)] pub fn hidden() {}
        pub(crate) struct Internal; struct Private; #[cfg(test)] pub struct OfTests;
        pub static X: u8 = 0; pub type Short = S;";
    let expected = [
        "mod it",
        "trait it::Able",
        "type it::Able::A",
        "const it::Able::N",
        "fn it::Able::can",
        "unsafe trait it::Dangerous",
        "enum it::E",
        "variant it::E::One",
        "variant it::E::Two",
        "struct it::S",
        "const it::S::C",
        "fn it::S::f",
        "field it::S::open",
        "unsafe fn it::S::u",
        "type it::Short",
        "struct it::T",
        "field it::T::0",
        "static it::X",
    ];
    assert_eq!(items_of(&[("lib.rs", text)]), expected);
}

#[test]
fn items_of_private_modules_are_listed_where_they_are_exported() {
    let files = [
        ("lib.rs", "mod a; pub mod b; pub use a::{One, Two as Zwei}; pub use self::a::Foreign; use other::inner;"),
        (
            "a.rs",
            "pub use crate::inner::Foreign; pub struct One; pub struct Two; pub struct NotExported; impl crate::One { pub fn f() {} }",
        ),
        (
            "b.rs",
            "mod c; pub use c::*; pub fn c() {} pub use crate::a::One; mod methods { impl super::C { pub fn g() {} } }",
        ),
        ("b/c.rs", "pub struct C; struct Private;"),
    ];
    let expected = [
        "use it::Foreign = other::inner::Foreign",
        "struct it::One",
        "fn it::One::f",
        "struct it::Zwei",
        "mod it::b",
        "struct it::b::C",
        "fn it::b::C::g",
        "use it::b::One = it::One",
        "fn it::b::c",
    ];
    assert_eq!(items_of(&files), [&["mod it"], &expected[..]].concat());
}

#[test]
fn macros_are_looked_into() {
    let text = "#[macro_export] macro_rules! exported { () => {} }
        macro_rules! rows { ($m:ident) => { $m! { {a b} } } }
        macro_rules! generate { ({$($name:ident)*}) => {
            pub enum Generated { $($name),* }
            impl Generated { pub fn all() -> [Generated; 2] { [$(Generated::$name),*] } $(pub fn $name() {})* }
        } }
        rows!(generate);
        macro_rules! methods { ($of:ident) => { impl $of { pub fn hard_to_see() {} } impl S { pub fn easy() {} } } }
        pub struct S; methods!(S);
        elsewhere! { pub struct Given { pub field: u8 } }";
    let expected = [
        "mod it",
        "enum it::Generated",
        "fn it::Generated::all",
        "struct it::Given",
        "field it::Given::field",
        "struct it::S",
        "fn it::S::easy",
        "macro it::exported",
    ];
    assert_eq!(items_of(&[("lib.rs", text)]), expected);
}

#[test]
fn added_and_removed_items_are_named() {
    let lines = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    let found = differences(&lines(&["fn it::a", "fn it::b"]), &lines(&["fn it::b", "unsafe fn it::a"]));
    assert_eq!(found, ["- fn it::a", "+ unsafe fn it::a"]);
}
