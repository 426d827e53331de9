//! Finds, for each file of a crate, the other files that define the names that it uses.
//! A `mod.rs` that only re-exports a name does not count as a dependency. Code for tests is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::Visit;

use super::modules::{Modules, NamePath, Names, is_of_tests};

/// The imports of a crate, by file.
pub struct Imports(BTreeMap<PathBuf, BTreeMap<PathBuf, Names>>);

impl Imports {
    /// Reads a crate from its root file. Panics if a file can't be read or parsed.
    pub fn of_crate(root: &Path) -> Imports {
        let modules = Modules::of_crate(root);
        let mut imports: BTreeMap<PathBuf, BTreeMap<PathBuf, Names>> = BTreeMap::new();
        for (number, module) in modules.modules.iter().enumerate() {
            let mut paths = BTreeSet::new();
            let code = module.syntax.iter().filter(|item| !matches!(item, syn::Item::Mod(_)));
            code.for_each(|item| Code { paths: &mut paths }.visit_item(item));
            for path in &paths {
                let found = match path.last().and_then(|name| name.strip_suffix('!')) {
                    Some(name) => modules.macros.get(name).map(|module| (*module, Some(name.to_owned()))),
                    None => modules.resolve(number, path),
                };
                if let Some((target, Some(name))) = found
                    && modules.modules[target].file != module.file
                {
                    let from = imports.entry(module.file.clone()).or_default();
                    from.entry(modules.modules[target].file.clone()).or_default().insert(name);
                }
            }
        }
        Imports(imports)
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

/// Collects the paths in code. Macro calls are paths of one name that ends in `!`.
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

    // The path in `pub(super)` is not a use of a name.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}
}
