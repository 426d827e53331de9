//! Which file of a crate uses names that which other file defines.
//!
//! Names are resolved as the compiler does it: through `use` lines, re-exports and globs to the file with the definition. A `mod.rs` that
//! only re-exports a name is not depended on. Code for tests is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::Visit;

type Names = BTreeSet<String>;
type NamePath = Vec<String>;

/// The imports of a crate, by file.
pub struct Imports(BTreeMap<PathBuf, BTreeMap<PathBuf, Names>>);

impl Imports {
    /// Reads a crate from its root file. Panics if a file can't be read or parsed.
    pub fn of_crate(root: &Path) -> Imports {
        let mut modules = Modules::default();
        modules.read(root, root.parent().unwrap(), None);
        Imports(modules.imports())
    }

    /// The groups of files that import each other (strongly connected components of more than one file).
    pub fn circles(&self) -> Vec<BTreeSet<PathBuf>> {
        let mut search = Search {
            imports: self,
            index: BTreeMap::new(),
            low: BTreeMap::new(),
            stack: Vec::new(),
            found: Vec::new(),
        };
        for file in self.0.keys() {
            if !search.index.contains_key(file.as_path()) {
                search.visit(file);
            }
        }
        search.found
    }

    /// The imports between these files: from, to, names.
    pub fn within<'a>(
        &'a self,
        files: &'a BTreeSet<PathBuf>,
    ) -> impl Iterator<Item = (&'a PathBuf, &'a PathBuf, &'a Names)> {
        let from = files.iter().filter_map(|file| self.0.get_key_value(file));
        let to = from.flat_map(|(from, imports)| imports.iter().map(move |(to, names)| (from, to, names)));
        to.filter(|(_, to, _)| files.contains(*to))
    }
}

/// Tarjan's algorithm.
struct Search<'a> {
    imports: &'a Imports,
    index: BTreeMap<&'a Path, usize>,
    low: BTreeMap<&'a Path, usize>,
    stack: Vec<&'a Path>,
    found: Vec<BTreeSet<PathBuf>>,
}

impl<'a> Search<'a> {
    fn visit(&mut self, file: &'a Path) {
        let number = self.index.len();
        self.index.insert(file, number);
        self.low.insert(file, number);
        self.stack.push(file);
        let imports = self.imports;
        for to in imports.0.get(file).into_iter().flat_map(BTreeMap::keys) {
            let reached = if !self.index.contains_key(to.as_path()) {
                self.visit(to);
                self.low[to.as_path()]
            } else if self.stack.contains(&to.as_path()) {
                self.index[to.as_path()]
            } else {
                continue;
            };
            let low = self.low[file].min(reached);
            self.low.insert(file, low);
        }
        if self.low[file] == number {
            let begin = self.stack.iter().position(|on| *on == file).unwrap();
            let group = self.stack.split_off(begin);
            if group.len() > 1 {
                self.found.push(group.into_iter().map(Path::to_owned).collect());
            }
        }
    }
}

/// A module and its names.
#[derive(Default)]
struct Module {
    file: PathBuf,
    parent: Option<usize>,
    /// Items that are defined in it.
    items: Names,
    children: BTreeMap<String, usize>,
    /// `use` lines: the name in this module, and the path.
    uses: Vec<(String, NamePath)>,
    globs: Vec<NamePath>,
    /// Paths in its code. Macro calls are paths of one name that ends in `!`.
    paths: BTreeSet<NamePath>,
}

/// All modules of a crate; the root is the first.
#[derive(Default)]
struct Modules {
    modules: Vec<Module>,
    /// The module of each `macro_rules!`.
    macros: BTreeMap<String, usize>,
}

impl Modules {
    /// Reads a file as a module. Files of its child modules lie in `folder`.
    fn read(&mut self, file: &Path, folder: &Path, parent: Option<usize>) -> usize {
        let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let syntax = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let module = self.add(file, parent);
        syntax.items.iter().for_each(|item| self.item(module, item, folder));
        module
    }

    fn add(&mut self, file: &Path, parent: Option<usize>) -> usize {
        self.modules.push(Module { file: file.to_owned(), parent, ..Module::default() });
        self.modules.len() - 1
    }

    fn item(&mut self, module: usize, item: &syn::Item, folder: &Path) {
        use syn::Item;
        let (attributes, name) = match item {
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
            Item::Use(it) => self.use_tree(module, &it.tree, &mut Vec::new()),
            Item::Mod(it) => self.child(module, it, folder),
            _ => Code { paths: &mut self.modules[module].paths }.visit_item(item),
        }
    }

    fn child(&mut self, parent: usize, item: &syn::ItemMod, folder: &Path) {
        let name = item.ident.to_string();
        let inner = folder.join(&name);
        let child = match &item.content {
            Some((_, items)) => {
                let file = self.modules[parent].file.clone();
                let child = self.add(&file, Some(parent));
                items.iter().for_each(|item| self.item(child, item, &inner));
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

    fn use_tree(&mut self, module: usize, tree: &syn::UseTree, path: &mut NamePath) {
        let full = |name: &syn::Ident| match name == "self" {
            true => path.clone(),
            false => [&path[..], &[name.to_string()]].concat(),
        };
        let uses = &mut self.modules[module].uses;
        match tree {
            syn::UseTree::Name(it) => {
                let full = full(&it.ident);
                uses.extend(full.last().cloned().map(|name| (name, full)));
            }
            syn::UseTree::Rename(it) => uses.push((it.rename.to_string(), full(&it.ident))),
            syn::UseTree::Glob(_) => self.modules[module].globs.push(path.clone()),
            syn::UseTree::Group(it) => it.items.iter().for_each(|tree| self.use_tree(module, tree, path)),
            syn::UseTree::Path(it) => {
                path.push(it.ident.to_string());
                self.use_tree(module, &it.tree, path);
                path.pop();
            }
        }
    }

    /// The module in which the thing is defined that `path` means in `module`, and its name; `None` for a path to a module, and for
    /// what is none of this crate's.
    fn resolve(&self, module: usize, path: &[String], depth: usize) -> Option<(usize, Option<String>)> {
        const DEEPEST: usize = 32;
        if depth > DEEPEST {
            return None;
        }
        let (mut here, mut rest, mut is_ours) = (module, path, false);
        while let Some(first) = rest.first() {
            here = match first.as_str() {
                "crate" | "$crate" => 0,
                "self" => here,
                "super" => self.modules[here].parent?,
                _ => break,
            };
            (rest, is_ours) = (&rest[1..], true);
        }
        while let Some(child) = rest.first().and_then(|name| self.modules[here].children.get(name)) {
            (here, rest, is_ours) = (*child, &rest[1..], true);
        }
        let Some(name) = rest.first() else { return Some((here, None)) };
        let Module { items, uses, globs, .. } = &self.modules[here];
        if items.contains(name) {
            return Some((here, Some(name.clone())));
        }
        if let Some((_, target)) = uses.iter().find(|(used, _)| used == name) {
            if target.len() == 1 {
                return None;
            }
            return match self.resolve(here, target, depth + 1)? {
                (module, None) => self.resolve(module, &inside(&rest[1..]), depth + 1),
                item => Some(item),
            };
        }
        let in_glob = |glob: &NamePath| match self.resolve(here, glob, depth + 1)? {
            (target, None) if target != here => self.resolve(target, &inside(rest), depth + 1),
            _ => None,
        };
        // What nothing defines is made by a macro: it is in the module that the path leads to.
        globs.iter().find_map(in_glob).or_else(|| is_ours.then(|| (here, Some(name.clone()))))
    }

    fn imports(&self) -> BTreeMap<PathBuf, BTreeMap<PathBuf, Names>> {
        let mut imports: BTreeMap<PathBuf, BTreeMap<PathBuf, Names>> = BTreeMap::new();
        for (number, module) in self.modules.iter().enumerate() {
            for path in &module.paths {
                let found = match path.last().and_then(|name| name.strip_suffix('!')) {
                    Some(name) => self.macros.get(name).map(|module| (*module, Some(name.to_owned()))),
                    None => self.resolve(number, path, 0),
                };
                if let Some((target, Some(name))) = found
                    && self.modules[target].file != module.file
                {
                    let from = imports.entry(module.file.clone()).or_default();
                    from.entry(self.modules[target].file.clone()).or_default().insert(name);
                }
            }
        }
        imports
    }
}

/// A path that begins in the module itself, whatever the crates outside are called.
fn inside(path: &[String]) -> NamePath {
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
fn is_of_tests(attribute: &syn::Attribute) -> bool {
    let syn::Meta::List(list) = &attribute.meta else { return attribute.path().is_ident("test") };
    let condition = list.tokens.to_string();
    let is_of_tests = condition == "test" || condition == "doctest" || condition.starts_with("all (test");
    list.path.is_ident("cfg") && (is_of_tests || condition == "feature = \"fuzzing\"")
}

/// Collects the paths in code.
struct Code<'a> {
    paths: &'a mut BTreeSet<NamePath>,
}

impl Code<'_> {
    /// Paths in the text of a macro: names with `::` between them.
    fn tokens(&mut self, tokens: TokenStream) {
        let (mut path, mut colons) = (NamePath::new(), 0);
        for token in tokens {
            match token {
                TokenTree::Ident(name) => {
                    if colons != 2 {
                        self.paths.insert(std::mem::take(&mut path));
                    }
                    path.push(name.to_string());
                    colons = 0;
                }
                TokenTree::Punct(mark) if mark.as_char() == ':' => colons += 1,
                TokenTree::Group(group) => {
                    self.paths.insert(std::mem::take(&mut path));
                    colons = 0;
                    self.tokens(group.stream());
                }
                _ => {
                    self.paths.insert(std::mem::take(&mut path));
                    colons = 0;
                }
            }
        }
        self.paths.insert(path);
    }
}

impl<'ast> Visit<'ast> for Code<'_> {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.paths.insert(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        syn::visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        if let Some(name) = item.path.segments.last() {
            self.paths.insert(Vec::from([format!("{}!", name.ident)]));
        }
        self.tokens(item.tokens.clone());
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !item.attrs.iter().any(is_of_tests) {
            syn::visit::visit_impl_item_fn(self, item);
        }
    }

    // `pub(super)` uses nothing.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}
}
