//! The table: samples by figure, in the order in which figures first came; the median of each against its target.

use std::fmt;

/// What a figure should be at most or at least.
#[derive(Clone, Copy, Debug)]
pub enum Target {
    AtMost(f64),
    AtLeast(f64),
    /// Shown for comparison.
    None,
}

#[derive(Debug)]
struct Row {
    name: &'static str,
    unit: &'static str,
    target: Target,
    samples: Vec<f64>,
}

#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<Row>,
    notes: Vec<String>,
}

impl Table {
    pub fn add(&mut self, name: &'static str, unit: &'static str, target: Target, sample: f64) {
        match self.rows.iter_mut().find(|row| row.name == name) {
            Some(row) => row.samples.push(sample),
            None => self.rows.push(Row { name, unit, target, samples: vec![sample] }),
        }
    }

    pub fn note(&mut self, text: String) {
        self.notes.push(text);
    }

    pub fn all_met(&self) -> bool {
        self.rows.iter().all(|row| row.is_met() != Some(false))
    }
}

impl Row {
    /// The middle one; of an even number the mean of the middle two.
    fn median(&self) -> f64 {
        let mut sorted = self.samples.clone();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        if n % 2 == 1 { sorted[n / 2] } else { (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0 }
    }

    fn is_met(&self) -> Option<bool> {
        match self.target {
            Target::AtMost(limit) => Some(self.median() <= limit),
            Target::AtLeast(limit) => Some(self.median() >= limit),
            Target::None => None,
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for note in &self.notes {
            writeln!(f, "{note}")?;
        }
        let head = ["figure", "target", "median", "unit", "least", "most", "n", ""];
        let rows = self.rows.iter().map(cells);
        let all: Vec<[String; 8]> = std::iter::once(head.map(String::from)).chain(rows).collect();
        let width = |column: usize| all.iter().map(|cells| cells[column].len()).max().unwrap_or(0);
        for cells in &all {
            write!(f, "{:<w$}", cells[0], w = width(0))?;
            for column in [1, 2] {
                write!(f, "  {:>w$}", cells[column], w = width(column))?;
            }
            write!(f, "  {:<w$}", cells[3], w = width(3))?;
            for column in [4, 5, 6] {
                write!(f, "  {:>w$}", cells[column], w = width(column))?;
            }
            writeln!(f, "  {}", cells[7])?;
        }
        Ok(())
    }
}

fn cells(row: &Row) -> [String; 8] {
    let target = match row.target {
        Target::AtMost(limit) => format!("<= {limit}"),
        Target::AtLeast(limit) => format!(">= {limit}"),
        Target::None => String::new(),
    };
    let least = row.samples.iter().copied().fold(f64::INFINITY, f64::min);
    let most = row.samples.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let verdict = match row.is_met() {
        Some(true) => "ok",
        Some(false) => "MISSED",
        None => "",
    };
    [
        row.name.to_string(),
        target,
        shown(row.median()),
        row.unit.to_string(),
        shown(least),
        shown(most),
        row.samples.len().to_string(),
        verdict.to_string(),
    ]
}

/// Three digits that mean something.
fn shown(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}
