//! A call's arguments, taken by type.

use super::Error;
use crate::operators;
use crate::scope::{Budget, TooMuch};
use serde_json::{Map, Value};

/// Positions count from 0 here and from 1 in sentences.
pub struct Arguments<'a> {
    values: Vec<Value>,
    pub budget: &'a Budget,
}

pub type Outcome = Result<Value, Error>;

impl From<String> for Error {
    fn from(sentence: String) -> Self {
        Error::Failed(sentence)
    }
}

impl From<&str> for Error {
    fn from(sentence: &str) -> Self {
        Error::Failed(sentence.to_string())
    }
}

impl From<TooMuch> for Error {
    fn from(TooMuch: TooMuch) -> Self {
        Error::TooMuch
    }
}

impl<'a> Arguments<'a> {
    pub fn new(values: Vec<Value>, budget: &'a Budget) -> Self {
        Arguments { values, budget }
    }

    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Refuses any other number of arguments.
    pub fn exactly(&self, n: usize) -> Result<(), Error> {
        self.between(n, n)
    }

    pub fn between(&self, least: usize, most: usize) -> Result<(), Error> {
        if (least..=most).contains(&self.values.len()) {
            return Ok(());
        }
        let wanted = match (least, most) {
            (a, b) if a == b => format!("{a}"),
            (a, usize::MAX) => format!("at least {a}"),
            (a, b) => format!("{a} to {b}"),
        };
        Err(Error::Failed(format!("takes {wanted} arguments, {} given", self.values.len())))
    }

    pub fn get(&self, i: usize) -> &Value {
        self.values.get(i).unwrap_or(&Value::Null)
    }

    pub fn all(&self) -> &[Value] {
        &self.values
    }

    fn at<T>(&self, i: usize, result: Result<T, String>) -> Result<T, Error> {
        result.map_err(|why| Error::Failed(format!("argument {}: {why}", i + 1)))
    }

    pub fn text(&self, i: usize) -> Result<String, Error> {
        self.at(i, operators::text(self.get(i)))
    }

    pub fn int(&self, i: usize) -> Result<i64, Error> {
        self.at(i, operators::integer(self.get(i)))
    }

    /// A whole number that is not negative.
    pub fn count(&self, i: usize) -> Result<usize, Error> {
        let n = self.int(i)?;
        usize::try_from(n).map_err(|_| Error::Failed(format!("argument {}: {n} is negative", i + 1)))
    }

    pub fn float(&self, i: usize) -> Result<f64, Error> {
        self.at(i, operators::float(self.get(i)))
    }

    pub fn list(&self, i: usize) -> Result<&[Value], Error> {
        let found = match self.get(i) {
            Value::Array(items) => Ok(items.as_slice()),
            other => Err(format!("a list is required, this is {}", operators::kind(other))),
        };
        self.at(i, found)
    }

    pub fn texts(&self, i: usize) -> Result<Vec<String>, Error> {
        let texts = self.list(i)?.iter().map(operators::text).collect();
        self.at(i, texts)
    }

    pub fn object(&self, i: usize) -> Result<&Map<String, Value>, Error> {
        let found = match self.get(i) {
            Value::Object(members) => Ok(members),
            other => Err(format!("an object is required, this is {}", operators::kind(other))),
        };
        self.at(i, found)
    }
}

pub fn texts(items: impl IntoIterator<Item = String>) -> Value {
    Value::Array(items.into_iter().map(Value::String).collect())
}
