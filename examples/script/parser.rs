//! The parser: from a text to a tree of collected objects.

use stopworld::{Gc, GcVec, Mutator, Trace};

use super::{DEEPEST, Expr, Function, Op, Outcome, Value};

/// The operators with their precedence.
#[rustfmt::skip]
const OPERATORS: [(&str, Op, u8); 13] = [
    ("||", Op::Or, 1), ("&&", Op::And, 2), ("==", Op::Eq, 3), ("!=", Op::Ne, 3), ("<", Op::Lt, 4), ("<=", Op::Le, 4), (">", Op::Gt, 4),
    (">=", Op::Ge, 4), ("+", Op::Add, 5), ("-", Op::Sub, 5), ("*", Op::Mul, 6), ("/", Op::Div, 6), ("%", Op::Rem, 6),
];

/// Cuts a program into words, each with its line: names, numbers, operators, and strings with their opening quote.
fn words(text: &str) -> Outcome<Vec<(&str, usize)>> {
    let (mut words, mut rest, mut line) = (Vec::new(), text, 1);
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    while let Some(first) = rest.chars().next() {
        let length = match first {
            _ if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '"' => match rest[1..].find('"') {
                Some(end) => end + 2,
                None => return Err(format!("line {line}: a string without an end").into()),
            },
            '0'..='9' => rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len()),
            c if is_name(c) => rest.find(|c| !is_name(c)).unwrap_or(rest.len()),
            c if OPERATORS.iter().any(|(op, ..)| op.len() == 2 && rest.starts_with(op)) => 2 * c.len_utf8(),
            c => c.len_utf8(),
        };
        let (word, after) = rest.split_at(length);
        if !first.is_whitespace() && !word.starts_with("//") {
            words.push((word.strip_suffix('"').unwrap_or(word), line));
        }
        line += word.matches('\n').count();
        rest = after;
    }
    Ok(words)
}

/// A program that is being parsed, up to the word number `at`.
struct Parser<'a> {
    m: &'a Mutator,
    words: Vec<(&'a str, usize)>,
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    /// Returns the next word, or nothing at the end.
    fn peek(&self) -> &'a str {
        self.words.get(self.at).map_or("", |word| word.0)
    }

    fn accept(&mut self, word: &str) -> bool {
        let accepted = self.peek() == word;
        self.at += usize::from(accepted);
        accepted
    }

    fn expect(&mut self, word: &str) -> Outcome<()> {
        if self.accept(word) { Ok(()) } else { self.unexpected(word) }
    }

    fn unexpected<T>(&self, wanted: &str) -> Outcome<T> {
        match self.words.get(self.at) {
            Some((word, line)) => Err(format!("line {line}: found {word}, expected {wanted}").into()),
            None => Err(format!("the program ends where {wanted} is expected").into()),
        }
    }

    fn name(&mut self) -> Outcome<Gc<str>> {
        let word = self.peek();
        if !word.starts_with(|c: char| c.is_alphabetic() || c == '_') {
            return self.unexpected("a name");
        }
        self.at += 1;
        Ok(self.m.alloc_str(word)?)
    }

    /// Parses items up to `end`, with separators between them.
    fn list<T: Trace>(
        &mut self,
        separator: &str,
        end: &str,
        item: impl Fn(&mut Self) -> Outcome<T>,
    ) -> Outcome<Gc<[T]>> {
        let mut items = GcVec::new();
        while !self.accept(end) {
            items.push(self.m, item(self)?)?;
            if self.peek() != end {
                self.expect(separator)?;
            }
        }
        Ok(items.into_slice(self.m)?)
    }

    fn expression(&mut self) -> Outcome<Gc<Expr>> {
        let expression = self.binary(1)?;
        if self.accept("=") {
            self.depth += 1;
            let value = self.expression()?;
            self.depth -= 1;
            return Ok(self.m.alloc(Expr::Assign(expression, value))?);
        }
        Ok(expression)
    }

    /// Parses operators of at least this precedence.
    fn binary(&mut self, least: u8) -> Outcome<Gc<Expr>> {
        if self.depth == DEEPEST {
            return Err(format!("the program is nested more than {DEEPEST} deep").into());
        }
        self.depth += 1;
        let mut left = self.postfix()?;
        while let Some(&(_, op, precedence)) = OPERATORS.iter().find(|operator| operator.0 == self.peek())
            && precedence >= least
        {
            self.at += 1;
            left = self.m.alloc(Expr::Binary(op, left, self.binary(precedence + 1)?))?;
        }
        self.depth -= 1;
        Ok(left)
    }

    fn postfix(&mut self) -> Outcome<Gc<Expr>> {
        let first = self.primary()?;
        let mut operand = self.m.alloc(first)?;
        loop {
            let applied = if self.accept("(") {
                Expr::Call(operand, self.list(",", ")", Self::expression)?)
            } else if self.accept("[") {
                let index = self.expression()?;
                self.expect("]")?;
                Expr::Index(operand, index)
            } else if self.accept(".") {
                Expr::Index(operand, self.m.alloc(Expr::Constant(Value::Text(self.name()?)))?)
            } else {
                return Ok(operand);
            };
            operand = self.m.alloc(applied)?;
        }
    }

    fn condition(&mut self) -> Outcome<Gc<Expr>> {
        self.expect("(")?;
        let condition = self.expression()?;
        self.expect(")")?;
        Ok(condition)
    }

    fn primary(&mut self) -> Outcome<Expr> {
        let m = self.m;
        let constant = |value| m.alloc(Expr::Constant(value));
        let word = self.peek();
        self.at += 1;
        Ok(match word {
            "true" | "false" => Expr::Constant(Value::Bool(word == "true")),
            "null" => Expr::Constant(Value::Null),
            "-" => Expr::Binary(Op::Sub, constant(Value::Number(0.0))?, self.binary(6)?),
            "!" => Expr::If(self.binary(6)?, constant(Value::Bool(false))?, constant(Value::Bool(true))?),
            "(" => {
                self.at -= 1;
                Expr::Block(m.alloc_slice(&[self.condition()?])?)
            }
            "[" => Expr::Array(self.list(",", "]", Self::expression)?),
            "{" if self.words.get(self.at + 1).is_some_and(|word| word.0 == ":") || self.peek() == "}" => {
                Expr::Object(self.list(",", "}", |parser| {
                    let key = parser.name()?;
                    parser.expect(":")?;
                    Ok((key, parser.expression()?))
                })?)
            }
            "{" => Expr::Block(self.list(";", "}", Self::expression)?),
            "fn" => {
                self.expect("(")?;
                let parameters = self.list(",", ")", Self::name)?;
                Expr::Function(m.alloc(Function { parameters, body: self.expression()? })?)
            }
            "let" => {
                let name = self.name()?;
                self.expect("=")?;
                Expr::Let(name, self.expression()?)
            }
            "if" => {
                let (condition, then) = (self.condition()?, self.expression()?);
                let otherwise = if self.accept("else") { self.expression()? } else { constant(Value::Null)? };
                Expr::If(condition, then, otherwise)
            }
            "while" => Expr::While(self.condition()?, self.expression()?),
            _ if let Some(text) = word.strip_prefix('"') => Expr::Constant(Value::Text(m.alloc_str(text)?)),
            _ if let Ok(number) = word.parse()
                && word.starts_with(|c: char| c.is_ascii_digit()) =>
            {
                Expr::Constant(Value::Number(number))
            }
            _ => {
                self.at -= 1;
                Expr::Variable(self.name()?)
            }
        })
    }
}

/// Parses a program: a block without its braces.
pub fn parse(m: &Mutator, program: &str) -> Outcome<Gc<Expr>> {
    let mut parser = Parser { m, words: words(program)?, at: 0, depth: 0 };
    let body = parser.list(";", "", Parser::expression)?;
    Ok(m.alloc(Expr::Block(body))?)
}
