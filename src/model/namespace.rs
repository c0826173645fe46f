//! Namespaces: names that keep one user's jobs apart from another's, and say which drivers jobs may use there.
//! Refuses to know which jobs there are. `default` exists in every region, stored or not.

use super::canonical::DEFAULT_NAMESPACE;
use super::job::JobSpec;
use super::validate::multi_error;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What a user says of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceSpec {
    pub name: String,
    pub description: String,
    pub meta: BTreeMap<String, String>,
    /// `None`: nothing was said, so every driver may be used.
    pub capabilities: Option<Capabilities>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    /// Empty: all.
    pub enabled_task_drivers: Vec<String>,
    pub disabled_task_drivers: Vec<String>,
}

/// A namespace as the region keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespace {
    pub spec: NamespaceSpec,
    pub create_index: u64,
    pub modify_index: u64,
}

const MAX_NAME_CHARS: usize = 128;
const MAX_DESCRIPTION_CHARS: usize = 256;
/// The most bytes of all keys and values together.
const MAX_META_BYTES: usize = 64 << 10;
const MAX_DRIVERS: usize = 64;

impl Namespace {
    /// `default` as it is until somebody describes it otherwise.
    pub fn built_in() -> Namespace {
        let spec = NamespaceSpec {
            name: DEFAULT_NAMESPACE.into(),
            description: "Default shared namespace".into(),
            ..NamespaceSpec::default()
        };
        Namespace { spec, create_index: 1, modify_index: 1 }
    }
}

impl NamespaceSpec {
    /// Every problem, in one text; empty when there is none.
    pub fn problems(&self) -> String {
        let mut errors = Vec::new();
        let name = &self.name;
        if !(1..=MAX_NAME_CHARS).contains(&name.len())
            || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
        {
            errors.push(format!("the name must have 1 to {MAX_NAME_CHARS} letters, digits and dashes"));
        }
        if self.description.chars().count() > MAX_DESCRIPTION_CHARS {
            errors.push(format!("the description is longer than {MAX_DESCRIPTION_CHARS} characters"));
        }
        if self.description.contains(char::is_control) {
            errors.push("the description contains a control character".into());
        }
        if self.meta.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>() > MAX_META_BYTES {
            errors.push(format!("the metadata is longer than {MAX_META_BYTES} bytes"));
        }
        let drivers = self.capabilities.iter().map(Capabilities::said).sum::<usize>();
        if drivers > MAX_DRIVERS {
            errors.push(format!("the capabilities name more than {MAX_DRIVERS} drivers"));
        }
        multi_error(&errors)
    }

    /// Why a job may not run here; `None` when it may.
    pub fn refuses(&self, job: &JobSpec) -> Option<String> {
        let capabilities = self.capabilities.as_ref()?;
        let drivers: BTreeSet<&str> =
            job.groups.iter().flat_map(|g| &g.tasks).map(|t| t.driver.as_str()).collect();
        let refused: Vec<&str> = drivers.into_iter().filter(|d| !capabilities.allow(d)).collect();
        let name = &self.name;
        match refused[..] {
            [] => None,
            [one] => Some(format!("used task driver {one:?} is not allowed in namespace {name:?}")),
            _ => Some(format!("used task drivers {refused:?} are not allowed in namespace {name:?}")),
        }
    }
}

impl Capabilities {
    fn said(&self) -> usize {
        self.enabled_task_drivers.len() + self.disabled_task_drivers.len()
    }

    fn allow(&self, driver: &str) -> bool {
        let named = |list: &[String]| list.iter().any(|d| d == driver);
        let enabled = &self.enabled_task_drivers;
        (enabled.is_empty() || named(enabled)) && !named(&self.disabled_task_drivers)
    }
}

/// Why a job that names something unknown to its region is not taken. `kind`: `namespace`, `node pool`.
pub fn nonexistent(job: &str, kind: &str, name: &str) -> String {
    let shown: String = name.chars().take(MAX_NAME_CHARS).collect();
    format!("job {job:?} is in nonexistent {kind} {shown:?}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::JobType;
    use crate::validate::tests::job;

    fn named(name: &str) -> NamespaceSpec {
        NamespaceSpec { name: name.into(), ..NamespaceSpec::default() }
    }

    #[test]
    fn names_are_letters_digits_and_dashes() {
        let longest = "a".repeat(MAX_NAME_CHARS);
        for good in ["a", "default", "Team-7", "-", &longest] {
            assert_eq!(named(good).problems(), "", "{good}");
        }
        let huge = "a".repeat(1 << 20);
        let long = "a".repeat(MAX_NAME_CHARS + 1);
        for bad in
            ["", "a b", "a/b", "..", ".a", "a\0", "a\nb", "\u{e4}", "*", "a_b", "a.b", long.as_str(), &huge]
        {
            let text = named(bad).problems();
            assert!(text.contains("1 to 128 letters, digits and dashes") && text.len() < 200, "{text}");
        }
    }

    #[test]
    fn every_other_part_is_bounded() {
        let few = NamespaceSpec { description: "\u{e4}".repeat(256), ..named("a") };
        assert_eq!(few.problems(), "");
        let meta = BTreeMap::from([("k".to_string(), "v".repeat(MAX_META_BYTES))]);
        let drivers = vec!["d".to_string(); MAX_DRIVERS + 1];
        let capabilities = Some(Capabilities { enabled_task_drivers: drivers, ..Capabilities::default() });
        let all = NamespaceSpec { description: "a\n".repeat(200), meta, capabilities, ..named("a") };
        let text = all.problems();
        assert!(text.starts_with("4 errors occurred:"), "{text}");
    }

    #[test]
    fn capabilities_say_which_drivers_may_be_used() {
        let list = |names: &str| names.split_whitespace().map(str::to_string).collect::<Vec<_>>();
        let spec = job(JobType::Service);
        for (enabled, disabled, refusal) in [
            ("", "", None),
            ("raw_exec", "", None),
            ("exec raw_exec", "docker", None),
            ("exec", "", Some("used task driver \"raw_exec\" is not allowed in namespace \"n\"")),
            ("", "raw_exec", Some("used task driver \"raw_exec\" is not allowed in namespace \"n\"")),
            ("raw_exec", "raw_exec", Some("used task driver \"raw_exec\" is not allowed in namespace \"n\"")),
        ] {
            let capabilities = Some(Capabilities {
                enabled_task_drivers: list(enabled),
                disabled_task_drivers: list(disabled),
            });
            let namespace = NamespaceSpec { capabilities, ..named("n") };
            assert_eq!(namespace.refuses(&spec).as_deref(), refusal, "{enabled} {disabled}");
        }
        assert_eq!(named("n").refuses(&spec), None);
        let mut two = spec.clone();
        let mut other = two.groups[0].tasks[0].clone();
        other.driver = "exec".into();
        two.groups[0].tasks.push(other);
        let none = Capabilities { enabled_task_drivers: list("docker"), ..Capabilities::default() };
        let refusal = NamespaceSpec { capabilities: Some(none), ..named("n") }.refuses(&two);
        let expected = "used task drivers [\"exec\", \"raw_exec\"] are not allowed in namespace \"n\"";
        assert_eq!(refusal.as_deref(), Some(expected));
    }
}
