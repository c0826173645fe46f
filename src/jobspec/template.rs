//! Evaluates templates: quoted strings and heredocs with `${}` and `%{}` in them.

use super::eval::{Evaluator, ExprError};
use super::operators;
use super::scope::Scope;
use hcl_edit::Span as _;
use hcl_edit::template::{Directive, Element, ForDirective, IfDirective, Interpolation, Template};
use serde_json::Value;
use std::ops::Range;

/// Whether white space next to the marker before and after a template goes.
#[derive(Clone, Copy, Default)]
struct Trim {
    start: bool,
    end: bool,
}

impl Evaluator<'_> {
    /// A template of one interpolation alone has that expression's value; any other is text.
    pub fn template(&self, t: &Template, scope: &Scope<'_>, at: Range<usize>) -> Result<Value, ExprError> {
        if let (1, Some(Element::Interpolation(i))) = (t.len(), t.get(0)) {
            return if self.is_kept(&i.expr, scope) {
                Ok(Value::String(self.kept_interpolation(i)))
            } else {
                self.eval(&i.expr, scope)
            };
        }
        let mut out = String::new();
        self.write(t, scope, Trim::default(), &mut out)?;
        self.spend(out.len() as u64, at)?;
        Ok(Value::String(out))
    }

    /// Exactly as in the source, blanks included.
    fn kept_interpolation(&self, i: &Interpolation) -> String {
        let span = i.span().unwrap_or(0..0);
        let text = self.source.text.get(span).unwrap_or_default();
        let inner = text.strip_prefix("${").and_then(|t| t.strip_suffix('}')).unwrap_or(text);
        let inner = inner.strip_prefix('~').unwrap_or(inner);
        format!("${{{}}}", inner.strip_suffix('~').unwrap_or(inner))
    }

    fn write(&self, t: &Template, scope: &Scope<'_>, trim: Trim, out: &mut String) -> Result<(), ExprError> {
        let elements: Vec<&Element> = t.iter().collect();
        for (i, element) in elements.iter().enumerate() {
            match element {
                Element::Literal(text) => {
                    let after_marker = match i.checked_sub(1) {
                        Some(before) => strips(elements[before]).end,
                        None => trim.start,
                    };
                    let before_marker = match elements.get(i + 1) {
                        Some(next) => strips(next).start,
                        None => trim.end,
                    };
                    let mut text: &str = text.value();
                    if after_marker {
                        text = text.trim_start();
                    }
                    if before_marker {
                        text = text.trim_end();
                    }
                    self.spend(text.len() as u64, element.span().unwrap_or(0..0))?;
                    out.push_str(text);
                }
                Element::Interpolation(inner) => out.push_str(&self.interpolated(inner, scope)?),
                Element::Directive(d) => match d.as_ref() {
                    Directive::If(d) => self.write_if(d, scope, out)?,
                    Directive::For(d) => self.write_for(d, scope, out)?,
                },
            }
        }
        Ok(())
    }

    fn interpolated(&self, i: &Interpolation, scope: &Scope<'_>) -> Result<String, ExprError> {
        if self.is_kept(&i.expr, scope) {
            return Ok(self.kept_interpolation(i));
        }
        let value = self.eval(&i.expr, scope)?;
        let at = i.expr.span().unwrap_or(0..0);
        operators::text(&value).map_err(|d| ExprError::new(at, "Invalid template interpolation value", d))
    }

    fn write_if(&self, d: &IfDirective, scope: &Scope<'_>, out: &mut String) -> Result<(), ExprError> {
        let at = d.if_expr.cond_expr.span().unwrap_or(0..0);
        let cond = self.eval(&d.if_expr.cond_expr, scope)?;
        let end = d.endif_expr.strip.strip_start();
        if operators::truth(&cond).map_err(|e| ExprError::new(at, "Incorrect condition type", e))? {
            let end = d.else_expr.as_ref().map_or(end, |e| e.strip.strip_start());
            self.write(&d.if_expr.template, scope, Trim { start: d.if_expr.strip.strip_end(), end }, out)
        } else if let Some(otherwise) = &d.else_expr {
            self.write(&otherwise.template, scope, Trim { start: otherwise.strip.strip_end(), end }, out)
        } else {
            Ok(())
        }
    }

    fn write_for(&self, d: &ForDirective, scope: &Scope<'_>, out: &mut String) -> Result<(), ExprError> {
        let f = &d.for_expr;
        let at = f.collection_expr.span().unwrap_or(0..0);
        let collection = self.eval(&f.collection_expr, scope)?;
        let pairs = operators::pairs(collection)
            .map_err(|e| ExprError::new(at.clone(), "Iteration over non-iterable value", e))?;
        let trim = Trim { start: f.strip.strip_end(), end: d.endfor_expr.strip.strip_start() };
        let weight = f.template.span().map_or(16, |s| s.len() as u64 + 16);
        for (key, value) in &pairs {
            self.spend(weight, at.clone())?;
            let outer = match &f.key_var {
                Some(name) => scope.with(name.as_str(), key),
                None => *scope,
            };
            self.write(&f.template, &outer.with(f.value_var.as_str(), value), trim, out)?;
        }
        Ok(())
    }
}

/// Which neighbours of an element lose their white space: the literal before it (`start`), the one after it (`end`).
fn strips(element: &Element) -> Trim {
    let (first, last) = match element {
        Element::Literal(_) => return Trim::default(),
        Element::Interpolation(i) => (i.strip, i.strip),
        Element::Directive(d) => match d.as_ref() {
            Directive::If(d) => (d.if_expr.strip, d.endif_expr.strip),
            Directive::For(d) => (d.for_expr.strip, d.endfor_expr.strip),
        },
    };
    Trim { start: first.strip_start(), end: last.strip_end() }
}
