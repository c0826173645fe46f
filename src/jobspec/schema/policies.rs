//! Where a job runs, with how much, and how it is restarted, replaced, repeated and scaled.

use super::Kind::{Bool, Free, Int, Span, Text, TextMap, Texts};
use super::services::NETWORK;
use super::{Block, Hook, block, filled, hooked, labelled, many, maybe, one, plain, soon};

pub(super) static CONSTRAINT: Block = hooked(
    block(
        "constraint",
        &[
            plain("attribute", "LTarget", Text),
            plain("value", "RTarget", Text),
            plain("operator", "Operand", Text),
            plain("version", "", Text),
            plain("semver", "", Text),
            plain("regexp", "", Text),
            plain("set_contains", "", Text),
            plain("set_contains_all", "", Text),
            plain("set_contains_any", "", Text),
            plain("is_set", "", Bool),
            plain("is_not_set", "", Bool),
            plain("distinct_hosts", "", Bool),
            plain("distinct_property", "", Text),
        ],
    ),
    Hook::Constraint,
);

pub(super) static AFFINITY: Block = hooked(
    block(
        "affinity",
        &[
            plain("attribute", "LTarget", Text),
            plain("value", "RTarget", Text),
            plain("operator", "Operand", Text),
            maybe("weight", "Weight", Int),
            plain("version", "", Text),
            plain("semver", "", Text),
            plain("regexp", "", Text),
            plain("set_contains", "", Text),
            plain("set_contains_all", "", Text),
            plain("set_contains_any", "", Text),
        ],
    ),
    Hook::Affinity,
);

pub(super) static SPREAD: Block = block(
    "spread",
    &[
        plain("attribute", "Attribute", Text),
        maybe("weight", "Weight", Int),
        many("target", "SpreadTarget", &SPREAD_TARGET),
    ],
);

pub(super) static SPREAD_TARGET: Block =
    labelled("target", "Value", &[plain("value", "Value", Text), plain("percent", "Percent", Int)]);

pub(super) static UPDATE: Block = block(
    "update",
    &[
        maybe("stagger", "Stagger", Span),
        maybe("max_parallel", "MaxParallel", Int),
        maybe("health_check", "HealthCheck", Text),
        maybe("min_healthy_time", "MinHealthyTime", Span),
        maybe("healthy_deadline", "HealthyDeadline", Span),
        maybe("progress_deadline", "ProgressDeadline", Span),
        maybe("canary", "Canary", Int),
        maybe("auto_revert", "AutoRevert", Bool),
        maybe("auto_promote", "AutoPromote", Bool),
    ],
);

pub(super) static MIGRATE: Block = block(
    "migrate",
    &[
        maybe("max_parallel", "MaxParallel", Int),
        maybe("health_check", "HealthCheck", Text),
        maybe("min_healthy_time", "MinHealthyTime", Span),
        maybe("healthy_deadline", "HealthyDeadline", Span),
    ],
);

pub(super) static RESTART: Block = block(
    "restart",
    &[
        maybe("attempts", "Attempts", Int),
        maybe("interval", "Interval", Span),
        maybe("delay", "Delay", Span),
        maybe("mode", "Mode", Text),
        maybe("render_templates", "RenderTemplates", Bool),
    ],
);

pub(super) static RESCHEDULE: Block = block(
    "reschedule",
    &[
        maybe("attempts", "Attempts", Int),
        maybe("interval", "Interval", Span),
        maybe("delay", "Delay", Span),
        maybe("delay_function", "DelayFunction", Text),
        maybe("max_delay", "MaxDelay", Span),
        maybe("unlimited", "Unlimited", Bool),
    ],
);

pub(super) static EPHEMERAL_DISK: Block = block(
    "ephemeral_disk",
    &[
        maybe("size", "SizeMB", Int),
        soon(maybe("sticky", "Sticky", Bool)),
        soon(maybe("migrate", "Migrate", Bool)),
    ],
);

pub(super) static LIFECYCLE: Block =
    block("lifecycle", &[plain("hook", "Hook", Text), plain("sidecar", "Sidecar", Bool)]);

pub(super) static RESOURCES: Block = block(
    "resources",
    &[
        maybe("cpu", "CPU", Int),
        maybe("cores", "Cores", Int),
        maybe("memory", "MemoryMB", Int),
        maybe("memory_max", "MemoryMaxMB", Int),
        soon(maybe("disk", "DiskMB", Int)),
        soon(maybe("iops", "IOPS", Int)),
        many("network", "Networks", &NETWORK),
        many("device", "Devices", &DEVICE),
        soon(filled(one("numa", "NUMA", &NUMA), r#"{"Affinity":"none"}"#)),
        soon(maybe("secrets", "SecretsMB", Int)),
    ],
);

pub(super) static DEVICE: Block = labelled(
    "device",
    "Name",
    &[
        plain("name", "Name", Text),
        maybe("count", "Count", Int),
        many("constraint", "Constraints", &CONSTRAINT),
        many("affinity", "Affinities", &AFFINITY),
    ],
);

pub(super) static NUMA: Block =
    block("numa", &[plain("affinity", "Affinity", Text), maybe("devices", "Devices", Texts)]);

pub(super) static LOGS: Block = block(
    "logs",
    &[
        maybe("max_files", "MaxFiles", Int),
        maybe("max_file_size", "MaxFileSizeMB", Int),
        maybe("enabled", "Enabled", Bool),
        maybe("disabled", "Disabled", Bool),
    ],
);

pub(super) static DISCONNECT: Block = block(
    "disconnect",
    &[
        maybe("lost_after", "LostAfter", Span),
        maybe("stop_on_client_after", "StopOnClientAfter", Span),
        maybe("replace", "Replace", Bool),
        maybe("reconcile", "Reconcile", Text),
    ],
);

pub(super) static PERIODIC: Block = hooked(
    block(
        "periodic",
        &[
            maybe("enabled", "Enabled", Bool),
            maybe("cron", "Spec", Text),
            maybe("crons", "Specs", Texts),
            maybe("", "SpecType", Text),
            maybe("prohibit_overlap", "ProhibitOverlap", Bool),
            maybe("time_zone", "TimeZone", Text),
        ],
    ),
    Hook::Periodic,
);

pub(super) static PARAMETERIZED: Block = block(
    "parameterized",
    &[
        plain("payload", "Payload", Text),
        maybe("meta_required", "MetaRequired", Texts),
        maybe("meta_optional", "MetaOptional", Texts),
    ],
);

pub(super) static MULTIREGION: Block = block(
    "multiregion",
    &[one("strategy", "Strategy", &STRATEGY), many("region", "Regions", &MULTIREGION_REGION)],
);

pub(super) static STRATEGY: Block =
    block("strategy", &[maybe("max_parallel", "MaxParallel", Int), maybe("on_failure", "OnFailure", Text)]);

pub(super) static MULTIREGION_REGION: Block = labelled(
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

pub(super) static GROUP_SCALING: Block = hooked(
    block(
        "scaling",
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
    Hook::GroupScaling,
);

pub(super) static TASK_SCALING: Block = hooked(
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
    Hook::TaskScaling,
);

pub(super) static UI: Block =
    block("ui", &[plain("description", "Description", Text), many("link", "Links", &UI_LINK)]);

pub(super) static UI_LINK: Block = block("link", &[plain("label", "Label", Text), plain("url", "URL", Text)]);
