//! Blocks about where and with how much a job runs that are not kept as they are written.

use super::ValueKind::{Bool, Free, Int, Text, TextMap, Texts};
use super::{Block, DecodeHook, Member, block, hooked, labelled, many, maybe, named, one, plain};

pub const AFFINITY_WEIGHT: Member = maybe("weight", "Weight", Int);

pub static AFFINITY: Block = Block {
    members: &[
        plain("attribute", "LTarget", Text),
        plain("value", "RTarget", Text),
        plain("operator", "Operand", Text),
        AFFINITY_WEIGHT,
        plain("version", "", Text),
        plain("semver", "", Text),
        plain("regexp", "", Text),
        plain("set_contains", "", Text),
        plain("set_contains_all", "", Text),
        plain("set_contains_any", "", Text),
    ],
    ..named("affinity", "Affinity").hooked(DecodeHook::Affinity)
};

pub static NUMA: Block =
    block("numa", &[plain("affinity", "Affinity", Text), maybe("devices", "Devices", Texts)]);

pub static MULTIREGION: Block = block(
    "multiregion",
    &[one("strategy", "Strategy", &STRATEGY), many("region", "Regions", &MULTIREGION_REGION)],
);

pub static STRATEGY: Block =
    block("strategy", &[maybe("max_parallel", "MaxParallel", Int), maybe("on_failure", "OnFailure", Text)]);

pub static MULTIREGION_REGION: Block = labelled(
    "region",
    "Name",
    &[
        plain("", "Name", Text),
        maybe("count", "Count", Int),
        maybe("datacenters", "Datacenters", Texts),
        plain("node_pool", "NodePool", Text),
        maybe("meta", "Meta", TextMap),
    ],
);

pub static TASK_SCALING: Block = hooked(
    labelled(
        "scaling",
        "Name",
        &[
            plain("type", "Type", Text),
            maybe("min", "Min", Int),
            maybe("max", "Max", Int),
            maybe("enabled", "Enabled", Bool),
            maybe("policy", "Policy", Free),
            maybe("", "Target", TextMap),
            plain("", "ID", Text),
            plain("", "Namespace", Text),
            plain("", "CreateIndex", Int),
            plain("", "ModifyIndex", Int),
        ],
    ),
    DecodeHook::TaskScaling,
);
