//! The keys of the block `server`.

use super::super::values::{
    algorithm, directory, enabled_schedulers, encrypt, i64_of, join_token, size, u32_of,
};
use super::{AMOUNT, COUNT, ConfigKey, KeyType, key, no_effect, not_built, not_built_but};
use std::ops::RangeInclusive;

/// The versions of a job that stay listed: the job's row names each, and is written whenever the job moves.
const VERSIONS: RangeInclusive<u64> = 1..=100;
/// The limits that one search may have.
const SEARCH_LIMIT: RangeInclusive<u64> = 1..=10_000;

/// How many servers may begin a region.
const SERVERS: RangeInclusive<u64> = 1..=16;
const ADDRESSES: &str = "list of hosts, with or without a port; 32 at most";

const OWN_STORE: &str = "the state is kept in a store of drover's own";
const NO_CSI: &str = "there are no CSI volumes yet";
const NO_ACL: &str = "there are no tokens yet";
const ENTERPRISE: &str = "it is for Nomad Enterprise";

pub static SERVER: &[ConfigKey] = &[
    key("enabled", KeyType::Bool(|c| c.server.enabled = true)).dev("true").about("be a server"),
    key("bootstrap_expect", KeyType::Int(SERVERS, |c, v| c.server.bootstrap_expect = u32_of(v)))
        .or_words("required, but where others are named or `encrypt` is said: 0")
        .dev("1")
        .takes("0 to 16")
        .about("how many servers a new region begins with; 0: this one waits for a region"),
    key("encrypt", KeyType::Text(|c, v| encrypt(v, &mut c.server.encrypt)))
        .secret()
        .takes("32 bytes in base64, or 16 or 24")
        .about("the key that all servers of a region share; required where there are others"),
    key("num_schedulers", KeyType::Int(0..=1024, |c, v| c.server.num_schedulers = u32_of(v)))
        .or_words("processors")
        .about("scheduler workers; 0: none on this server"),
    key("enabled_schedulers", KeyType::List(enabled_schedulers))
        .or_words("all types")
        .about("the types of jobs whose evaluations this server's workers take"),
    key("heartbeat_grace", KeyType::Duration(|c, v| c.server.heartbeat_grace = v))
        .or("10s")
        .about("how much later than promised a node's heartbeat may come"),
    key("min_heartbeat_ttl", KeyType::Duration(|c, v| c.server.min_heartbeat_ttl = v))
        .or("10s")
        .about("the shortest interval between two heartbeats of a node"),
    key("max_heartbeats_per_second", KeyType::Float(|c, v| c.server.max_heartbeats_per_second = v))
        .or("50")
        .about("heartbeats are spread so that no more come in a second"),
    key("failover_heartbeat_ttl", KeyType::Duration(|c, v| c.server.failover_heartbeat_ttl = v))
        .or("5m")
        .about("the interval that nodes get from a new leader"),
    key("job_default_priority", KeyType::Int(AMOUNT, |c, v| c.server.job_default_priority = i64_of(v)))
        .or("50")
        .takes("50 to `job_max_priority` - 1")
        .about("of a job that names none"),
    key("job_max_priority", KeyType::Int(AMOUNT, |c, v| c.server.job_max_priority = i64_of(v)))
        .or("100")
        .takes("100 to 32766")
        .about("the highest that a job may name"),
    key("job_tracked_versions", KeyType::Int(VERSIONS, |c, v| c.server.job_tracked_versions = u32_of(v)))
        .or("6")
        .about("versions of a job that stay listed"),
    key("job_max_source_size", KeyType::Text(|c, v| size(v).map(|n| c.server.job_max_source_bytes = n)))
        .or("1M")
        .takes("size (`1M`, `512KiB`), 4 MiB at most")
        .about("a longer source is not kept with its job"),
    key("job_gc_interval", KeyType::Duration(|c, v| c.server.garbage.interval = v))
        .or("5m")
        .takes("duration, 1 s at least")
        .about("how often what has ended is looked after"),
    key("job_gc_threshold", KeyType::Duration(|c, v| c.server.garbage.jobs = v))
        .or("4h")
        .about("how long dead jobs are kept"),
    key("eval_gc_threshold", KeyType::Duration(|c, v| c.server.garbage.evals = v))
        .or("1h")
        .about("how long evaluations that are over are kept, with their allocations"),
    key("batch_eval_gc_threshold", KeyType::Duration(|c, v| c.server.garbage.batch_evals = v))
        .or("24h")
        .about("the same for batch jobs"),
    key("deployment_gc_threshold", KeyType::Duration(|c, v| c.server.garbage.deployments = v))
        .or("1h")
        .about("how long deployments that are over are kept"),
    key("node_gc_threshold", KeyType::Duration(|c, v| c.server.garbage.nodes = v))
        .or("24h")
        .about("how long nodes that are down are kept"),
    key("enable_event_broker", KeyType::Switch(|c, v| c.server.event_broker = v))
        .or("true")
        .about("events are kept and streamed"),
    key("event_buffer_size", KeyType::Int(1..=10_000, |c, v| c.server.event_buffer_entries = u32_of(v)))
        .or("100")
        .about("how many changes' events are kept for those who stream them"),
    key("search", KeyType::Block(SEARCH)),
    key("default_scheduler_config", KeyType::Block(SCHEDULER)),
    key("start_join", KeyType::List(|c, v| c.server.join.add_start_join(v)))
        .takes(ADDRESSES)
        .about("older name of `server_join.start_join`"),
    key("retry_join", KeyType::List(|c, v| c.server.join.add_retry_join(v)))
        .takes(ADDRESSES)
        .about("older name of `server_join.retry_join`"),
    key("retry_max", KeyType::Int(COUNT, |c, v| c.server.join.retry_max = u32_of(v)))
        .about("older name of `server_join.retry_max`"),
    key("retry_interval", KeyType::Duration(|c, v| c.server.join.retry_interval = v))
        .or_words("that of `server_join`")
        .about("older name of `server_join.retry_interval`"),
    key("server_join", KeyType::Block(SERVER_JOIN)),
    key("plan_rejection_tracker", KeyType::Block(PLAN_REJECTION_TRACKER)),
    key("client_introduction", KeyType::Block(CLIENT_INTRODUCTION)),
    not_built("data_dir"),
    not_built("root_key_rotation_threshold"),
    not_built_but("job_max_count", &["50000"]),
    not_built("oidc_issuer"),
    not_built("log_file"),
    no_effect("raft_protocol", "there is one protocol"),
    no_effect("protocol_version", "there is one protocol"),
    no_effect("authoritative_region", "there are no tokens to be copied from it"),
    no_effect("raft_multiplier", "the times of elections are fixed"),
    no_effect("raft_snapshot_threshold", OWN_STORE),
    no_effect("raft_snapshot_interval", OWN_STORE),
    no_effect("raft_trailing_logs", OWN_STORE),
    no_effect("raft_boltdb", OWN_STORE),
    no_effect("raft_logstore", OWN_STORE),
    no_effect("csi_volume_claim_gc_interval", NO_CSI),
    no_effect("csi_volume_claim_gc_threshold", NO_CSI),
    no_effect("csi_plugin_gc_threshold", NO_CSI),
    no_effect("acl_token_gc_threshold", NO_ACL),
    no_effect("root_key_gc_interval", "the region's key does not change"),
    no_effect("root_key_gc_threshold", "the region's key does not change"),
    no_effect("rejoin_after_leave", "a server that starts again is in its region, unless it was removed"),
    no_effect("deploy_query_rate_limit", "deployments are watched without queries"),
    no_effect("plan_apply_pipeline", "plans are applied as fast as they come"),
    no_effect("start_timeout", "a server waits for nothing before it starts"),
    no_effect("non_voting_server", ENTERPRISE),
    no_effect("redundancy_zone", ENTERPRISE),
    no_effect("upgrade_version", ENTERPRISE),
    no_effect("license_path", ENTERPRISE),
    no_effect("non_production", ENTERPRISE),
];

static SERVER_JOIN: &[ConfigKey] = &[
    key("start_join", KeyType::List(|c, v| c.server.join.add_start_join(v)))
        .takes(ADDRESSES)
        .about("servers that are asked once, at the start, to take this one into their region"),
    key("retry_join", KeyType::List(|c, v| c.server.join.add_retry_join(v)))
        .takes(ADDRESSES)
        .about("servers that are asked again and again"),
    key("retry_max", KeyType::Int(COUNT, |c, v| c.server.join.retry_max = u32_of(v)))
        .about("rounds without an answer after which a server without a region gives up; 0: never"),
    key("retry_interval", KeyType::Duration(|c, v| c.server.join.retry_interval = v))
        .or("30s")
        .about("how long after one round the next begins"),
    key("join_token", KeyType::Text(|c, v| join_token(v, &mut c.server.join.token)))
        .secret()
        .takes("a token of `drover token create`")
        .about("lets a machine in that has no identity of its region yet"),
    key("join_token_file", KeyType::Text(|c, v| directory(v, &mut c.server.join.token_file)))
        .takes("absolute path")
        .about("a file with the token, where `join_token` says none"),
];

static PLAN_REJECTION_TRACKER: &[ConfigKey] = &[
    not_built("enabled"),
    no_effect("node_threshold", "without `enabled` nothing is tracked"),
    no_effect("node_window", "without `enabled` nothing is tracked"),
];

static CLIENT_INTRODUCTION: &[ConfigKey] = &[
    not_built_but("enforcement", &["none"]),
    no_effect("default_identity_ttl", "nodes need no introduction"),
    no_effect("max_identity_ttl", "nodes need no introduction"),
];

static SCHEDULER: &[ConfigKey] = &[
    key(
        "scheduler_algorithm",
        KeyType::Text(|c, v| algorithm(v, &mut c.server.default_scheduler_config.algorithm)),
    )
    .or("binpack")
    .takes("`binpack` or `spread`")
    .about("the fuller or the emptier node first"),
    key(
        "memory_oversubscription_enabled",
        KeyType::Switch(|c, v| c.server.default_scheduler_config.memory_oversubscription = v),
    )
    .or("false")
    .about("`memory_max` is obeyed"),
    key(
        "reject_job_registration",
        KeyType::Switch(|c, v| c.server.default_scheduler_config.reject_job_registration = v),
    )
    .or("false")
    .about("no jobs are taken"),
    key("pause_eval_broker", KeyType::Switch(|c, v| c.server.default_scheduler_config.pause_eval_broker = v))
        .or("false")
        .about("nothing is scheduled"),
    key("preemption_config", KeyType::Block(PREEMPTION)),
    no_effect("node_limit_for_feasibility_checks", "every node is looked at"),
];

static PREEMPTION: &[ConfigKey] = &[
    key(
        "system_scheduler_enabled",
        KeyType::Switch(|c, v| c.server.default_scheduler_config.preemption.system = v),
    )
    .or("true")
    .about("system jobs send off what is less urgent"),
    key(
        "sysbatch_scheduler_enabled",
        KeyType::Switch(|c, v| c.server.default_scheduler_config.preemption.sysbatch = v),
    )
    .or("false")
    .about("so do sysbatch jobs"),
    key(
        "batch_scheduler_enabled",
        KeyType::Switch(|c, v| c.server.default_scheduler_config.preemption.batch = v),
    )
    .or("false")
    .about("so do batch jobs"),
    key(
        "service_scheduler_enabled",
        KeyType::Switch(|c, v| c.server.default_scheduler_config.preemption.service = v),
    )
    .or("false")
    .about("so do services"),
];

static SEARCH: &[ConfigKey] = &[
    key("fuzzy_enabled", KeyType::Switch(|c, v| c.server.search.fuzzy_enabled = v))
        .or("true")
        .about("search by parts of names is answered"),
    key("limit_query", KeyType::Int(SEARCH_LIMIT, |c, v| c.server.search.limit_query = u32_of(v)))
        .or("20")
        .about("objects of a kind that are looked at"),
    key("limit_results", KeyType::Int(SEARCH_LIMIT, |c, v| c.server.search.limit_results = u32_of(v)))
        .or("100")
        .about("matches that are told"),
    key("min_term_length", KeyType::Int(COUNT, |c, v| c.server.search.min_term_length = u32_of(v)))
        .or("2")
        .about("characters that a search needs"),
];
