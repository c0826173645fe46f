//! Node pools: names for sets of nodes, that jobs choose one of. Refuses to know which nodes and jobs there are. `default`,
//! which nodes are in that name none, and `all`, which every node is in, exist in every region, stored or not.

use super::canonical::DEFAULT_NODE_POOL;
use super::scheduling::PoolScheduling;
use super::validate::multi_error;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The pool that every node is in.
pub const ALL_POOLS: &str = "all";

/// What a user says of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodePoolSpec {
    pub name: String,
    pub description: String,
    pub meta: BTreeMap<String, String>,
    /// `None`: nothing was said.
    pub scheduling: Option<PoolScheduling>,
}

/// A pool as the region keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodePool {
    pub spec: NodePoolSpec,
    pub create_index: u64,
    pub modify_index: u64,
}

const MAX_NAME_CHARS: usize = 128;
const MAX_DESCRIPTION_CHARS: usize = 256;
/// The most bytes of all keys and values together.
const MAX_META_BYTES: usize = 64 << 10;

impl NodePool {
    /// Those that nobody creates, changes or deletes; ordered by name.
    pub fn built_in() -> [NodePool; 2] {
        let made = |name: &str, description: &str| NodePool {
            spec: NodePoolSpec {
                name: name.into(),
                description: description.into(),
                ..NodePoolSpec::default()
            },
            create_index: 1,
            modify_index: 1,
        };
        [made(ALL_POOLS, "Node pool with all nodes."), made(DEFAULT_NODE_POOL, "Default node pool.")]
    }
}

pub fn is_built_in(name: &str) -> bool {
    name == ALL_POOLS || name == DEFAULT_NODE_POOL
}

/// What is wrong with a pool's name.
pub fn name_problem(name: &str) -> Option<String> {
    let fits = (1..=MAX_NAME_CHARS).contains(&name.len());
    let valid = fits && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    (!valid)
        .then(|| format!("the name must have 1 to {MAX_NAME_CHARS} letters, digits, dashes and underscores"))
}

impl NodePoolSpec {
    /// Every problem, in one text; empty when there is none.
    pub fn problems(&self) -> String {
        let mut errors: Vec<String> = name_problem(&self.name).into_iter().collect();
        if self.description.chars().count() > MAX_DESCRIPTION_CHARS {
            errors.push(format!("the description is longer than {MAX_DESCRIPTION_CHARS} characters"));
        }
        if self.description.contains(char::is_control) {
            errors.push("the description contains a control character".into());
        }
        if self.meta.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>() > MAX_META_BYTES {
            errors.push(format!("the metadata is longer than {MAX_META_BYTES} bytes"));
        }
        multi_error(&errors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_the_rest_are_bounded() {
        let longest = "a".repeat(MAX_NAME_CHARS);
        for good in ["a", "gpu_8", "Team-7", &longest] {
            assert_eq!(name_problem(good), None, "{good}");
        }
        let long = "a".repeat(MAX_NAME_CHARS + 1);
        for bad in ["", "a b", "a/b", "..", "a\0", "\u{e4}", "*", "a.b", &long] {
            assert!(name_problem(bad).is_some(), "{bad}");
        }
        let meta = BTreeMap::from([("k".to_string(), "v".repeat(MAX_META_BYTES))]);
        let all = NodePoolSpec { description: "a\n".repeat(200), meta, ..NodePoolSpec::default() };
        assert!(all.problems().starts_with("4 errors occurred:"), "{}", all.problems());
        let few = NodePoolSpec { name: "a".into(), description: "\u{e4}".repeat(256), ..all.clone() };
        assert_eq!(NodePoolSpec { meta: BTreeMap::new(), ..few }.problems(), "");
    }

    #[test]
    fn two_pools_are_always_there_in_their_order() {
        let names = NodePool::built_in().map(|p| p.spec.name);
        assert_eq!(names, ["all", "default"]);
        assert!(names.iter().all(|n| is_built_in(n)) && !is_built_in("gpu"));
    }
}
