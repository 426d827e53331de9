//! Reads the modules of a crate from its sources, and resolves the names in them.
//!
//! Names are resolved as the compiler does it: through `use` lines, re-exports and globs to the module with the definition. Code for tests
//! is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The maximum length of a chain of re-exports.
const DEEPEST: usize = 32;

pub type Names = BTreeSet<String>;
pub type NamePath = Vec<String>;

/// A module and its names.
#[derive(Default)]
pub struct Module {
    pub file: PathBuf,
    parent: Option<usize>,
    /// Items that are defined in it.
    items: Names,
    pub children: BTreeMap<String, usize>,
    pub uses: Vec<Use>,
    pub globs: Vec<Use>,
    /// Its items, without the contents of child modules.
    pub syntax: Vec<syn::Item>,
}

/// A name that a `use` line imports, or a glob.
pub struct Use {
    /// The name in this module; `*` for a glob.
    pub name: String,
    pub path: NamePath,
    /// Whether users of the crate see it.
    pub is_public: bool,
}

/// All modules of a crate; the root is the first.
#[derive(Default)]
pub struct Modules {
    pub modules: Vec<Module>,
    /// The module of each `macro_rules!`.
    pub macros: BTreeMap<String, usize>,
}

impl Modules {
    /// Reads a crate from its root file. Panics if a file can't be read or parsed.
    pub fn of_crate(root: &Path) -> Modules {
        let mut modules = Modules::default();
        modules.read(root, root.parent().unwrap(), None);
        modules
    }

    /// Reads a file as a module. Files of its child modules lie in `folder`.
    fn read(&mut self, file: &Path, folder: &Path, parent: Option<usize>) -> usize {
        let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let syntax = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let module = self.add(file, parent);
        syntax.items.into_iter().for_each(|item| self.item(module, item, folder));
        module
    }

    fn add(&mut self, file: &Path, parent: Option<usize>) -> usize {
        self.modules.push(Module { file: file.to_owned(), parent, ..Module::default() });
        self.modules.len() - 1
    }

    fn item(&mut self, module: usize, item: syn::Item, folder: &Path) {
        use syn::Item;
        let (attributes, name) = match &item {
            Item::Const(it) => (&it.attrs, Some(&it.ident)),
            Item::Enum(it) => (&it.attrs, Some(&it.ident)),
            Item::Fn(it) => (&it.attrs, Some(&it.sig.ident)),
            Item::Static(it) => (&it.attrs, Some(&it.ident)),
            Item::Struct(it) => (&it.attrs, Some(&it.ident)),
            Item::Trait(it) => (&it.attrs, Some(&it.ident)),
            Item::Type(it) => (&it.attrs, Some(&it.ident)),
            Item::Union(it) => (&it.attrs, Some(&it.ident)),
            Item::Macro(it) => (&it.attrs, it.ident.as_ref()),
            Item::Impl(it) => (&it.attrs, None),
            Item::Use(it) => (&it.attrs, None),
            Item::Mod(it) => (&it.attrs, None),
            _ => return,
        };
        if attributes.iter().any(is_of_tests) {
            return;
        }
        if let Some(name) = name {
            self.modules[module].items.insert(name.to_string());
            if matches!(item, Item::Macro(_)) {
                self.macros.insert(name.to_string(), module);
            }
        }
        match item {
            Item::Use(it) => {
                let is_public = is_public(&it.vis) && !it.attrs.iter().any(is_hidden);
                self.use_tree(module, &it.tree, &mut Vec::new(), is_public);
            }
            Item::Mod(mut it) => {
                self.child(module, &mut it, folder);
                self.modules[module].syntax.push(Item::Mod(it));
            }
            item => self.modules[module].syntax.push(item),
        }
    }

    /// Reads a child module, and takes its contents out of `item`.
    fn child(&mut self, parent: usize, item: &mut syn::ItemMod, folder: &Path) {
        let name = item.ident.to_string();
        let inner = folder.join(&name);
        let child = match item.content.take() {
            Some((_, items)) => {
                let file = self.modules[parent].file.clone();
                let child = self.add(&file, Some(parent));
                items.into_iter().for_each(|item| self.item(child, item, &inner));
                child
            }
            None => {
                let plain = folder.join(format!("{name}.rs"));
                let file = match item.attrs.iter().find_map(path_of) {
                    Some(path) => folder.join(path),
                    None if plain.exists() => plain,
                    None => inner.join("mod.rs"),
                };
                self.read(&file, &inner, Some(parent))
            }
        };
        self.modules[parent].children.insert(name, child);
    }

    fn use_tree(&mut self, module: usize, tree: &syn::UseTree, path: &mut NamePath, is_public: bool) {
        let full = |name: &syn::Ident| match name == "self" {
            true => path.clone(),
            false => [&path[..], &[name.to_string()]].concat(),
        };
        let Module { uses, globs, .. } = &mut self.modules[module];
        match tree {
            syn::UseTree::Name(it) => {
                let path = full(&it.ident);
                uses.extend(path.last().cloned().map(|name| Use { name, path, is_public }));
            }
            syn::UseTree::Rename(it) => {
                uses.push(Use { name: it.rename.to_string(), path: full(&it.ident), is_public });
            }
            syn::UseTree::Glob(_) => globs.push(Use { name: "*".to_owned(), path: path.clone(), is_public }),
            syn::UseTree::Group(it) => {
                it.items.iter().for_each(|tree| self.use_tree(module, tree, path, is_public));
            }
            syn::UseTree::Path(it) => {
                path.push(it.ident.to_string());
                self.use_tree(module, &it.tree, path, is_public);
                path.pop();
            }
        }
    }

    /// Follows a path from `module` through child modules. Returns the last one, and the rest of the path.
    fn descend<'p>(&self, module: usize, path: &'p [String]) -> Option<(usize, &'p [String])> {
        let (mut here, mut rest) = (module, path);
        while let Some(first) = rest.first() {
            here = match first.as_str() {
                "crate" | "$crate" => 0,
                "self" => here,
                "super" => self.modules[here].parent?,
                _ => break,
            };
            rest = &rest[1..];
        }
        while let Some(child) = rest.first().and_then(|name| self.modules[here].children.get(name)) {
            (here, rest) = (*child, &rest[1..]);
        }
        Some((here, rest))
    }

    /// Returns the path that an item has in its own crate, if `path` in `module` refers to an item of another crate.
    pub fn foreign(&self, module: usize, path: &[String]) -> String {
        let (mut module, mut path) = (module, path.to_owned());
        for _ in 0..DEEPEST {
            let Some((here, rest)) = self.descend(module, &path) else { break };
            let Some(used) = rest.first().and_then(|name| self.modules[here].uses.iter().find(|it| it.name == *name))
            else {
                break;
            };
            // `use other;`
            if used.path[..] == rest[..1] {
                break;
            }
            (module, path) = (here, [&used.path[..], &rest[1..]].concat());
        }
        path.join("::")
    }

    /// Returns the module that defines the item to which `path` in `module` refers, and the item's name. Returns `None` for a path to a
    /// module, and for an item of another crate.
    pub fn resolve(&self, module: usize, path: &[String]) -> Option<(usize, Option<String>)> {
        self.resolve_within(module, path, 0)
    }

    fn resolve_within(&self, module: usize, path: &[String], depth: usize) -> Option<(usize, Option<String>)> {
        if depth > DEEPEST {
            return None;
        }
        let (here, rest) = self.descend(module, path)?;
        let is_ours = rest.len() < path.len();
        let Some(name) = rest.first() else { return Some((here, None)) };
        let Module { items, uses, globs, .. } = &self.modules[here];
        if items.contains(name) {
            return Some((here, Some(name.clone())));
        }
        if let Some(Use { path: target, .. }) = uses.iter().find(|used| used.name == *name) {
            if target.len() == 1 {
                return None;
            }
            return match self.resolve_within(here, target, depth + 1)? {
                (module, None) => self.resolve_within(module, &inside(&rest[1..]), depth + 1),
                item => Some(item),
            };
        }
        let in_glob = |glob: &Use| match self.resolve_within(here, &glob.path, depth + 1)? {
            (target, None) if target != here => self.resolve_within(target, &inside(rest), depth + 1),
            _ => None,
        };
        // An item without a definition is generated by a macro; it is in the module to which the path leads.
        globs.iter().find_map(in_glob).or_else(|| is_ours.then(|| (here, Some(name.clone()))))
    }
}

/// Returns a path that begins in the module itself, even if another crate has the same name.
pub fn inside(path: &[String]) -> NamePath {
    [&["self".to_owned()], path].concat()
}

/// The file that `#[path = "…"]` names.
fn path_of(attribute: &syn::Attribute) -> Option<String> {
    let syn::Meta::NameValue(pair) = &attribute.meta else { return None };
    match &pair.value {
        syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(path), .. }) if pair.path.is_ident("path") => {
            Some(path.value())
        }
        _ => None,
    }
}

/// Whether an item is compiled for tests or fuzzing only.
pub fn is_of_tests(attribute: &syn::Attribute) -> bool {
    let syn::Meta::List(list) = &attribute.meta else { return attribute.path().is_ident("test") };
    let condition = list.tokens.to_string();
    let is_of_tests = condition == "test" || condition == "doctest" || condition.starts_with("all (test");
    list.path.is_ident("cfg") && (is_of_tests || condition == "feature = \"fuzzing\"")
}

/// Whether the documentation leaves an item out: `#[doc(hidden)]`.
pub fn is_hidden(attribute: &syn::Attribute) -> bool {
    matches!(&attribute.meta, syn::Meta::List(list) if list.path.is_ident("doc") && list.tokens.to_string() == "hidden")
}

/// Whether an item is `pub`, not only `pub(crate)` or `pub(super)`.
pub fn is_public(visibility: &syn::Visibility) -> bool {
    matches!(visibility, syn::Visibility::Public(_))
}
