//! Arithmetic as HCL does it: on decimal numbers of 512 bits, so that `0.1 + 0.2` is `0.3` (decision 0062). Between
//! expressions a value is a JSON number; within one, nothing is rounded to binary.
//!
//! Refuses to know: expressions, and how numbers are shown.

use super::operators;
use bigdecimal::{BigDecimal, RoundingMode, ToPrimitive, Zero};
use hcl_edit::expr::BinaryOperator as Op;
use serde_json::Value;
use std::num::NonZeroU64;

/// As many decimal digits as 512 bits hold.
const DIGITS: NonZeroU64 = NonZeroU64::new(154).expect("it is not zero");
/// Powers of ten beyond which no JSON number lies: larger ones are refused, smaller ones are zero.
const LARGEST: i64 = 310;
const SMALLEST: i64 = -400;

pub fn is_arithmetic(operator: Op) -> bool {
    matches!(operator, Op::Plus | Op::Minus | Op::Mul | Op::Div | Op::Mod)
}

/// A number, or a text that is one, digit by digit as it is written.
pub fn of(value: &Value) -> Result<BigDecimal, String> {
    let number = operators::numeric(value)?;
    number.to_string().parse().map_err(|_| "a number is required".to_string())
}

pub fn value(decimal: &BigDecimal) -> Result<Value, String> {
    if let Some(whole) = decimal.to_i64().filter(|_| decimal.is_integer()) {
        return Ok(Value::from(whole));
    }
    let nearest: f64 = format!("{decimal:e}").parse().map_err(|_| TOO_LARGE.to_string())?;
    operators::number(nearest)
}

const TOO_LARGE: &str = "the result is not a finite number";

pub fn binary(operator: Op, a: &BigDecimal, b: &BigDecimal) -> Result<BigDecimal, String> {
    if matches!(operator, Op::Div | Op::Mod) && b.is_zero() {
        return Err("division by zero".into());
    }
    bounded(match operator {
        Op::Plus => a + b,
        Op::Minus => a - b,
        Op::Mul => a * b,
        Op::Div => divided(a, b),
        Op::Mod => a % b,
        _ => return Err("it is no arithmetic".into()),
    })
}

/// To more digits than are kept: the crate divides to 100.
fn divided(a: &BigDecimal, b: &BigDecimal) -> BigDecimal {
    let quotient = a / b;
    let rest = a - &quotient * b;
    quotient + rest / b
}

fn bounded(decimal: BigDecimal) -> Result<BigDecimal, String> {
    let magnitude = decimal.digits() as i64 - decimal.fractional_digit_count();
    if magnitude > LARGEST {
        return Err(TOO_LARGE.into());
    }
    if magnitude < SMALLEST {
        return Ok(BigDecimal::zero());
    }
    Ok(decimal.with_precision_round(DIGITS, RoundingMode::HalfEven))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn done(operator: Op, a: Value, b: Value) -> Result<Value, String> {
        value(&binary(operator, &of(&a)?, &of(&b)?)?)
    }

    #[test]
    fn numbers_are_decimal() {
        for (operator, a, b, expected) in [
            (Op::Plus, json!(0.1), json!(0.2), json!(0.3)),
            (Op::Minus, json!(0.3), json!("0.1"), json!(0.2)),
            (Op::Mul, json!(1.1), json!(1.1), json!(1.21)),
            (Op::Mul, json!(0.5), json!(4), json!(2)),
            (Op::Div, json!(7), json!(2), json!(3.5)),
            (Op::Div, json!(6), json!(2), json!(3)),
            (Op::Div, json!(1), json!(3), json!(1.0 / 3.0)),
            (Op::Mod, json!(7), json!(-4), json!(3)),
            (Op::Mod, json!(0.3), json!(0.1), json!(0)),
            (Op::Plus, json!(i64::MAX), json!(0), json!(i64::MAX)),
            (Op::Mul, json!(i64::MAX), json!(2), json!(1.8446744073709552e19)),
            (Op::Plus, json!(1e300), json!(1e-300), json!(1e300)),
            (Op::Mul, json!(1e-300), json!(1e-300), json!(0)),
        ] {
            assert_eq!(done(operator, a.clone(), b.clone()), Ok(expected), "{a} {operator:?} {b}");
        }
        for (operator, a, b) in [
            (Op::Div, json!(1), json!(0)),
            (Op::Mod, json!(1), json!(0)),
            (Op::Plus, json!("x"), json!(1)),
            (Op::Mul, json!(1e300), json!(1e300)),
        ] {
            assert!(done(operator, a, b).is_err());
        }
    }

    #[test]
    fn a_third_times_three_is_one() {
        let third = binary(Op::Div, &of(&json!(1)).unwrap(), &of(&json!(3)).unwrap()).unwrap();
        assert_eq!(third.digits(), DIGITS.get());
        let one = binary(Op::Mul, &third, &of(&json!(3)).unwrap()).unwrap();
        assert_eq!(value(&one), Ok(json!(1)));
    }
}
