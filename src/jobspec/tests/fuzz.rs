//! No text and no JSON makes the reader panic, hang or overflow: seeded mutations of the samples.

use super::samples::SAMPLES;
use super::*;
use crate::jobspec::{decode_job, decode_register, duration, render};

/// xorshift64*; the constant is its author's.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        usize::try_from(high).unwrap_or_default() % below.max(1)
    }
}

const PIECES: [&str; 28] = [
    "{",
    "}",
    "\"",
    "${",
    "%{",
    "}",
    "[",
    "]",
    "(",
    ")",
    "=",
    "\n",
    "<<EOF\n",
    "~}",
    "dynamic ",
    "for x in ",
    "...",
    "*",
    ".",
    ",",
    "null",
    "-",
    "9999999999999999999999",
    "é",
    "\\u",
    "var.",
    "local.",
    "1e400",
];

fn mutate(text: &str, dice: &mut Dice) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for _ in 0..=dice.roll(4) {
        let at = dice.roll(chars.len() + 1);
        match dice.roll(4) {
            0 => {
                let end = (at + dice.roll(12)).min(chars.len());
                chars.drain(at..end);
            }
            1 => {
                let piece: Vec<char> = PIECES[dice.roll(PIECES.len())].chars().collect();
                chars.splice(at..at, piece);
            }
            2 => {
                let end = (at + dice.roll(40)).min(chars.len());
                let copy = chars[at..end].to_vec();
                let to = dice.roll(chars.len() + 1);
                chars.splice(to..to, copy);
            }
            _ => {
                let i = dice.roll(chars.len());
                let j = dice.roll(chars.len());
                if i < chars.len() && j < chars.len() {
                    chars.swap(i, j);
                }
            }
        }
    }
    chars.into_iter().collect()
}

/// Changes one value somewhere in a JSON tree.
fn disturb(v: &mut Value, dice: &mut Dice) {
    let inner = match v {
        Value::Object(m) if !m.is_empty() => {
            let i = dice.roll(m.len());
            m.values_mut().nth(i)
        }
        Value::Array(l) if !l.is_empty() => {
            let i = dice.roll(l.len());
            l.get_mut(i)
        }
        _ => None,
    };
    match inner {
        Some(inner) if dice.roll(5) > 0 => disturb(inner, dice),
        _ => {
            let others = [
                Value::Null,
                Value::from(i64::MIN),
                Value::from(u64::MAX),
                Value::from(-1.5),
                Value::from("${"),
                Value::from(""),
                serde_json::json!([{}]),
                serde_json::json!({"Name": [1]}),
                Value::from(true),
            ];
            *v = others[dice.roll(others.len())].clone();
        }
    }
}

#[test]
fn mutated_job_files_are_read_or_refused() {
    let mut dice = Dice(0x5EED);
    let (mut good, mut bad) = (0, 0);
    for round in 0..1500 {
        let text = mutate(SAMPLES[round % SAMPLES.len()], &mut dice);
        let parsed = read(&text);
        match parsed.job {
            Some(job) => {
                good += 1;
                let _ = decode_job(&job).map_err(|e| e.to_string());
            }
            None => {
                bad += 1;
                assert_ne!(render(&parsed.diagnostics), "", "{text}");
            }
        }
    }
    assert!(good > 50 && bad > 50, "{good} {bad}");
}

#[test]
fn mutated_jobs_are_taken_or_refused() {
    let mut dice = Dice(0xD1CE);
    let jobs: Vec<Value> = SAMPLES.iter().map(|s| job(s)).collect();
    let (mut good, mut bad) = (0, 0);
    for round in 0..5000 {
        let mut request =
            serde_json::json!({"Job": jobs[round % jobs.len()], "EnforceIndex": true, "JobModifyIndex": 3});
        disturb(&mut request, &mut dice);
        match decode_register(request.to_string().as_bytes()) {
            Ok(register) => {
                good += 1;
                let _ = crate::model::validate::validate(&register.spec, &Default::default());
            }
            Err(refused) => {
                bad += 1;
                assert!(!refused.to_string().is_empty() && !refused.problems().is_empty());
            }
        }
    }
    assert!(good > 50 && bad > 50, "{good} {bad}");
}

#[test]
fn any_text_is_a_duration_or_not() {
    let mut dice = Dice(7);
    for _ in 0..5000 {
        let text = mutate("1h30m5.25s", &mut dice);
        if let Ok(span) = duration::parse(&text) {
            assert_eq!(duration::parse(&span.to_string()), Ok(span), "{text}");
        }
    }
}

/// What the parser lets through at its own limits must not overflow the stack later on.
#[test]
fn the_deepest_allowed_nesting_is_evaluated() {
    for depth in [50, 61, 62, 63, 64, 65] {
        for (open, middle, close) in [
            ("[", "1", "]"),
            ("(", "1", ")"),
            ("{ a = ", "1", " }"),
            ("\"${", "\"x\"", "}\""),
            ("[for x in [1]: ", "1", "]"),
            ("flatten([", "1", "])"),
            ("!", "true", ""),
            ("true ? 1 : ", "1", ""),
        ] {
            let sum = vec!["1"; 128].join(" + ");
            for middle in [middle, sum.as_str()] {
                let value = format!("{}{middle}{}", open.repeat(depth), close.repeat(depth));
                let text = format!(
                    "locals {{\n a = {value}\n}}\njob \"x\" {{\n group \"g\" {{\n task \"t\" {{}}\n}}\n}}\n"
                );
                let parsed = read(&text);
                assert_eq!(parsed.job.is_none(), !parsed.diagnostics.is_empty());
            }
        }
        let (open, close) = ("x {\n".repeat(depth), "}\n".repeat(depth));
        let blocks = format!("job \"x\" {{\n task \"t\" {{\n config {{\n{open}a = 1\n{close}\n}}\n}}\n}}\n");
        let parsed = read(&blocks);
        assert_eq!(parsed.job.is_none(), !parsed.diagnostics.is_empty());
    }
    for open in ["[", "{\n", "(", "\"${", "x {\n"] {
        assert!(read(&format!("job \"x\" {{\n a = {}", open.repeat(100_000))).job.is_none());
    }
}
