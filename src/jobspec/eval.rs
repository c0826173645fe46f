//! Evaluates HCL expressions. A name that nothing binds is not an error: it stays as its own source text inside `${}`,
//! for the client to fill in at run time (jobspec.md 2.3.1).
//!
//! Refuses to know: files, randomness and time, which come in as values of `World`; and what the results are for.

use super::decimal;
use super::diagnostic::{Diagnostic, Source};
use super::functions::{self, World};
use super::hcl::Expr;
use super::json_syntax::{self, JsonNode};
use super::object_size::{self, Whole};
use super::operators;
use super::scope::{Scope, TooMuch};
use super::types::Type;
use bigdecimal::BigDecimal;
use hcl_edit::Span as _;
use hcl_edit::expr::{
    Array, Conditional, Expression, ForExpr, FuncCall, Object, ObjectKey, Traversal, TraversalOperator,
};
use serde_json::{Map, Value};
use std::ops::Range;

/// Why an expression has no value. `fatal`: nothing may be tried instead.
#[derive(Clone, Debug, PartialEq)]
pub struct ExprError {
    pub at: Range<usize>,
    pub summary: &'static str,
    pub detail: String,
    pub fatal: bool,
}

impl ExprError {
    pub fn new(at: Range<usize>, summary: &'static str, detail: impl Into<String>) -> Self {
        ExprError { at, summary, detail: detail.into(), fatal: false }
    }

    pub fn too_much(at: Range<usize>) -> Self {
        ExprError { at, summary: "Too much", detail: TooMuch::SENTENCE.into(), fatal: true }
    }
}

pub struct Evaluator<'a> {
    pub source: Source<'a>,
    pub world: World<'a>,
}

impl Evaluator<'_> {
    /// The value of an attribute.
    pub fn value(&self, expr: &Expr, scope: &Scope<'_>) -> Result<Value, Diagnostic> {
        let result = match expr {
            Expr::Hcl(e) => self.eval(e, scope),
            Expr::Json(node) => self.json(node, scope),
        };
        result.map_err(|f| Diagnostic::at(self.source, f.at, f.summary, f.detail))
    }

    /// Strings of the JSON syntax are templates.
    fn json(&self, node: &JsonNode, scope: &Scope<'_>) -> Result<Value, ExprError> {
        let text = |t: &str| self.json_text(t, node.at.clone(), scope);
        let value = match &node.kind {
            json_syntax::JsonKind::Null => Value::Null,
            json_syntax::JsonKind::Bool(b) => Value::Bool(*b),
            json_syntax::JsonKind::Number(n) => operators::whole(Value::Number(n.clone())),
            json_syntax::JsonKind::Text(t) => return text(t),
            json_syntax::JsonKind::List(items) => {
                Value::Array(items.iter().map(|n| self.json(n, scope)).collect::<Result<_, _>>()?)
            }
            json_syntax::JsonKind::Object(members) => {
                let mut out = Map::new();
                for (label, inner) in members {
                    let key = text(&label.text)?;
                    let key = operators::text(&key)
                        .map_err(|d| ExprError::new(label.at.clone(), "Invalid key", d))?;
                    out.insert(key, self.json(inner, scope)?);
                }
                Value::Object(out)
            }
        };
        self.spend(16, node.at.clone())?;
        Ok(value)
    }

    fn json_text(&self, text: &str, at: Range<usize>, scope: &Scope<'_>) -> Result<Value, ExprError> {
        if !text.contains("${") && !text.contains("%{") {
            self.spend(text.len() as u64, at)?;
            return Ok(Value::String(text.to_string()));
        }
        if object_size::too_large(text, Whole::Template).is_some() {
            return Err(ExprError::too_much(at));
        }
        let template = hcl_edit::parser::parse_template(text)
            .map_err(|e| ExprError::new(at.clone(), "Invalid template", e.message()))?;
        let inner = Evaluator { source: Source { name: self.source.name, text }, world: self.world };
        inner.template(&template, scope, at.clone()).map_err(|f| ExprError { at, ..f })
    }

    pub fn eval(&self, e: &Expression, scope: &Scope<'_>) -> Result<Value, ExprError> {
        let at = e.span().unwrap_or(0..0);
        let value = match e {
            Expression::Null(_) => Value::Null,
            Expression::Bool(b) => Value::Bool(*b.value()),
            Expression::Number(n) => operators::literal(n.value()),
            Expression::String(s) => {
                self.spend(s.len() as u64, at.clone())?;
                Value::String(s.value().clone())
            }
            Expression::Array(a) => self.array(a, scope)?,
            Expression::Object(o) => self.object(o, scope)?,
            Expression::StringTemplate(t) => return self.template(t, scope, at),
            Expression::HeredocTemplate(h) => return self.template(&h.template, scope, at),
            Expression::Parenthesis(p) => return self.eval(p.inner(), scope),
            Expression::Variable(name) => return self.variable(name.as_str(), scope, at),
            Expression::Conditional(c) => return self.conditional(c, scope),
            Expression::FuncCall(c) => return self.call(c, scope),
            Expression::Traversal(t) => return self.traversal(t, scope),
            Expression::UnaryOp(u) => {
                let inner = self.eval(&u.expr, scope)?;
                operators::unary(*u.operator.value(), &inner)
                    .map_err(|d| ExprError::new(at.clone(), INVALID_OPERAND, d))?
            }
            Expression::BinaryOp(b) if decimal::is_arithmetic(*b.operator.value()) => {
                let number = self.decimal(e, scope)?;
                decimal::value(&number).map_err(|d| ExprError::new(at.clone(), INVALID_OPERAND, d))?
            }
            Expression::BinaryOp(b) => {
                let (left, right) = (self.eval(&b.lhs_expr, scope)?, self.eval(&b.rhs_expr, scope)?);
                operators::binary(*b.operator.value(), &left, &right)
                    .map_err(|d| ExprError::new(at.clone(), INVALID_OPERAND, d))?
            }
            Expression::ForExpr(f) => self.for_expr(f, scope, at.clone())?,
        };
        self.spend(16, at)?;
        Ok(value)
    }

    /// The number that an expression gives, unrounded as long as it is made of arithmetic.
    fn decimal(&self, e: &Expression, scope: &Scope<'_>) -> Result<BigDecimal, ExprError> {
        let at = e.span().unwrap_or(0..0);
        let invalid = |d| ExprError::new(at.clone(), INVALID_OPERAND, d);
        match e {
            Expression::Parenthesis(p) => self.decimal(p.inner(), scope),
            Expression::BinaryOp(b) if decimal::is_arithmetic(*b.operator.value()) => {
                self.spend(16, at.clone())?;
                let (left, right) = (self.decimal(&b.lhs_expr, scope)?, self.decimal(&b.rhs_expr, scope)?);
                decimal::binary(*b.operator.value(), &left, &right).map_err(invalid)
            }
            other => decimal::of(&self.eval(other, scope)?).map_err(invalid),
        }
    }

    pub fn spend(&self, units: u64, at: Range<usize>) -> Result<(), ExprError> {
        self.world.budget.take(units).map_err(|TooMuch| ExprError::too_much(at))
    }

    /// Takes a copy, at its weight.
    pub fn copy(&self, value: &Value, at: Range<usize>) -> Result<Value, ExprError> {
        self.world.budget.weigh(value).map_err(|TooMuch| ExprError::too_much(at))?;
        Ok(value.clone())
    }

    fn variable(&self, name: &str, scope: &Scope<'_>, at: Range<usize>) -> Result<Value, ExprError> {
        match scope.get(name) {
            Some(value) => self.copy(value, at),
            None => Ok(self.kept(at)),
        }
    }

    /// The source text as a run-time interpolation.
    fn kept(&self, at: Range<usize>) -> Value {
        Value::String(format!("${{{}}}", self.source.text.get(at).unwrap_or_default().trim()))
    }

    /// True for an expression that stands for its own text: a name that nothing binds, or a path that starts with one.
    pub fn is_kept(&self, e: &Expression, scope: &Scope<'_>) -> bool {
        let root = match e {
            Expression::Traversal(t) => &t.expr,
            other => other,
        };
        matches!(root, Expression::Variable(name) if scope.get(name.as_str()).is_none())
    }

    fn array(&self, array: &Array, scope: &Scope<'_>) -> Result<Value, ExprError> {
        Ok(Value::Array(array.iter().map(|e| self.eval(e, scope)).collect::<Result<_, _>>()?))
    }

    fn object(&self, object: &Object, scope: &Scope<'_>) -> Result<Value, ExprError> {
        let mut out = Map::new();
        for (key, value) in object.iter() {
            let key = match key {
                ObjectKey::Ident(name) => name.as_str().to_string(),
                ObjectKey::Expression(e) => {
                    let at = e.span().unwrap_or(0..0);
                    operators::text(&self.eval(e, scope)?)
                        .map_err(|d| ExprError::new(at, "Invalid object key", d))?
                }
            };
            out.insert(key, self.eval(value.expr(), scope)?);
        }
        Ok(Value::Object(out))
    }

    /// Both sides are evaluated, because their types are made alike; only the chosen one may fail.
    fn conditional(&self, c: &Conditional, scope: &Scope<'_>) -> Result<Value, ExprError> {
        let at = c.cond_expr.span().unwrap_or(0..0);
        let cond = self.eval(&c.cond_expr, scope)?;
        let cond = operators::truth(&cond).map_err(|d| ExprError::new(at, "Incorrect condition type", d))?;
        let (chosen, other) =
            if cond { (&c.true_expr, &c.false_expr) } else { (&c.false_expr, &c.true_expr) };
        let value = self.eval(chosen, scope)?;
        match self.eval(other, scope) {
            Ok(Value::String(_)) if value.is_number() || value.is_boolean() => {
                Ok(operators::text(&value).map(Value::String).unwrap_or(value))
            }
            Err(f) if f.fatal => Err(f),
            Ok(_) | Err(_) => Ok(value),
        }
    }

    fn call(&self, call: &FuncCall, scope: &Scope<'_>) -> Result<Value, ExprError> {
        let name = call.name.name.as_str();
        let at = call.span().unwrap_or(0..0);
        match name {
            "try" => return self.first_that_works(call, scope, at),
            "can" if call.args.len() == 1 => {
                return match call.args.iter().next().map(|e| self.eval(e, scope)) {
                    Some(Err(f)) if f.fatal => Err(f),
                    Some(result) => Ok(Value::Bool(result.is_ok())),
                    None => Ok(Value::Bool(false)),
                };
            }
            "convert" if call.args.len() == 2 => return self.convert(call, scope, at),
            _ => {}
        }
        let mut args = call.args.iter().map(|e| self.eval(e, scope)).collect::<Result<Vec<_>, _>>()?;
        if call.args.expand_final() {
            match args.pop() {
                Some(Value::Array(items)) => args.extend(items),
                _ => {
                    return Err(ExprError::new(
                        at,
                        "Invalid expanding argument",
                        "the last argument must be a list",
                    ));
                }
            }
        }
        if call.name.is_namespaced() {
            return Err(ExprError::new(at, "Call to unknown function", "functions have no namespaces here"));
        }
        let value = functions::call(name, args, &self.world).map_err(|e| match e {
            functions::Error::Unknown(detail) => {
                ExprError::new(at.clone(), "Call to unknown function", detail)
            }
            functions::Error::Failed(detail) => {
                ExprError::new(at.clone(), "Error in function call", format!("{name}: {detail}"))
            }
            functions::Error::TooMuch => ExprError::too_much(at.clone()),
        })?;
        self.world.budget.weigh(&value).map_err(|TooMuch| ExprError::too_much(at))?;
        Ok(value)
    }

    /// The second argument is a type, not a value.
    fn convert(&self, call: &FuncCall, scope: &Scope<'_>, at: Range<usize>) -> Result<Value, ExprError> {
        let fail = |why| ExprError::new(at.clone(), "Error in function call", format!("convert: {why}"));
        match (call.args.get(0), call.args.get(1)) {
            (Some(value), Some(kind)) => {
                let kind = Type::read(kind).map_err(fail)?;
                kind.convert(self.eval(value, scope)?).map_err(fail)
            }
            _ => Err(fail("takes a value and a type".into())),
        }
    }

    fn first_that_works(
        &self,
        call: &FuncCall,
        scope: &Scope<'_>,
        at: Range<usize>,
    ) -> Result<Value, ExprError> {
        let mut last = ExprError::new(at, "Error in function call", "try: at least one argument is needed");
        for e in call.args.iter() {
            match self.eval(e, scope) {
                Err(f) if f.fatal => return Err(f),
                Err(f) => last = f,
                Ok(value) => return Ok(value),
            }
        }
        Err(last)
    }

    fn traversal(&self, t: &Traversal, scope: &Scope<'_>) -> Result<Value, ExprError> {
        let at = t.span().unwrap_or(0..0);
        let made;
        let root = match &t.expr {
            Expression::Variable(name) => match scope.get(name.as_str()) {
                Some(value) => value,
                None => return Ok(self.kept(at)),
            },
            other => {
                made = self.eval(other, scope)?;
                &made
            }
        };
        let operators: Vec<&TraversalOperator> = t.operators.iter().map(|o| o.value()).collect();
        self.walk(root, &operators, scope, at)
    }

    fn walk(
        &self,
        start: &Value,
        operators: &[&TraversalOperator],
        scope: &Scope<'_>,
        at: Range<usize>,
    ) -> Result<Value, ExprError> {
        let mut here = start;
        for (i, operator) in operators.iter().enumerate() {
            let (key, missing) = match operator {
                TraversalOperator::GetAttr(name) => {
                    (Value::String(name.as_str().to_string()), "Unsupported attribute")
                }
                TraversalOperator::Index(e) => (self.eval(e, scope)?, "Invalid index"),
                TraversalOperator::LegacyIndex(n) => (Value::from(*n.value()), "Invalid index"),
                TraversalOperator::FullSplat(_) => {
                    return self.splat(here, &operators[i + 1..], &[], scope, at);
                }
                TraversalOperator::AttrSplat(_) => {
                    let after = &operators[i + 1..];
                    let attrs =
                        after.iter().take_while(|o| matches!(o, TraversalOperator::GetAttr(_))).count();
                    return self.splat(here, &after[..attrs], &after[attrs..], scope, at);
                }
            };
            here = operators::index(here, &key).map_err(|d| ExprError::new(at.clone(), missing, d))?;
        }
        self.copy(here, at)
    }

    /// `each` is walked from every element, `after` from the list of what that gives. What is no list counts as a list
    /// of itself, null as an empty one.
    fn splat(
        &self,
        value: &Value,
        each: &[&TraversalOperator],
        after: &[&TraversalOperator],
        scope: &Scope<'_>,
        at: Range<usize>,
    ) -> Result<Value, ExprError> {
        let one = std::slice::from_ref(value);
        let items = match value {
            Value::Array(items) => items.as_slice(),
            Value::Null => &[],
            _ => one,
        };
        let list = items.iter().map(|v| self.walk(v, each, scope, at.clone())).collect::<Result<_, _>>()?;
        if after.is_empty() {
            Ok(Value::Array(list))
        } else {
            self.walk(&Value::Array(list), after, scope, at)
        }
    }

    fn for_expr(&self, f: &ForExpr, scope: &Scope<'_>, at: Range<usize>) -> Result<Value, ExprError> {
        let collection = self.eval(&f.intro.collection_expr, scope)?;
        let from = f.intro.collection_expr.span().unwrap_or(0..0);
        let pairs = operators::pairs(collection)
            .map_err(|d| ExprError::new(from, "Iteration over non-iterable value", d))?;
        let mut list = Vec::new();
        let mut map: Map<String, Value> = Map::new();
        for (key, value) in &pairs {
            self.spend(at.len() as u64, at.clone())?;
            let outer = match &f.intro.key_var {
                Some(name) => scope.with(name.as_str(), key),
                None => *scope,
            };
            let inner = outer.with(f.intro.value_var.as_str(), value);
            if let Some(cond) = &f.cond {
                let keep = self.eval(&cond.expr, &inner)?;
                if !operators::truth(&keep)
                    .map_err(|d| ExprError::new(at.clone(), "Invalid 'for' condition", d))?
                {
                    continue;
                }
            }
            let result = self.eval(&f.value_expr, &inner)?;
            let Some(key_expr) = &f.key_expr else {
                list.push(result);
                continue;
            };
            let key = operators::text(&self.eval(key_expr, &inner)?)
                .map_err(|d| ExprError::new(at.clone(), "Invalid object key", d))?;
            match (f.grouping, map.get_mut(&key)) {
                (true, Some(Value::Array(group))) => group.push(result),
                (true, _) => {
                    map.insert(key, Value::Array(vec![result]));
                }
                (false, None) => {
                    map.insert(key, result);
                }
                (false, Some(_)) => {
                    let detail =
                        format!("the key {key:?} comes twice; add ... after the value to group by key");
                    return Err(ExprError::new(at, "Duplicate object key", detail));
                }
            }
        }
        Ok(if f.key_expr.is_some() { Value::Object(map) } else { Value::Array(list) })
    }
}

const INVALID_OPERAND: &str = "Invalid operand";
