//! The reader: converts text to data.
//!
//! A recursive-descent reader over the characters, which counts lines and columns. Lists are built front
//! to back in the collected heap. Each pair records the place of its element (the first pair that of the
//! opening parenthesis), so that the compiler knows the place of a form without a separate table.
//!
//! An error names the place where the programmer should look: for a parenthesis that is never closed
//! this is the opening one, not the end of the file.

use stopworld::Gc;

use super::error::SyntaxError;
use super::numbers;
use super::objects::Pair;
use super::store::Store;
use super::value::Value;

type Read<T> = Result<T, SyntaxError>;

/// A text that is being read.
pub struct Reader<'t, 'm> {
    store: Store<'m>,
    rest: &'t str,
    length: usize,
    line: u32,
    column: u32,
    begun: (u32, u32),
}

impl<'t, 'm> Reader<'t, 'm> {
    pub fn new(store: Store<'m>, text: &'t str) -> Self {
        let mut reader = Self { store, rest: text, length: text.len(), line: 1, column: 1, begun: (1, 1) };
        if text.starts_with("#!/") {
            while reader.peek().is_some_and(|c| c != '\n') {
                reader.advance();
            }
        }
        reader
    }

    /// Returns the number of bytes read.
    pub fn position(&self) -> usize {
        self.length - self.rest.len()
    }

    /// Returns the place where the last datum returned by `next` begins.
    pub fn place(&self) -> (u32, u32) {
        self.begun
    }

    /// Reads the next datum. Returns `None` at the end.
    pub fn next(&mut self) -> Read<Option<Value>> {
        let datum = self.next_inside()?;
        Ok(datum.map(|(datum, begun)| {
            self.begun = begun;
            datum
        }))
    }

    fn next_inside(&mut self) -> Read<Option<(Value, (u32, u32))>> {
        self.skip_blanks()?;
        let begun = self.here();
        if self.rest.is_empty() { Ok(None) } else { Ok(Some((self.datum()?, begun))) }
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn advance(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.rest = &self.rest[c.len_utf8()..];
        if c == '\n' {
            self.line += 1;
            self.column = 1;
        } else {
            self.column += 1;
        }
        Some(c)
    }

    fn here(&self) -> (u32, u32) {
        (self.line, self.column)
    }

    fn skip_blanks(&mut self) -> Read<()> {
        loop {
            match self.peek() {
                Some(c) if c.is_whitespace() => {
                    self.advance();
                }
                Some(';') => {
                    while self.peek().is_some_and(|c| c != '\n') {
                        self.advance();
                    }
                }
                Some('#') if self.rest.starts_with("#|") => self.skip_block_comment()?,
                Some('#') if self.rest.starts_with("#;") => {
                    let at = self.here();
                    self.advance();
                    self.advance();
                    self.required_datum(at, "#; is followed by nothing to skip")?;
                }
                _ => return Ok(()),
            }
        }
    }

    fn skip_block_comment(&mut self) -> Read<()> {
        let at = self.here();
        let mut depth = 0;
        loop {
            if self.rest.starts_with("#|") {
                depth += 1;
                self.advance();
            } else if self.rest.starts_with("|#") {
                depth -= 1;
                self.advance();
            }
            if self.advance().is_none() {
                return Err(incomplete(at, "this #| comment is never closed by |#"));
            }
            if depth == 0 {
                return Ok(());
            }
        }
    }

    fn required_datum(&mut self, at: (u32, u32), what: &str) -> Read<Value> {
        self.next_inside()?.map(|(datum, _)| datum).ok_or_else(|| incomplete(at, what))
    }

    fn datum(&mut self) -> Read<Value> {
        let at = self.here();
        if !self.store.limit.has_room() {
            return Err(wrong(at, "data is nested too deeply to be read"));
        }
        match self.peek() {
            Some('(') => self.list(')', at),
            Some('[') => self.list(']', at),
            Some(c @ (')' | ']')) => Err(wrong(at, &format!("unexpected {c}: no list is open here"))),
            Some('\'') => self.quoted("quote", 1, at),
            Some('`') => self.quoted("quasiquote", 1, at),
            Some(',') if self.rest.starts_with(",@") => self.quoted("unquote-splicing", 2, at),
            Some(',') => self.quoted("unquote", 1, at),
            Some('"') => self.string(at),
            Some('|') => self.bar_symbol(at),
            Some('#') => self.hash(at),
            _ => self.atom(at),
        }
    }

    fn quoted(&mut self, name: &str, characters: usize, at: (u32, u32)) -> Read<Value> {
        for _ in 0..characters {
            self.advance();
        }
        let datum = self.required_datum(at, "a quote is followed by nothing")?;
        let tail = self.store.cons_at(datum, Value::NIL, at)?;
        Ok(self.store.cons_at(self.store.symbol(name)?, tail, at)?)
    }

    fn list(&mut self, close: char, at: (u32, u32)) -> Read<Value> {
        let open = self.advance().unwrap_or('(');
        let mut head = Value::NIL;
        let mut last: Option<Gc<Pair>> = None;
        let mut place = at;
        loop {
            self.skip_blanks()?;
            match self.peek() {
                None => return Err(incomplete(at, &format!("this {open} is never closed"))),
                Some(c) if c == close => {
                    self.advance();
                    return Ok(head);
                }
                Some(c @ (')' | ']')) => {
                    let message = format!("{c} found where {close} should close the {open} of {}:{}", at.0, at.1);
                    return Err(wrong(self.here(), &message));
                }
                Some('.') if self.dot_is_alone() => return self.dotted_tail(close, at, head, last),
                Some(_) => {}
            }
            let element_place = self.here();
            let element = self.datum()?;
            let pair = self.store.cons_at(element, Value::NIL, place)?;
            match last {
                Some(last) => last.cdr.set(pair),
                None => head = pair,
            }
            last = pair.get::<Pair>();
            place = element_place;
        }
    }

    fn dot_is_alone(&self) -> bool {
        self.rest[1..].chars().next().is_none_or(is_delimiter)
    }

    fn dotted_tail(&mut self, close: char, at: (u32, u32), head: Value, last: Option<Gc<Pair>>) -> Read<Value> {
        let dot = self.here();
        self.advance();
        let Some(last) = last else { return Err(wrong(dot, "a dot with nothing before it")) };
        self.skip_blanks()?;
        if self.peek() == Some(close) {
            return Err(wrong(dot, "a dot with nothing after it"));
        }
        let tail = self.required_datum(at, "this list is never closed")?;
        last.cdr.set(tail);
        self.skip_blanks()?;
        match self.peek() {
            Some(c) if c == close => {
                self.advance();
                Ok(head)
            }
            None => Err(incomplete(at, "this list is never closed")),
            Some(_) => Err(wrong(self.here(), "more than one datum after a dot")),
        }
    }

    fn string(&mut self, at: (u32, u32)) -> Read<Value> {
        let text = self.delimited('"', at, "this string is never closed")?;
        Ok(self.store.string(&text)?)
    }

    fn bar_symbol(&mut self, at: (u32, u32)) -> Read<Value> {
        let text = self.delimited('|', at, "this |symbol| is never closed")?;
        Ok(self.store.symbol(&text)?)
    }

    fn delimited(&mut self, end: char, at: (u32, u32), unclosed: &str) -> Read<String> {
        self.advance();
        let mut text = String::new();
        loop {
            let place = self.here();
            match self.advance() {
                None => return Err(incomplete(at, unclosed)),
                Some(c) if c == end => return Ok(text),
                Some('\\') => self.escape(&mut text, place, (at, unclosed))?,
                Some(c) => text.push(c),
            }
        }
    }

    fn escape(&mut self, text: &mut String, at: (u32, u32), unclosed: ((u32, u32), &str)) -> Read<()> {
        match self.advance() {
            Some('n') => text.push('\n'),
            Some('t') => text.push('\t'),
            Some('r') => text.push('\r'),
            Some('a') => text.push('\u{7}'),
            Some('b') => text.push('\u{8}'),
            Some('0') => text.push('\0'),
            Some(c @ ('\\' | '"' | '|' | '\'')) => text.push(c),
            Some('x' | 'X') => {
                let digits: String = self.rest.chars().take_while(char::is_ascii_hexdigit).collect();
                for _ in 0..digits.len() {
                    self.advance();
                }
                let code = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
                match (code, self.advance()) {
                    (Some(c), Some(';')) => text.push(c),
                    _ => return Err(wrong(at, "expected \\x, the hexadecimal code of a character, and ;")),
                }
            }
            Some(c) if c.is_whitespace() => {
                let mut lines = u32::from(c == '\n');
                while let Some(c) = self.peek().filter(|&c| c.is_whitespace() && (c != '\n' || lines == 0)) {
                    lines += u32::from(c == '\n');
                    self.advance();
                }
            }
            Some(c) => return Err(wrong(at, &format!("unknown escape \\{c}"))),
            None => return Err(incomplete(unclosed.0, unclosed.1)),
        }
        Ok(())
    }

    fn hash(&mut self, at: (u32, u32)) -> Read<Value> {
        if self.rest.starts_with("#(") {
            self.advance();
            let list = self.list(')', at)?;
            let items = super::store::elements(list);
            let length = items.count();
            let mut items = items;
            return Ok(self.store.vector(length, |_| items.next().unwrap_or(Value::UNSPECIFIED))?);
        }
        if self.rest.starts_with("#\\") {
            return self.character(at);
        }
        let token = self.token();
        match token {
            "#t" | "#true" => Ok(Value::TRUE),
            "#f" | "#false" => Ok(Value::FALSE),
            _ => match numbers::parse(&self.store, token, 10)? {
                Some(number) => Ok(number),
                None => Err(wrong(at, &format!("unknown syntax {token}"))),
            },
        }
    }

    fn character(&mut self, at: (u32, u32)) -> Read<Value> {
        self.advance();
        self.advance();
        let Some(first) = self.advance() else { return Err(incomplete(at, "#\\ is followed by nothing")) };
        if !first.is_alphanumeric() {
            return Ok(Value::char(first));
        }
        let tail = self.token();
        if tail.is_empty() {
            return Ok(Value::char(first));
        }
        let name = format!("{first}{tail}");
        match character_named(&name) {
            Some(c) => Ok(Value::char(c)),
            None => Err(wrong(at, &format!("unknown character name #\\{name}"))),
        }
    }

    fn token(&mut self) -> &'t str {
        let text = self.rest;
        while self.peek().is_some_and(|c| !is_delimiter(c)) {
            self.advance();
        }
        &text[..text.len() - self.rest.len()]
    }

    fn atom(&mut self, at: (u32, u32)) -> Read<Value> {
        let token = self.token();
        if token.is_empty() {
            let c = self.peek().unwrap_or(' ');
            return Err(wrong(at, &format!("unexpected {c}")));
        }
        match numbers::parse(&self.store, token, 10)? {
            Some(number) => Ok(number),
            None if is_fraction(token) => {
                Err(wrong(at, &format!("{token}: there are no exact fractions; write a decimal number or a division")))
            }
            None => Ok(self.store.symbol(token)?),
        }
    }
}

fn wrong(at: (u32, u32), message: &str) -> SyntaxError {
    SyntaxError::Syntax { at, message: message.to_owned(), incomplete: false }
}

fn incomplete(at: (u32, u32), message: &str) -> SyntaxError {
    SyntaxError::Syntax { at, message: message.to_owned(), incomplete: true }
}

fn is_fraction(token: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let unsigned = token.strip_prefix(['+', '-']).unwrap_or(token);
    unsigned.split_once('/').is_some_and(|(above, below)| digits(above) && digits(below))
}

fn is_delimiter(c: char) -> bool {
    c.is_whitespace() || matches!(c, '(' | ')' | '[' | ']' | '"' | ';' | '\'' | '`' | ',')
}

const CHARACTER_NAMES: [(&str, char); 12] = [
    ("space", ' '),
    ("newline", '\n'),
    ("tab", '\t'),
    ("return", '\r'),
    ("null", '\0'),
    ("nul", '\0'),
    ("alarm", '\u{7}'),
    ("backspace", '\u{8}'),
    ("delete", '\u{7f}'),
    ("escape", '\u{1b}'),
    ("altmode", '\u{1b}'),
    ("linefeed", '\n'),
];

fn character_named(name: &str) -> Option<char> {
    if let Some(&(_, c)) = CHARACTER_NAMES.iter().find(|(n, _)| *n == name) {
        return Some(c);
    }
    u32::from_str_radix(name.strip_prefix('x')?, 16).ok().and_then(char::from_u32)
}

/// Returns the name that `write` gives a character, if it has one.
pub fn name_of_character(c: char) -> Option<&'static str> {
    CHARACTER_NAMES.iter().find(|(_, named)| *named == c).map(|(name, _)| *name)
}
