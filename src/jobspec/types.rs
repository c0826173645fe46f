//! Type constraints of variables: read from their expression, and used to convert values.

use super::operators;
use hcl_edit::expr::{Expression, ObjectKey};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    Any,
    Text,
    Number,
    Bool,
    List(Box<Type>),
    Set(Box<Type>),
    Map(Box<Type>),
    Object(BTreeMap<String, Field>),
    Tuple(Vec<Type>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    pub kind: Type,
    pub optional: bool,
}

impl Type {
    /// From `string`, `list(number)`, `object({ a = bool })`, ...
    pub fn read(e: &Expression) -> Result<Type, String> {
        match e {
            Expression::Parenthesis(p) => Type::read(p.inner()),
            Expression::String(s) => Type::from_text(s.value()),
            Expression::Variable(name) => match name.as_str() {
                "string" => Ok(Type::Text),
                "number" => Ok(Type::Number),
                "bool" => Ok(Type::Bool),
                "any" => Ok(Type::Any),
                "list" => Ok(Type::List(Box::new(Type::Any))),
                "set" => Ok(Type::Set(Box::new(Type::Any))),
                "map" => Ok(Type::Map(Box::new(Type::Any))),
                _ => Err(UNKNOWN.into()),
            },
            Expression::FuncCall(call) => {
                let mut args = call.args.iter();
                let (Some(arg), None) = (args.next(), args.next()) else {
                    return Err("a type takes exactly one argument".into());
                };
                match call.name.name.as_str() {
                    "list" => Ok(Type::List(Box::new(Type::read(arg)?))),
                    "set" => Ok(Type::Set(Box::new(Type::read(arg)?))),
                    "map" => Ok(Type::Map(Box::new(Type::read(arg)?))),
                    "object" => Type::object(arg),
                    "tuple" => match arg {
                        Expression::Array(items) => {
                            Ok(Type::Tuple(items.iter().map(Type::read).collect::<Result<_, _>>()?))
                        }
                        _ => Err("tuple takes a list of types".into()),
                    },
                    _ => Err(UNKNOWN.into()),
                }
            }
            _ => Err(UNKNOWN.into()),
        }
    }

    /// From a text that is such an expression.
    pub fn from_text(text: &str) -> Result<Type, String> {
        const MAX_LENGTH: usize = 10_000;
        if text.len() > MAX_LENGTH {
            return Err(format!("a type has at most {MAX_LENGTH} characters"));
        }
        let inner: Expression = text.parse().map_err(|_| format!("{text:?} is no type"))?;
        if inner.is_str() { Err(UNKNOWN.into()) } else { Type::read(&inner) }
    }

    fn object(e: &Expression) -> Result<Type, String> {
        let Expression::Object(members) = e else {
            return Err("object takes names with types: object({ name = string })".into());
        };
        let mut fields = BTreeMap::new();
        for (key, value) in members.iter() {
            let name = match key {
                ObjectKey::Ident(name) => name.as_str().to_string(),
                ObjectKey::Expression(Expression::String(s)) => s.value().clone(),
                ObjectKey::Expression(_) => return Err("the names of an object type are plain names".into()),
            };
            let (inner, optional) = match value.expr() {
                Expression::FuncCall(c) if c.name.name.as_str() == "optional" => {
                    (c.args.iter().next().ok_or("optional takes a type")?, true)
                }
                other => (other, false),
            };
            fields.insert(name, Field { kind: Type::read(inner)?, optional });
        }
        Ok(Type::Object(fields))
    }

    /// The type of a default, where that is a simple one.
    pub fn of(v: &Value) -> Type {
        match v {
            Value::String(_) => Type::Text,
            Value::Number(_) => Type::Number,
            Value::Bool(_) => Type::Bool,
            Value::Null | Value::Array(_) | Value::Object(_) => Type::Any,
        }
    }

    /// The value as this type, by HCL's conversions. Null is of every type.
    pub fn convert(&self, v: Value) -> Result<Value, String> {
        if v.is_null() {
            return Ok(v);
        }
        match (self, v) {
            (Type::Any, v) => Ok(v),
            (Type::Text, v) => operators::text(&v).map(Value::String),
            (Type::Number, v) => operators::numeric(&v),
            (Type::Bool, v) => operators::truth(&v).map(Value::Bool),
            (Type::List(inner), Value::Array(items)) => each(inner, items),
            (Type::Set(inner), Value::Array(items)) => Ok(distinct_sorted(each(inner, items)?)),
            (Type::Map(inner), Value::Object(members)) => {
                let converted = members.into_iter().map(|(k, v)| {
                    let v = inner.convert(v).map_err(|e| format!("{k}: {e}"))?;
                    Ok::<_, String>((k, v))
                });
                Ok(Value::Object(converted.collect::<Result<_, _>>()?))
            }
            (Type::Object(fields), Value::Object(mut members)) => {
                let mut out = Map::new();
                for (name, field) in fields {
                    let v = match members.remove(name) {
                        Some(v) => field.kind.convert(v).map_err(|e| format!("{name}: {e}"))?,
                        None if field.optional => Value::Null,
                        None => return Err(format!("the member {name:?} is missing")),
                    };
                    out.insert(name.clone(), v);
                }
                Ok(Value::Object(out))
            }
            (Type::Tuple(kinds), Value::Array(items)) if kinds.len() == items.len() => {
                let converted = kinds.iter().zip(items).map(|(k, v)| k.convert(v));
                Ok(Value::Array(converted.collect::<Result<_, _>>()?))
            }
            (wanted, v) => Err(format!("{} is required, this is {}", wanted.name(), operators::kind(&v))),
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Type::Any => "any value",
            Type::Text => "a string",
            Type::Number => "a number",
            Type::Bool => "a bool",
            Type::List(_) | Type::Set(_) => "a list",
            Type::Map(_) | Type::Object(_) => "an object",
            Type::Tuple(_) => "a list of the declared length",
        }
    }
}

const UNKNOWN: &str =
    "known types are string, number, bool, any, list(T), set(T), map(T), object({...}) and tuple([...])";

fn each(inner: &Type, items: Vec<Value>) -> Result<Value, String> {
    let converted =
        items.into_iter().enumerate().map(|(i, v)| inner.convert(v).map_err(|e| format!("[{i}]: {e}")));
    Ok(Value::Array(converted.collect::<Result<_, _>>()?))
}

/// A set: each value once, in the order of their JSON text, except that numbers order by size.
pub fn distinct_sorted(list: Value) -> Value {
    let Value::Array(mut items) = list else { return list };
    items.sort_by_key(|v| (v.as_f64().map(ordered_bits), v.as_str().map(str::to_string), v.to_string()));
    items.dedup();
    Value::Array(items)
}

/// Bits that order as the numbers do.
fn ordered_bits(f: f64) -> u64 {
    let bits = f.to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn convert(kind: &str, v: Value) -> Result<Value, String> {
        Type::read(&kind.parse().unwrap())?.convert(v)
    }

    #[test]
    fn values_take_the_declared_type() {
        for (kind, v, expected) in [
            ("string", json!(5), json!("5")),
            ("number", json!("5"), json!(5)),
            ("bool", json!("true"), json!(true)),
            ("any", json!([1]), json!([1])),
            ("list(string)", json!([1, "a"]), json!(["1", "a"])),
            ("set(number)", json!([3, "-1", 3]), json!([-1, 3])),
            ("map(number)", json!({"a": "1"}), json!({"a": 1})),
            (
                "object({ a = string, b = optional(bool) })",
                json!({"a": 1, "c": 2}),
                json!({"a": "1", "b": null}),
            ),
            ("tuple([string, number])", json!([1, "2"]), json!(["1", 2])),
            ("string", json!(null), json!(null)),
        ] {
            assert_eq!(convert(kind, v), Ok(expected), "{kind}");
        }
        for (kind, v) in [
            ("number", json!("x")),
            ("list(string)", json!({})),
            ("object({ a = string })", json!({})),
            ("tuple([string])", json!([])),
            ("string", json!([])),
            ("strin", json!(1)),
            ("list(string, string)", json!([])),
            ("object(string)", json!({})),
        ] {
            assert!(convert(kind, v).is_err(), "{kind}");
        }
    }
}
