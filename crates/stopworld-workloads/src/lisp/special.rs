//! The keywords that name special forms. The expander looks them up, and `forms.rs` compiles the forms.

use super::store::{Allocated, Store};

macro_rules! specials {
    ($($variant:ident = $name:literal),* $(,)?) => {
        /// The special form that a keyword names.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Special { $($variant),* }

        const SPECIALS: &[(&str, Special)] = &[$(($name, Special::$variant)),*];
    };
}

specials! {
    Quote = "quote", Quasiquote = "quasiquote", Unquote = "unquote", UnquoteSplicing = "unquote-splicing",
    Lambda = "lambda", NamedLambda = "named-lambda", Define = "define", Set = "set!", If = "if", Cond = "cond",
    Case = "case", And = "and", Or = "or", When = "when", Unless = "unless", Begin = "begin", Let = "let",
    LetStar = "let*", Letrec = "letrec", LetrecStar = "letrec*", Do = "do", Else = "else", Arrow = "=>",
    DefineSyntax = "define-syntax", LetSyntax = "let-syntax", LetrecSyntax = "letrec-syntax",
    DefineRecordType = "define-record-type", Delay = "delay", SyntaxRules = "syntax-rules",
}

impl Special {
    /// Returns the special form with this code; `None` for 0, the code of a symbol that names no special form.
    pub fn of_code(code: u8) -> Option<Self> {
        (code as usize).checked_sub(1).and_then(|i| SPECIALS.get(i)).map(|(_, special)| *special)
    }

    /// Marks the symbols that name special forms.
    pub fn install(store: &Store<'_>) -> Allocated<()> {
        SPECIALS.iter().try_for_each(|(name, special)| {
            store.intern(name)?.flags.set(*special as usize + 1);
            Ok(())
        })
    }
}
