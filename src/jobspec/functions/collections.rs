//! Functions of lists and objects.

use super::Error;
use super::arguments::{Arguments, Outcome, texts};
use crate::operators;
use crate::types::distinct_sorted;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

pub fn call(name: &str, args: &Arguments<'_>) -> Option<Outcome> {
    Some(match name {
        "chunklist" => chunk_list(args),
        "coalesce" => coalesce(args),
        "coalescelist" => coalesce_list(args),
        "compact" => compact(args),
        "concat" => concat(args),
        "contains" => args.exactly(2).and_then(|()| Ok(Value::Bool(args.list(0)?.contains(args.get(1))))),
        "distinct" => distinct(args),
        "element" => element(args),
        "flatten" => flatten(args),
        "index" => args.exactly(2).and_then(|()| Ok(operators::index(args.get(0), args.get(1))?.clone())),
        "keys" => args.exactly(1).and_then(|()| Ok(texts(args.object(0)?.keys().cloned()))),
        "values" => {
            args.exactly(1).and_then(|()| Ok(Value::Array(args.object(0)?.values().cloned().collect())))
        }
        "length" => length(args),
        "lookup" => lookup(args),
        "merge" => merge(args),
        "range" => range(args),
        "reverse" => reverse(args),
        "setintersection" => set_intersection(args),
        "setunion" => set_union(args),
        "setproduct" => set_product(args),
        "slice" => slice(args),
        "sort" => sort(args),
        "zipmap" => zip_map(args),
        _ => return None,
    })
}

fn chunk_list(args: &Arguments<'_>) -> Outcome {
    args.exactly(2)?;
    let (list, size) = (args.list(0)?, args.count(1)?);
    let size = if size == 0 { list.len().max(1) } else { size };
    Ok(Value::Array(list.chunks(size).map(|c| Value::Array(c.to_vec())).collect()))
}

/// The first that is not null; an empty text is a value.
fn coalesce(args: &Arguments<'_>) -> Outcome {
    let found = args.all().iter().find(|v| !v.is_null());
    found.cloned().ok_or_else(|| "all arguments are null".into())
}

fn coalesce_list(args: &Arguments<'_>) -> Outcome {
    for i in 0..args.len() {
        if !args.list(i)?.is_empty() {
            return Ok(args.get(i).clone());
        }
    }
    Err("all lists are empty".into())
}

fn compact(args: &Arguments<'_>) -> Outcome {
    args.exactly(1)?;
    let items = args.list(0)?.iter().filter(|v| !v.is_null() && v.as_str() != Some(""));
    Ok(Value::Array(items.cloned().collect()))
}

fn concat(args: &Arguments<'_>) -> Outcome {
    args.between(1, usize::MAX)?;
    let mut out = Vec::new();
    for i in 0..args.len() {
        out.extend_from_slice(args.list(i)?);
    }
    Ok(Value::Array(out))
}

/// Values are compared by their JSON text: equal values have equal texts, since whole numbers are integers.
fn distinct(args: &Arguments<'_>) -> Outcome {
    args.exactly(1)?;
    let mut seen = BTreeSet::new();
    let items = args.list(0)?.iter().filter(|v| seen.insert(v.to_string()));
    Ok(Value::Array(items.cloned().collect()))
}

/// The index wraps around.
fn element(args: &Arguments<'_>) -> Outcome {
    args.exactly(2)?;
    let (list, i) = (args.list(0)?, args.int(1)?);
    let length = i64::try_from(list.len()).unwrap_or(i64::MAX);
    if length == 0 {
        return Err("the list is empty".into());
    }
    let at = usize::try_from(i.rem_euclid(length)).unwrap_or_default();
    Ok(list.get(at).cloned().unwrap_or_default())
}

fn flatten(args: &Arguments<'_>) -> Outcome {
    fn into(list: &[Value], out: &mut Vec<Value>) {
        for v in list {
            match v {
                Value::Array(inner) => into(inner, out),
                other => out.push(other.clone()),
            }
        }
    }
    args.exactly(1)?;
    let mut out = Vec::new();
    into(args.list(0)?, &mut out);
    Ok(Value::Array(out))
}

fn length(args: &Arguments<'_>) -> Outcome {
    args.exactly(1)?;
    match args.get(0) {
        Value::Array(items) => Ok(Value::from(items.len())),
        Value::Object(members) => Ok(Value::from(members.len())),
        other => Err(format!("a list or an object is required, this is {}", operators::kind(other)).into()),
    }
}

fn lookup(args: &Arguments<'_>) -> Outcome {
    args.exactly(3)?;
    let found = args.object(0)?.get(&args.text(1)?);
    Ok(found.unwrap_or(args.get(2)).clone())
}

fn merge(args: &Arguments<'_>) -> Outcome {
    let mut out = Map::new();
    for i in 0..args.len() {
        if !args.get(i).is_null() {
            out.extend(args.object(i)?.clone());
        }
    }
    Ok(Value::Object(out))
}

/// `range(limit)`, `range(start, limit)`, `range(start, limit, step)`.
fn range(args: &Arguments<'_>) -> Outcome {
    const MOST: usize = 1024;
    args.between(1, 3)?;
    let (start, limit) =
        if args.len() == 1 { (0.0, args.float(0)?) } else { (args.float(0)?, args.float(1)?) };
    let step = match args.len() {
        3 => args.float(2)?,
        _ if limit < start => -1.0,
        _ => 1.0,
    };
    if step == 0.0 || (step > 0.0 && limit < start) || (step < 0.0 && limit > start) {
        return Err("the step must lead from the start to the limit".into());
    }
    let mut out = Vec::new();
    let mut n = start;
    while (step > 0.0 && n < limit) || (step < 0.0 && n > limit) {
        if out.len() == MOST {
            return Err(format!("more than {MOST} values").into());
        }
        out.push(operators::number(n)?);
        n += step;
    }
    Ok(Value::Array(out))
}

/// Reverses a text; a list is refused, as measured there.
fn reverse(args: &Arguments<'_>) -> Outcome {
    args.exactly(1)?;
    Ok(Value::String(args.text(0)?.chars().rev().collect()))
}

fn set_intersection(args: &Arguments<'_>) -> Outcome {
    args.between(1, usize::MAX)?;
    let mut out = args.list(0)?.to_vec();
    for i in 1..args.len() {
        let other: BTreeSet<String> = args.list(i)?.iter().map(Value::to_string).collect();
        out.retain(|v| other.contains(&v.to_string()));
    }
    Ok(distinct_sorted(Value::Array(out)))
}

fn set_union(args: &Arguments<'_>) -> Outcome {
    concat(args).map(distinct_sorted)
}

fn set_product(args: &Arguments<'_>) -> Outcome {
    args.between(2, usize::MAX)?;
    let mut rows: Vec<Vec<Value>> = vec![vec![]];
    for i in 0..args.len() {
        let list = args.list(i)?;
        args.budget.take(
            (rows.len() as u64).saturating_mul(list.len() as u64).saturating_mul(16 * (i as u64 + 1)),
        )?;
        let mut next = Vec::with_capacity(rows.len() * list.len());
        for row in &rows {
            for v in list {
                args.budget.weigh(v)?;
                let mut longer = row.clone();
                longer.push(v.clone());
                next.push(longer);
            }
        }
        rows = next;
    }
    Ok(Value::Array(rows.into_iter().map(Value::Array).collect()))
}

fn slice(args: &Arguments<'_>) -> Outcome {
    args.exactly(3)?;
    let list = args.list(0)?;
    let (from, to) = (args.count(1)?, args.count(2)?);
    let part = list.get(from..to);
    part.map(|p| Value::Array(p.to_vec())).ok_or_else(|| {
        Error::Failed(format!("there is no part from {from} to {to} in a list of {}", list.len()))
    })
}

fn sort(args: &Arguments<'_>) -> Outcome {
    args.exactly(1)?;
    let mut items = args.texts(0)?;
    items.sort();
    Ok(texts(items))
}

fn zip_map(args: &Arguments<'_>) -> Outcome {
    args.exactly(2)?;
    let (keys, values) = (args.texts(0)?, args.list(1)?);
    if keys.len() != values.len() {
        return Err(format!("{} keys, but {} values", keys.len(), values.len()).into());
    }
    Ok(Value::Object(keys.into_iter().zip(values.iter().cloned()).collect()))
}
