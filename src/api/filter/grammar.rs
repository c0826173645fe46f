//! The text of a filter to its tree, rule by rule as go-bexpr 0.1.16 reads it.
//!
//! A syntax error names the furthest position that any rule reached, and what was expected there.

use super::literal;
use regex_lite::{Regex, RegexBuilder};
use std::collections::BTreeSet;
use winnow::Parser;
use winnow::ascii::digit1;
use winnow::combinator::{alt, delimited, eof, opt, preceded, repeat, terminated};
use winnow::error::EmptyError;
use winnow::stream::{LocatingSlice, Location, Stateful};
use winnow::token::{one_of, take_till, take_while};

#[derive(Clone, Debug, PartialEq)]
pub enum FilterExpr {
    Or(Vec<FilterExpr>),
    And(Vec<FilterExpr>),
    Not(Box<FilterExpr>),
    Match { path: Vec<String>, test: Test, negated: bool },
    Each { all: bool, path: Vec<String>, names: Names, inner: Box<FilterExpr> },
}

#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    Equals(String),
    Contains(String),
    Matches(Pattern),
    Empty,
    Nil,
}

/// What `any` and `all` call the elements.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Names {
    /// A map's key, a list's element.
    pub either: Option<String>,
    /// A map's key, a list's index.
    pub key: Option<String>,
    pub value: Option<String>,
}

#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
    pub regex: Regex,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.text == other.text
    }
}

impl FilterExpr {
    /// Whether a path in it begins with this name.
    pub fn names(&self, name: &str) -> bool {
        let begins = |path: &[String]| path.first().is_some_and(|head| head == name);
        match self {
            FilterExpr::Or(terms) | FilterExpr::And(terms) => terms.iter().any(|term| term.names(name)),
            FilterExpr::Not(inner) => inner.names(name),
            FilterExpr::Match { path, .. } => begins(path),
            FilterExpr::Each { path, inner, .. } => begins(path) || inner.names(name),
        }
    }
}

/// How deep parentheses, `not`, `any` and `all` may nest.
const MAX_DEPTH: usize = 32;
/// How large a compiled regular expression may be, in bytes.
const MAX_REGEX_BYTES: usize = 256 << 10;

/// How far any alternative got, including abandoned ones.
#[derive(Debug, Default)]
struct ParseState {
    depth: usize,
    /// An error that no alternative can recover, and its position.
    fatal: Option<(usize, String)>,
    furthest: usize,
    expected: BTreeSet<&'static str>,
}

type Input<'a> = Stateful<LocatingSlice<&'a str>, ParseState>;
type Parsed<T> = Result<T, EmptyError>;

const OPERATOR: &str =
    "an operator (==, !=, contains, in, matches, is empty, is nil, or their opposites with not)";

pub fn parse(text: &str) -> Result<FilterExpr, String> {
    let mut input = Stateful { input: LocatingSlice::new(text), state: ParseState::default() };
    let end = expecting("\"and\", \"or\" or the end", eof);
    let parsed = delimited(space0, disjunction, (space0, end)).parse_next(&mut input);
    let progress = input.state;
    if let Some((at, why)) = progress.fatal {
        return Err(format!("character {}: {why}", character(text, at)));
    }
    parsed.map_err(|_| {
        let expected: Vec<&str> = progress.expected.into_iter().collect();
        let found = text[progress.furthest..].chars().next().map_or("the end".into(), |c| format!("{c:?}"));
        let at = character(text, progress.furthest);
        format!("character {at}: expected {}, found {found}", expected.join(" or "))
    })
}

/// Counted from 1.
fn character(text: &str, byte: usize) -> usize {
    text[..byte].chars().count() + 1
}

fn disjunction(input: &mut Input<'_>) -> Parsed<FilterExpr> {
    let mut terms = Vec::new();
    loop {
        // `any` and `all` extend to their closing brace: no operator follows.
        match opt(conjunction).parse_next(input)? {
            Some(term) => terms.push(term),
            None => {
                terms.push(each(input)?);
                break;
            }
        }
        if opt((space, "or", space)).parse_next(input)?.is_none() {
            break;
        }
    }
    Ok(joined(terms, FilterExpr::Or))
}

fn conjunction(input: &mut Input<'_>) -> Parsed<FilterExpr> {
    let mut terms = vec![negation(input)?];
    while opt((space, "and", space)).parse_next(input)?.is_some() {
        terms.push(negation(input)?);
    }
    Ok(joined(terms, FilterExpr::And))
}

fn joined(mut terms: Vec<FilterExpr>, join: fn(Vec<FilterExpr>) -> FilterExpr) -> FilterExpr {
    match terms.pop() {
        Some(only) if terms.is_empty() => only,
        last => {
            terms.extend(last);
            join(terms)
        }
    }
}

fn negation(input: &mut Input<'_>) -> Parsed<FilterExpr> {
    alt((
        preceded(("not", space), nested(negation)).map(|inner| FilterExpr::Not(Box::new(inner))),
        delimited(("(", space0), nested(disjunction), (space0, expecting("\")\"", ")"))),
        comparison,
    ))
    .parse_next(input)
}

fn each(input: &mut Input<'_>) -> Parsed<FilterExpr> {
    let all = alt(("any".value(false), "all".value(true)));
    let opened = (space0, expecting("\"{\"", "{"), space0);
    let closed = (space0, expecting("\"}\"", "}"));
    let (all, path, names, inner) = (
        terminated(all, space),
        terminated(selector, (space, expecting("\"as\"", "as"), space)),
        element_names,
        delimited(opened, nested(disjunction), closed),
    )
        .parse_next(input)?;
    Ok(FilterExpr::Each { all, path, names, inner: Box::new(inner) })
}

fn element_names(input: &mut Input<'_>) -> Parsed<Names> {
    let at = input.current_token_start();
    let blank = || '_'.value(None);
    let name = || identifier.map(Some);
    let comma = || (space0, ",", space0);
    let pair = alt((
        (terminated(name(), comma()), name()),
        (terminated(name(), comma()), blank()),
        (terminated(blank(), comma()), name()),
    ))
    .map(|(key, value)| Names { either: None, key, value });
    let one = name().map(|either| Names { either, ..Names::default() });
    let names: Names = expecting("a name", alt((pair, one))).parse_next(input)?;
    if names.key.is_some() && names.key == names.value {
        input.state.fatal(at, "index and value need different names");
        return Err(EmptyError);
    }
    Ok(names)
}

fn comparison(input: &mut Input<'_>) -> Parsed<FilterExpr> {
    let member_first = (selector, alt((value_test, bare_test)));
    let value_first = (value, delimited(space, opt_not, (operator("in"), space)), selector);
    alt((
        member_first.map(|(path, (negated, test))| FilterExpr::Match { path, test, negated }),
        value_first.map(|(text, negated, path)| FilterExpr::Match {
            path,
            test: Test::Contains(text),
            negated,
        }),
    ))
    .parse_next(input)
}

/// An operator that takes a value.
fn value_test(input: &mut Input<'_>) -> Parsed<(bool, Test)> {
    let sign = alt((operator("==").value(false), operator("!=").value(true)));
    let equals = (delimited(space0, sign, space0), value.map(Test::Equals));
    let contains = preceded((operator("contains"), space), value.map(Test::Contains));
    let matches = preceded((operator("matches"), space), pattern.map(Test::Matches));
    alt((equals, (preceded(space, opt_not), alt((contains, matches))))).parse_next(input)
}

/// `is [not] empty`, `is [not] nil`.
fn bare_test(input: &mut Input<'_>) -> Parsed<(bool, Test)> {
    let what = alt(("empty".value(Test::Empty), "nil".value(Test::Nil)));
    preceded((space, operator("is"), space), (opt_not, expecting("\"empty\", \"nil\" or \"not\"", what)))
        .parse_next(input)
}

fn opt_not(input: &mut Input<'_>) -> Parsed<bool> {
    opt(("not", space)).map(|not| not.is_some()).parse_next(input)
}

fn operator<'a>(text: &'static str) -> impl Parser<Input<'a>, &'a str, EmptyError> {
    expecting(OPERATOR, text)
}

/// `A.b["c"].0`, or `"/A/b/c/0"`.
fn selector(input: &mut Input<'_>) -> Parsed<Vec<String>> {
    let pointer =
        delimited('"', repeat(0.., pointer_part), '"').map(|parts: Vec<String>| match parts.len() {
            0 => vec![String::new()],
            _ => parts,
        });
    expecting("the name of a member", alt((dotted, pointer))).parse_next(input)
}

fn dotted(input: &mut Input<'_>) -> Parsed<Vec<String>> {
    let index = delimited(("[", space0), expecting("a string in quotes", string), (space0, "]"));
    let number = preceded('.', digit1).map(str::to_string);
    let (first, rest): (String, Vec<String>) =
        (identifier, repeat(0.., alt((preceded('.', identifier), index, number)))).parse_next(input)?;
    Ok([vec![first], rest].concat())
}

fn identifier(input: &mut Input<'_>) -> Parsed<String> {
    (
        one_of(|c: char| c.is_ascii_alphabetic()),
        take_while(0.., (|c: char| c.is_ascii_alphanumeric(), '_', '/')),
    )
        .take()
        .map(str::to_string)
        .parse_next(input)
}

fn pointer_part(input: &mut Input<'_>) -> Parsed<String> {
    let part = take_while(1.., (char::is_alphanumeric, '-', '_', '.', '~', ':', '|'));
    preceded('/', part).map(|text: &str| text.replace("~1", "/").replace("~0", "~")).parse_next(input)
}

/// Bare words, numbers and strings: the member that it is compared with decides the type.
fn value(input: &mut Input<'_>) -> Parsed<String> {
    expecting("a value", alt((dotted.map(|path| path.join(".")), number, string))).parse_next(input)
}

fn number(input: &mut Input<'_>) -> Parsed<String> {
    let whole = alt(("0".void(), (one_of('1'..='9'), take_while(0.., '0'..='9')).void()));
    let text = (opt('-'), whole, opt(('.', digit1))).take().map(str::to_string).parse_next(input)?;
    match input.input.chars().next() {
        None | Some(' ' | '\t' | '\r' | '\n' | ')') => Ok(text),
        Some(_) => Err(EmptyError),
    }
}

fn string(input: &mut Input<'_>) -> Parsed<String> {
    let at = input.current_token_start();
    let raw = delimited('`', take_till(0.., '`'), '`').map(|text: &str| Some(text.replace('\r', "")));
    let quoted = delimited('"', take_till(0.., '"'), '"').map(literal::unescape);
    match alt((raw, quoted)).parse_next(input)? {
        Some(text) => Ok(text),
        None => {
            let why = "a wrong escape in this string: what stands between backquotes is taken as it is";
            input.state.fatal(at, why);
            Err(EmptyError)
        }
    }
}

fn pattern(input: &mut Input<'_>) -> Parsed<Pattern> {
    let at = input.current_token_start();
    let text = value(input)?;
    match RegexBuilder::new(&text).size_limit(MAX_REGEX_BYTES).build() {
        Ok(regex) => Ok(Pattern { text, regex }),
        Err(why) => {
            input.state.fatal(at, format!("the regular expression {text:?} cannot be used: {why}"));
            Err(EmptyError)
        }
    }
}

fn space(input: &mut Input<'_>) -> Parsed<()> {
    take_while(1.., (' ', '\t', '\r', '\n')).void().parse_next(input)
}

fn space0(input: &mut Input<'_>) -> Parsed<()> {
    take_while(0.., (' ', '\t', '\r', '\n')).void().parse_next(input)
}

/// If `parser` fails, notes that `what` was expected there.
fn expecting<'a, T>(
    what: &'static str,
    mut parser: impl Parser<Input<'a>, T, EmptyError>,
) -> impl Parser<Input<'a>, T, EmptyError> {
    move |input: &mut Input<'a>| {
        let at = input.current_token_start();
        parser.parse_next(input).inspect_err(|_| input.state.missed(at, what))
    }
}

fn nested<'a, T>(mut parser: impl Parser<Input<'a>, T, EmptyError>) -> impl Parser<Input<'a>, T, EmptyError> {
    move |input: &mut Input<'a>| {
        if input.state.depth == MAX_DEPTH {
            let at = input.current_token_start();
            input.state.fatal(at, format!("the filter nests deeper than {MAX_DEPTH} levels"));
            return Err(EmptyError);
        }
        input.state.depth += 1;
        let parsed = parser.parse_next(input);
        input.state.depth -= 1;
        parsed
    }
}

impl ParseState {
    fn missed(&mut self, at: usize, what: &'static str) {
        if at > self.furthest {
            self.furthest = at;
            self.expected.clear();
        }
        if at == self.furthest {
            self.expected.insert(what);
        }
    }

    /// The first one counts.
    fn fatal(&mut self, at: usize, why: impl Into<String>) {
        self.fatal.get_or_insert_with(|| (at, why.into()));
    }
}
