//! Soft conditions of a job as JSON.

use super::ConstraintShape;
use model::preference::{Affinity, Spread, SpreadTarget};
use serde::Serialize;

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct AffinityShape<'a> {
    #[serde(flatten)]
    condition: ConstraintShape<'a>,
    weight: i64,
}

impl<'a> AffinityShape<'a> {
    pub fn list(affinities: &'a [Affinity]) -> Option<Vec<AffinityShape<'a>>> {
        let one = |a: &'a Affinity| AffinityShape {
            condition: ConstraintShape::new(&a.condition),
            weight: a.weight,
        };
        (!affinities.is_empty()).then(|| affinities.iter().map(one).collect())
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct SpreadShape<'a> {
    attribute: &'a str,
    weight: i64,
    spread_target: Option<Vec<TargetShape<'a>>>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct TargetShape<'a> {
    value: &'a str,
    percent: i64,
}

impl<'a> SpreadShape<'a> {
    pub fn list(spreads: &'a [Spread]) -> Option<Vec<SpreadShape<'a>>> {
        let target = |t: &'a SpreadTarget| TargetShape { value: &t.value, percent: t.percent };
        let one = |s: &'a Spread| SpreadShape {
            attribute: &s.attribute,
            weight: s.weight,
            spread_target: (!s.targets.is_empty()).then(|| s.targets.iter().map(target).collect()),
        };
        (!spreads.is_empty()).then(|| spreads.iter().map(one).collect())
    }
}
