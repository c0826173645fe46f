//! Devices as they are asked for: by vendor, type and name, by constraints on their attributes, and by affinity
//! (scheduler.md 14.8, scheduler.md 16.2). Numbers with units are compared in the base of their unit.
//!
//! Refuses to know: which device is whose, and what nodes there are.

use super::operand::ConstraintChecker;
use model::claims::{Claim, DeviceAsk, DeviceAttribute, DeviceGroup, DeviceValue, device_claim};
use model::constraint::Constraint;
use std::cmp::Ordering;

const IDS: &str = "${device.ids}";

pub struct DeviceRequest<'a> {
    ask: &'a DeviceAsk,
}

impl<'a> DeviceRequest<'a> {
    pub fn new(ask: &'a DeviceAsk) -> Self {
        DeviceRequest { ask }
    }

    pub fn count(&self) -> usize {
        usize::try_from(self.ask.count).unwrap_or(0)
    }

    /// Whether the group is of the name and meets every condition that all of its instances share.
    pub fn matches(&self, group: &DeviceGroup, operands: &mut ConstraintChecker) -> bool {
        let (vendor, kind, name) = self.ask.parts();
        kind == group.kind
            && vendor.is_none_or(|v| v == group.vendor)
            && name.is_none_or(|n| n == group.name)
            && self.ask.constraints.iter().filter(|c| !of_ids(c)).all(|c| holds(c, group, operands))
    }

    /// The healthy instances whose ids meet the conditions on ids.
    pub fn instances(&self, group: &DeviceGroup, operands: &mut ConstraintChecker) -> Vec<usize> {
        let mut allowed = |id: &str| {
            let of_ids = self.ask.constraints.iter().filter(|c| of_ids(c));
            of_ids
                .into_iter()
                .all(|c| operands.holds(&c.operand, Some(side(&c.left, id)), Some(side(&c.right, id))))
        };
        let healthy = group.instances.iter().enumerate().filter(|(_, instance)| instance.healthy);
        healthy.filter(|(_, instance)| allowed(&instance.id)).map(|(at, _)| at).collect()
    }

    /// Whether one of the groups has enough.
    pub fn has_enough(&self, groups: &[DeviceGroup], operands: &mut ConstraintChecker) -> bool {
        groups.iter().any(|g| self.matches(g, operands) && self.instances(g, operands).len() >= self.count())
    }

    /// The weights of the affinities that the group meets.
    pub fn preference(&self, group: &DeviceGroup, operands: &mut ConstraintChecker) -> i64 {
        let met = self.ask.affinities.iter().filter(|a| holds(&a.condition, group, operands));
        met.map(|a| a.weight).sum()
    }

    pub fn weights(&self) -> i64 {
        self.ask.affinities.iter().map(|a| a.weight.abs()).sum()
    }
}

pub fn claim(group: &DeviceGroup, id: &str) -> Claim {
    device_claim(&group.vendor, &group.kind, &group.name, id)
}

fn of_ids(c: &Constraint) -> bool {
    c.left == IDS || c.right == IDS
}

fn side<'s>(text: &'s str, id: &'s str) -> &'s str {
    if text == IDS { id } else { text }
}

fn holds(c: &Constraint, group: &DeviceGroup, operands: &mut ConstraintChecker) -> bool {
    let (left, right) = (ConditionSide::of(&c.left, group), ConditionSide::of(&c.right, group));
    if let (Some(l), Some(r)) = (&left, &right)
        && let Some(wanted) = ordering(&c.operand)
    {
        return l.compare(r).is_some_and(wanted);
    }
    let text = |side: Option<ConditionSide>| side.map(|k| k.text);
    operands.holds(&c.operand, text(left).as_deref(), text(right).as_deref())
}

fn ordering(operand: &str) -> Option<fn(Ordering) -> bool> {
    Some(match operand {
        "=" | "==" | "is" => Ordering::is_eq,
        "!=" | "not" => Ordering::is_ne,
        "<" => Ordering::is_lt,
        "<=" => Ordering::is_le,
        ">" => Ordering::is_gt,
        ">=" => Ordering::is_ge,
        _ => return None,
    })
}

/// One side of a condition: its text, and its number in the base of its unit.
struct ConditionSide {
    text: String,
    amount: Option<(f64, &'static str)>,
}

impl ConditionSide {
    /// None: the group has nothing of the name.
    fn of(text: &str, group: &DeviceGroup) -> Option<ConditionSide> {
        let Some(inner) = text.strip_prefix("${").and_then(|t| t.strip_suffix('}')) else {
            return Some(ConditionSide { text: text.to_string(), amount: amount(text) });
        };
        let plain = |text: &str| Some(ConditionSide { text: text.to_string(), amount: None });
        match inner {
            "device.vendor" => plain(&group.vendor),
            "device.type" => plain(&group.kind),
            "device.model" => plain(&group.name),
            _ => group.attributes.get(inner.strip_prefix("device.attr.")?).map(ConditionSide::attribute),
        }
    }

    fn attribute(a: &DeviceAttribute) -> ConditionSide {
        let text = match &a.value {
            DeviceValue::Int(i) => i.to_string(),
            DeviceValue::Float(f) => f.to_string(),
            DeviceValue::Bool(b) => b.to_string(),
            DeviceValue::Text(t) => return ConditionSide { text: t.clone(), amount: None },
        };
        let text = format!("{text} {}", a.unit).trim_end().to_string();
        ConditionSide { amount: amount(&text), text }
    }

    /// None: their units do not compare, such as memory and time.
    fn compare(&self, other: &ConditionSide) -> Option<Ordering> {
        match (self.amount, other.amount) {
            (Some((l, a)), Some((r, b))) => (a == b).then(|| l.total_cmp(&r)),
            _ => Some(self.text.cmp(&other.text)),
        }
    }
}

/// `11 GiB` as a number of bytes. None: no number, or of a unit that nobody knows.
fn amount(text: &str) -> Option<(f64, &'static str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | '-')).unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    let unit = text[end..].trim();
    if unit.is_empty() {
        return Some((number, ""));
    }
    let (unit, base) = match unit.strip_suffix("/s") {
        Some(unit) => (unit, "B/s"),
        None => (unit, "B"),
    };
    let bytes = BYTES.iter().find(|(name, _)| *name == unit).map(|(_, factor)| (number * factor, base));
    let other = || OTHERS.iter().find(|(name, ..)| *name == unit && base == "B");
    bytes.or_else(|| other().map(|(_, factor, base)| (number * factor, *base)))
}

const KIB: f64 = 1024.0;
const BYTES: [(&str, f64); 14] = [
    ("B", 1.0),
    ("kB", 1e3),
    ("KB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
    ("PB", 1e15),
    ("EB", 1e18),
    ("KiB", KIB),
    ("MiB", KIB * KIB),
    ("GiB", KIB * KIB * KIB),
    ("TiB", KIB * KIB * KIB * KIB),
    ("PiB", KIB * KIB * KIB * KIB * KIB),
    ("EiB", KIB * KIB * KIB * KIB * KIB * KIB),
];
const OTHERS: [(&str, f64, &str); 8] = [
    ("MHz", 1e6, "Hz"),
    ("GHz", 1e9, "Hz"),
    ("Hz", 1.0, "Hz"),
    ("mW", 1e-3, "W"),
    ("W", 1.0, "W"),
    ("kW", 1e3, "W"),
    ("MW", 1e6, "W"),
    ("GW", 1e9, "W"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::constraint;
    use model::claims::DeviceInstance;
    use model::preference::Affinity;

    fn group() -> DeviceGroup {
        let attribute = |value, unit: &str| DeviceAttribute { value, unit: unit.into() };
        let instance =
            |id: &str, healthy| DeviceInstance { id: id.into(), healthy, description: String::new() };
        DeviceGroup {
            vendor: "nvidia".into(),
            kind: "gpu".into(),
            name: "1080ti".into(),
            attributes: [
                ("memory".to_string(), attribute(DeviceValue::Int(11), "GiB")),
                ("clock".to_string(), attribute(DeviceValue::Float(1.5), "GHz")),
                ("driver".to_string(), attribute(DeviceValue::Text("550.1".into()), "")),
                ("ecc".to_string(), attribute(DeviceValue::Bool(true), "")),
            ]
            .into(),
            instances: vec![instance("a", true), instance("b", false), instance("c", true)],
        }
    }

    fn ask(name: &str, constraints: &[(&str, &str, &str)]) -> DeviceAsk {
        let constraints = constraints.iter().map(|(l, o, r)| constraint(l, o, r)).collect();
        DeviceAsk { name: name.into(), count: 1, constraints, affinities: vec![] }
    }

    #[test]
    fn a_device_name_matches_by_the_parts_that_it_gives() {
        for (name, matches) in [
            ("gpu", true),
            ("nvidia/gpu", true),
            ("nvidia/gpu/1080ti", true),
            ("fpga", false),
            ("amd/gpu", false),
            ("nvidia/gpu/2080ti", false),
        ] {
            let ask = ask(name, &[]);
            assert_eq!(
                DeviceRequest::new(&ask).matches(&group(), &mut ConstraintChecker::default()),
                matches,
                "{name}"
            );
        }
    }

    #[test]
    fn numbers_with_units_compare_by_what_they_amount_to() {
        for (left, operand, right, met) in [
            ("${device.attr.memory}", ">=", "8 GiB", true),
            ("${device.attr.memory}", ">", "11 GiB", false),
            ("${device.attr.memory}", "=", "11264 MiB", true),
            ("${device.attr.memory}", "<", "12GB", true),
            ("${device.attr.memory}", ">", "1 GHz", false),
            ("${device.attr.clock}", ">", "1400 MHz", true),
            ("${device.attr.clock}", "<", "9 GiB", false),
            ("${device.attr.ecc}", "=", "true", true),
            ("${device.attr.driver}", "version", ">= 500", true),
            ("${device.attr.nosuch}", "is_not_set", "", true),
            ("${device.attr.nosuch}", ">", "1", false),
            ("${device.vendor}", "=", "nvidia", true),
            ("${device.type}", "!=", "gpu", false),
            ("${device.model}", "regexp", "^10", true),
        ] {
            let ask = ask("gpu", &[(left, operand, right)]);
            let got = DeviceRequest::new(&ask).matches(&group(), &mut ConstraintChecker::default());
            assert_eq!(got, met, "{left} {operand} {right}");
        }
    }

    #[test]
    fn only_healthy_instances_of_wanted_ids_are_taken() {
        let instances = |constraints: &[(&str, &str, &str)]| {
            DeviceRequest::new(&ask("gpu", constraints))
                .instances(&group(), &mut ConstraintChecker::default())
        };
        assert_eq!(instances(&[]), [0, 2]);
        assert_eq!(instances(&[(IDS, "set_contains_any", "c,d")]), [2]);
        assert_eq!(instances(&[("b,c", "set_contains", IDS)]), [2]);
    }

    #[test]
    fn preference_sums_the_weights_of_met_affinities() {
        let affinity =
            |right: &str, weight| Affinity { condition: constraint("${device.model}", "=", right), weight };
        let mut ask = ask("gpu", &[]);
        ask.affinities = vec![affinity("1080ti", 100), affinity("other", 50), affinity("1080ti", -30)];
        let asked = DeviceRequest::new(&ask);
        assert_eq!(
            (asked.preference(&group(), &mut ConstraintChecker::default()), asked.weights()),
            (70, 180)
        );
    }
}
