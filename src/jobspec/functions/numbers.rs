//! Functions of numbers.

use super::Error;
use super::arguments::{Arguments, Outcome};
use crate::operators::{self, number};
use serde_json::Value;
use std::cmp::Ordering;

pub fn call(name: &str, args: &Arguments<'_>) -> Option<Outcome> {
    Some(match name {
        "abs" => one(args, f64::abs),
        "ceil" => one(args, f64::ceil),
        "floor" => one(args, f64::floor),
        "signum" => one(args, |n| if n == 0.0 { 0.0 } else { n.signum() }),
        "log" => two(args, |n, base| n.ln() / base.ln()),
        "pow" => two(args, f64::powf),
        "max" => extreme(args, Ordering::Greater),
        "min" => extreme(args, Ordering::Less),
        "parseint" => parse_int(args),
        _ => return None,
    })
}

/// Whole numbers stay as they are where the function would change nothing.
fn one(args: &Arguments<'_>, f: impl Fn(f64) -> f64) -> Outcome {
    args.exactly(1)?;
    let n = args.float(0)?;
    let result = f(n);
    if result == n {
        return Ok(operators::numeric(args.get(0))?);
    }
    Ok(number(result)?)
}

fn two(args: &Arguments<'_>, f: impl Fn(f64, f64) -> f64) -> Outcome {
    args.exactly(2)?;
    Ok(number(f(args.float(0)?, args.float(1)?))?)
}

fn extreme(args: &Arguments<'_>, wanted: Ordering) -> Outcome {
    args.between(1, usize::MAX)?;
    let mut best = operators::numeric(args.get(0))?;
    for v in &args.all()[1..] {
        if operators::order(v, &best)? == wanted {
            best = operators::numeric(v)?;
        }
    }
    Ok(best)
}

fn parse_int(args: &Arguments<'_>) -> Outcome {
    args.exactly(2)?;
    let (text, base) = (args.text(0)?, args.int(1)?);
    if !(2..=36).contains(&base) {
        return Err(Error::Failed("the base is from 2 to 36".into()));
    }
    let parsed = i64::from_str_radix(&text, base as u32);
    parsed.map(Value::from).map_err(|_| Error::Failed(format!("{text:?} is no whole number in base {base}")))
}
