//! What tasks offer and need around them: networks, services, volumes, files, secrets.

use super::ValueKind::{Bool, Free, Int, Span, Text, TextMap, Texts, TextsMap};
use super::{Block, DecodeHook, block, hooked, ignored, labelled, many, maybe, omitted, one, plain};

pub static DNS: Block = block(
    "dns",
    &[
        maybe("servers", "Servers", Texts),
        maybe("searches", "Searches", Texts),
        maybe("options", "Options", Texts),
    ],
);

pub static CNI: Block = block("cni", &[maybe("args", "Args", TextMap)]);

pub static SERVICE: Block = block(
    "service",
    &[
        plain("name", "Name", Text),
        plain("provider", "Provider", Text),
        plain("port", "PortLabel", Text),
        maybe("tags", "Tags", Texts),
        maybe("canary_tags", "CanaryTags", Texts),
        plain("enable_tag_override", "EnableTagOverride", Bool),
        plain("address", "Address", Text),
        plain("address_mode", "AddressMode", Text),
        plain("task", "TaskName", Text),
        plain("on_update", "OnUpdate", Text),
        maybe("meta", "Meta", TextMap),
        maybe("canary_meta", "CanaryMeta", TextMap),
        maybe("tagged_addresses", "TaggedAddresses", TextMap),
        one("check_restart", "CheckRestart", &CHECK_RESTART),
        many("check", "Checks", &CHECK),
        maybe("connect", "Connect", Free),
        one("identity", "Identity", &IDENTITY),
        one("weights", "Weights", &WEIGHTS),
        plain("cluster", "Cluster", Text),
        plain("kind", "Kind", Text),
        ignored("Namespace"),
    ],
);

pub static WEIGHTS: Block =
    block("weights", &[plain("passing", "Passing", Int), plain("warning", "Warning", Int)]);

pub static CHECK: Block = block(
    "check",
    &[
        plain("name", "Name", Text),
        plain("type", "Type", Text),
        plain("command", "Command", Text),
        maybe("args", "Args", Texts),
        plain("path", "Path", Text),
        plain("protocol", "Protocol", Text),
        plain("port", "PortLabel", Text),
        plain("expose", "Expose", Bool),
        plain("address_mode", "AddressMode", Text),
        plain("advertise", "Advertise", Text),
        plain("interval", "Interval", Span),
        plain("timeout", "Timeout", Span),
        plain("initial_status", "InitialStatus", Text),
        plain("notes", "Notes", Text),
        plain("tls_server_name", "TLSServerName", Text),
        plain("tls_skip_verify", "TLSSkipVerify", Bool),
        maybe("header", "Header", TextsMap),
        plain("method", "Method", Text),
        one("check_restart", "CheckRestart", &CHECK_RESTART),
        plain("grpc_service", "GRPCService", Text),
        plain("grpc_use_tls", "GRPCUseTLS", Bool),
        plain("task", "TaskName", Text),
        plain("success_before_passing", "SuccessBeforePassing", Int),
        plain("failures_before_critical", "FailuresBeforeCritical", Int),
        plain("failures_before_warning", "FailuresBeforeWarning", Int),
        plain("body", "Body", Text),
        plain("on_update", "OnUpdate", Text),
    ],
);

pub static CHECK_RESTART: Block = block(
    "check_restart",
    &[
        plain("limit", "Limit", Int),
        maybe("grace", "Grace", Span),
        plain("ignore_warnings", "IgnoreWarnings", Bool),
    ],
);

pub static MOUNT_OPTIONS: Block =
    block("mount_options", &[plain("fs_type", "FSType", Text), maybe("mount_flags", "MountFlags", Texts)]);

pub static ARTIFACT: Block = block(
    "artifact",
    &[
        maybe("source", "GetterSource", Text),
        maybe("options", "GetterOptions", TextMap),
        maybe("headers", "GetterHeaders", TextMap),
        maybe("mode", "GetterMode", Text),
        maybe("insecure", "GetterInsecure", Bool),
        maybe("destination", "RelativeDest", Text),
        plain("chown", "Chown", Bool),
    ],
);

pub static TEMPLATE: Block = hooked(
    block(
        "template",
        &[
            maybe("source", "SourcePath", Text),
            maybe("destination", "DestPath", Text),
            maybe("data", "EmbeddedTmpl", Text),
            maybe("change_mode", "ChangeMode", Text),
            one("change_script", "ChangeScript", &CHANGE_SCRIPT),
            maybe("change_signal", "ChangeSignal", Text),
            maybe("splay", "Splay", Span),
            maybe("perms", "Perms", Text),
            maybe("uid", "Uid", Int),
            maybe("gid", "Gid", Int),
            maybe("left_delimiter", "LeftDelim", Text),
            maybe("right_delimiter", "RightDelim", Text),
            maybe("env", "Envvars", Bool),
            maybe("vault_grace", "VaultGrace", Span),
            one("wait", "Wait", &WAIT),
            plain("error_on_missing_key", "ErrMissingKey", Bool),
            plain("once", "Once", Bool),
        ],
    ),
    DecodeHook::Template,
);

pub static CHANGE_SCRIPT: Block = hooked(
    block(
        "change_script",
        &[
            maybe("command", "Command", Text),
            maybe("args", "Args", Texts),
            maybe("timeout", "Timeout", Span),
            maybe("fail_on_error", "FailOnError", Bool),
            omitted(maybe("run_on_first_render", "RunOnFirstRender", Bool)),
        ],
    ),
    DecodeHook::ChangeScript,
);

pub static WAIT: Block = block("wait", &[maybe("min", "Min", Span), maybe("max", "Max", Span)]);

pub static IDENTITY: Block = block(
    "identity",
    &[
        plain("name", "Name", Text),
        maybe("aud", "Audience", Texts),
        plain("change_mode", "ChangeMode", Text),
        plain("change_signal", "ChangeSignal", Text),
        plain("env", "Env", Bool),
        plain("file", "File", Bool),
        plain("filepath", "Filepath", Text),
        plain("service_name", "ServiceName", Text),
        plain("ttl", "TTL", Span),
        omitted(maybe("extra_claims", "ExtraClaims", TextMap)),
    ],
);

pub static CSI_PLUGIN: Block = block(
    "csi_plugin",
    &[
        plain("id", "ID", Text),
        plain("type", "Type", Text),
        plain("mount_dir", "MountDir", Text),
        plain("stage_publish_base_dir", "StagePublishBaseDir", Text),
        plain("health_timeout", "HealthTimeout", Span),
    ],
);

pub static VAULT: Block = hooked(
    block(
        "vault",
        &[
            maybe("policies", "Policies", Texts),
            plain("role", "Role", Text),
            maybe("namespace", "Namespace", Text),
            plain("cluster", "Cluster", Text),
            maybe("env", "Env", Bool),
            maybe("disable_file", "DisableFile", Bool),
            maybe("change_mode", "ChangeMode", Text),
            maybe("change_signal", "ChangeSignal", Text),
            maybe("allow_token_expiration", "AllowTokenExpiration", Bool),
        ],
    ),
    DecodeHook::Vault,
);

pub static CONSUL: Block = block(
    "consul",
    &[
        plain("namespace", "Namespace", Text),
        plain("cluster", "Cluster", Text),
        plain("partition", "Partition", Text),
    ],
);

pub static SECRET: Block = labelled(
    "secret",
    "Name",
    &[
        plain("", "Name", Text),
        plain("provider", "Provider", Text),
        plain("path", "Path", Text),
        maybe("config", "Config", Free),
        maybe("env", "Env", TextMap),
    ],
);

pub static SCHEDULE: Block = block("schedule", &[one("cron", "Cron", &SCHEDULE_CRON)]);

pub static SCHEDULE_CRON: Block = block(
    "cron",
    &[plain("start", "Start", Text), plain("end", "End", Text), plain("timezone", "Timezone", Text)],
);
