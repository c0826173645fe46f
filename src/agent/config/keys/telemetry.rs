//! The keys of the block `telemetry`.

use super::super::values::prefix_filter;
use super::{ConfigKey, KeyType, key, no_effect, not_built};

const ON_DEMAND: &str = "figures are read when they are asked for";
const CIRCONUS: &str = "drover does not work with it";

pub static TELEMETRY: &[ConfigKey] = &[
    key("prometheus_metrics", KeyType::Bool(|c| c.telemetry.prometheus = true))
        .dev("true")
        .about("opens Prometheus' text at `/v1/metrics`"),
    key("publish_node_metrics", KeyType::Bool(|c| c.telemetry.publish_node = true))
        .dev("true")
        .about("figures of the machine, too"),
    key("publish_allocation_metrics", KeyType::Bool(|c| c.telemetry.publish_allocations = true))
        .dev("true")
        .about("what each task uses, too"),
    key("disable_dispatched_job_summary_metrics", KeyType::Bool(|c| c.telemetry.hide_dispatched = true))
        .about("no summaries of dispatched jobs"),
    key("disable_hostname", KeyType::Bool(|c| c.telemetry.disable_hostname = true))
        .about("gauges carry no label `host`"),
    key("use_node_name", KeyType::Bool(|c| c.telemetry.use_node_name = true))
        .about("the label `host` is the node's name"),
    key("prefix_filter", KeyType::List(prefix_filter))
        .takes("list of `+prefix` and `-prefix`")
        .about("which metrics are told; the longest that fits decides"),
    key("filter_default", KeyType::Switch(|c, v| c.telemetry.filter_default = v))
        .or("true")
        .about("whether names are told that no prefix fits"),
    no_effect("collection_interval", ON_DEMAND),
    no_effect("in_memory_collection_interval", ON_DEMAND),
    no_effect("in_memory_retention_period", ON_DEMAND),
    no_effect("disable_allocation_hook_metrics", "there are no such metrics"),
    no_effect("disable_quota_utilization_metrics", "there are no such metrics"),
    no_effect("disable_rpc_rate_metrics_labels", "there are no such metrics"),
    not_built("include_alloc_metadata_in_metrics"),
    not_built("allowed_metadata_keys_in_metrics"),
    not_built("statsite_address"),
    not_built("statsd_address"),
    not_built("datadog_address"),
    no_effect("datadog_tags", "without `datadog_address` nothing is sent"),
    no_effect("circonus_api_token", CIRCONUS).secret(),
    no_effect("circonus_api_app", CIRCONUS),
    no_effect("circonus_api_url", CIRCONUS),
    no_effect("circonus_submission_interval", CIRCONUS),
    no_effect("circonus_submission_url", CIRCONUS),
    no_effect("circonus_check_id", CIRCONUS),
    no_effect("circonus_check_force_metric_activation", CIRCONUS),
    no_effect("circonus_check_instance_id", CIRCONUS),
    no_effect("circonus_check_search_tag", CIRCONUS),
    no_effect("circonus_check_tags", CIRCONUS),
    no_effect("circonus_check_display_name", CIRCONUS),
    no_effect("circonus_broker_id", CIRCONUS),
    no_effect("circonus_broker_select_tag", CIRCONUS),
];
