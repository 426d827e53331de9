//! The language that the interpreters share: its syntax tree, which lives as long as the program, and a parser.

use std::hash::{BuildHasher, Hasher};

/// The number of a name.
pub type Symbol = u32;

/// Hashes symbols, in the maps of all interpreters: they compare collectors, not hash functions.
#[derive(Clone, Copy, Default, dumpster::Trace)]
pub struct SymbolHash;

impl gc::Finalize for SymbolHash {}

// SAFETY: there are no references in it. The derive would give it a destructor, which would take time with all contenders.
unsafe impl gc::Trace for SymbolHash {
    gc::unsafe_empty_trace!();
}

impl BuildHasher for SymbolHash {
    type Hasher = SymbolHasher;

    fn build_hasher(&self) -> SymbolHasher {
        SymbolHasher(0)
    }
}

/// Multiplies a symbol by an odd number: the map uses the upper and the lower bits of a hash.
pub struct SymbolHasher(u64);

impl Hasher for SymbolHasher {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u32(u32::from(byte));
        }
    }

    fn write_u32(&mut self, symbol: u32) {
        self.0 = (self.0 ^ u64::from(symbol)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// An expression.
#[derive(Debug)]
pub enum Expr {
    Null,
    Number(f64),
    Variable(Symbol),
    Let(Symbol, Box<Expr>),
    Set(Symbol, Box<Expr>),
    If(Box<Expr>, Box<Expr>, Box<Expr>),
    While(Box<Expr>, Box<Expr>),
    /// Expressions in a scope of their own.
    Do(Vec<Expr>),
    Function(&'static Function),
    Binary(Op, Box<Expr>, Box<Expr>),
    /// A new array: its length, and the value of each element.
    Array(Box<Expr>, Box<Expr>),
    At(Box<Expr>, Box<Expr>),
    Put(Box<Expr>, Box<Expr>, Box<Expr>),
    Length(Box<Expr>),
    Object(Vec<(Symbol, Expr)>),
    Get(Box<Expr>, Symbol),
    Call(Box<Expr>, Vec<Expr>),
}

/// A binary operator.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    Add,
    Sub,
    Mul,
    Rem,
    Less,
    Equal,
    Unequal,
}

/// The parameters of a function, and its body.
#[derive(Debug)]
pub struct Function {
    pub parameters: Vec<Symbol>,
    pub body: Expr,
}

/// The name of the one global variable.
pub const HISTORY: Symbol = 0;

/// Parses a program, which is a function.
pub fn parse(text: &str) -> &'static Function {
    let text: String = text.lines().flat_map(|line| line.split(';').next()).map(|line| format!("{line} ")).collect();
    let spaced = text.replace('(', " ( ").replace(')', " ) ");
    let mut parser = Parser { words: spaced.split_whitespace().collect(), at: 0, names: vec!["history".to_owned()] };
    match parser.expression() {
        Expr::Function(function) => function,
        other => panic!("the program is not a function: {other:?}"),
    }
}

struct Parser<'a> {
    words: Vec<&'a str>,
    at: usize,
    names: Vec<String>,
}

impl<'a> Parser<'a> {
    fn next(&mut self) -> &'a str {
        self.at += 1;
        self.words[self.at - 1]
    }

    fn symbol(&mut self) -> Symbol {
        let name = self.next();
        let number = self.names.iter().position(|known| known == name).unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        });
        number as Symbol
    }

    fn boxed(&mut self) -> Box<Expr> {
        Box::new(self.expression())
    }

    /// Parses items up to the closing bracket.
    fn rest<T>(&mut self, item: impl Fn(&mut Self) -> T) -> Vec<T> {
        let mut items = Vec::new();
        while self.words[self.at] != ")" {
            items.push(item(self));
        }
        self.at += 1;
        items
    }

    fn expression(&mut self) -> Expr {
        let word = self.next();
        if word != "(" {
            return match word.parse() {
                Ok(number) => Expr::Number(number),
                Err(_) if word == "null" => Expr::Null,
                Err(_) => {
                    self.at -= 1;
                    Expr::Variable(self.symbol())
                }
            };
        }
        let form = match self.next() {
            "let" => Expr::Let(self.symbol(), self.boxed()),
            "set" => Expr::Set(self.symbol(), self.boxed()),
            "if" => Expr::If(self.boxed(), self.boxed(), self.boxed()),
            "while" => Expr::While(self.boxed(), self.boxed()),
            "do" => return Expr::Do(self.rest(Self::expression)),
            "fn" => {
                self.next();
                let parameters = self.rest(Self::symbol);
                Expr::Function(Box::leak(Box::new(Function { parameters, body: self.expression() })))
            }
            "array" => Expr::Array(self.boxed(), self.boxed()),
            "at" => Expr::At(self.boxed(), self.boxed()),
            "put" => Expr::Put(self.boxed(), self.boxed(), self.boxed()),
            "length" => Expr::Length(self.boxed()),
            "object" => return Expr::Object(self.rest(|parser| (parser.symbol(), parser.expression()))),
            "get" => Expr::Get(self.boxed(), self.symbol()),
            "+" => self.binary(Op::Add),
            "-" => self.binary(Op::Sub),
            "*" => self.binary(Op::Mul),
            "%" => self.binary(Op::Rem),
            "<" => self.binary(Op::Less),
            "==" => self.binary(Op::Equal),
            "!=" => self.binary(Op::Unequal),
            _ => {
                self.at -= 1;
                return Expr::Call(self.boxed(), self.rest(Self::expression));
            }
        };
        assert_eq!(self.next(), ")", "word {} of the program", self.at);
        form
    }

    fn binary(&mut self, op: Op) -> Expr {
        Expr::Binary(op, self.boxed(), self.boxed())
    }
}

/// Applies an operator to numbers; truth is 1.
pub fn apply(op: Op, a: f64, b: f64) -> f64 {
    let truth = |is| if is { 1.0 } else { 0.0 };
    match op {
        Op::Add => a + b,
        Op::Sub => a - b,
        Op::Mul => a * b,
        Op::Rem => a % b,
        Op::Less => truth(a < b),
        Op::Equal => truth(a == b),
        Op::Unequal => truth(a != b),
    }
}
