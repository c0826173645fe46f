//! What a text says, apart from its layout: the syntax tree without its blanks, line ends and remarks.
//!
//! Refuses to know: the tokens that the layout is made from, so that a mistake there is seen here.

use hcl_edit::expr::{Array, FuncArgs, Object};
use hcl_edit::structure::Body;
use hcl_edit::template::{ForDirective, IfDirective};
use hcl_edit::visit_mut::{self, VisitMut};

/// Comparing trees leaves most blanks out, but not those before a closing bracket.
pub fn of(mut body: Body) -> Body {
    Closings.visit_body_mut(&mut body);
    body
}

struct Closings;

impl VisitMut for Closings {
    fn visit_array_mut(&mut self, node: &mut Array) {
        node.set_trailing("");
        visit_mut::visit_array_mut(self, node);
    }

    fn visit_object_mut(&mut self, node: &mut Object) {
        node.set_trailing("");
        visit_mut::visit_object_mut(self, node);
    }

    fn visit_func_args_mut(&mut self, node: &mut FuncArgs) {
        node.set_trailing("");
        visit_mut::visit_func_args_mut(self, node);
    }

    fn visit_if_directive_mut(&mut self, node: &mut IfDirective) {
        node.if_expr.set_preamble("");
        if let Some(otherwise) = &mut node.else_expr {
            otherwise.set_preamble("");
            otherwise.set_trailing("");
        }
        node.endif_expr.set_preamble("");
        node.endif_expr.set_trailing("");
        visit_mut::visit_if_directive_mut(self, node);
    }

    fn visit_for_directive_mut(&mut self, node: &mut ForDirective) {
        node.for_expr.set_preamble("");
        node.endfor_expr.set_preamble("");
        node.endfor_expr.set_trailing("");
        visit_mut::visit_for_directive_mut(self, node);
    }
}
