# The agent's configuration: `drover agent -config /etc/drover/agent.hcl`, or a directory of such files, read in
# alphabetical order, later ones winning. An unknown key is an error, never ignored; `drover config validate` tells without
# starting anything.
#
# This file makes one machine both server and client. Uncommented keys are what such a machine needs; commented ones
# show every other key that there is, most with their defaults.
#
# How files and flags come together: later wins, value by value. An empty text, a zero and a plain `false` say nothing, so a
# switch that one file turned on stays on. Entries of maps and lists add up.
#
# SIGHUP reads all of it again: log_level, http_api_response_headers, limits and tls, but for tls.http, change at once; what else has
# changed is named in the log, and waits for a restart of the agent. Tasks notice neither.

# Where this machine is. Jobs choose datacenters by name or by glob.
region     = "global"
datacenter = "dc1"

# Defaults to the host name.
# name = "board-1"

# Everything that outlives a process: the region's state, the allocations' directories, the keeper's journal.
data_dir = "/var/lib/drover"

# The address that is listened on. Where other machines reach the HTTP API it has to be encrypted (tls, below), or the agent does not
# start; whoever reaches it is let in, but with verify_https_client.
bind_addr = "127.0.0.1"
# Plain HTTP where other machines reach it, nevertheless: everybody in that network can read and change what is said. Each start warns.
# insecure_http = false

# TRACE, DEBUG, INFO, WARN, ERROR or OFF.
log_level = "INFO"
# One JSON object per line instead of text; the place in the source with each line.
# log_json             = true
# log_include_location = true

# A file besides stderr; a path that ends in a slash is a folder for drover.log. It is rotated by size (0: no limit) and by age; of the
# rotated files so many are kept (0: all, -1: none).
# log_file              = "/var/log/drover/drover.log"
# log_rotate_bytes      = 10000000
# log_rotate_duration   = "24h"
# log_rotate_max_files  = 5

ports {
  http = 4646
  # UDP, for all that servers say to each other.
  # rpc = 4647
}

# Addresses of their own for the HTTP API and for other servers, separated by spaces; without them, bind_addr.
# addresses {
#   http = "127.0.0.1"
#   rpc  = "10.0.0.1"
# }

# What others are told to reach the API at, with or without a port; without it, the first address that is listened on. rpc: where
# other servers find this one, as members, the leader and the Raft configuration show it.
# advertise {
#   http = "board-1.local:4646"
#   rpc  = "board-1.local:4647"
# }

# Open connections of one address that is not this machine's own; 0 is no limit.
# https_handshake_timeout: the time that a TLS handshake may take.
# limits {
#   http_max_conns_per_client = 100
#   https_handshake_timeout   = "10s"
# }

# HTTPS instead of HTTP. `drover tls ca create` and `drover tls cert create -server` make such files, which SIGHUP reads again.
# verify_https_client lets in only who shows a certificate of ca_file: `drover tls cert create -cli` makes one. tls_min_version: tls12 or
# tls13. What machines say to each other is always encrypted, and has nothing to do with this.
# tls {
#   http                            = true
#   ca_file                         = "/etc/drover/tls/nomad-agent-ca.pem"
#   cert_file                       = "/etc/drover/tls/global-server-nomad.pem"
#   key_file                        = "/etc/drover/tls/global-server-nomad-key.pem"
#   verify_https_client             = false
#   tls_min_version                 = "tls12"
#   tls_cipher_suites               = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
#   tls_prefer_server_cipher_suites = false
# }

# Added to every answer of the API.
# http_api_response_headers {
#   X-Frame-Options = "DENY"
# }

server {
  enabled = true

  # How many servers begin a new region together: at most 16, 3 or 5 where it shall outlive one or two of them. 0 begins none, and
  # waits for a region. config/server.hcl shows a region of three.
  bootstrap_expect = 1

  # The key that all servers of a region share, required where there are others: 32 bytes in base64. This one is an example: make
  # your own with `drover operator gossip keyring generate`. It is shown nowhere; keep it in a file that only root can read.
  # encrypt = "bWFrZSB5b3VyIG93bjoga2V5cmluZyBnZW5lcmF0ZSE="

  # How long a node may be silent beyond its promised heartbeat before it counts as down.
  # heartbeat_grace = "10s"
  # The shortest interval between two heartbeats of a node.
  # min_heartbeat_ttl = "10s"
  # Heartbeats are spread so that the servers hear no more of them than this in a second.
  # max_heartbeats_per_second = 50
  # The interval that nodes get from a new leader.
  # failover_heartbeat_ttl = "5m"

  # How many scheduler workers think at once; without it, one for each processor. 0 places nothing.
  # num_schedulers = 2

  # The types of jobs whose evaluations this server's workers take; without it, all of them. Evaluations that no server takes wait.
  # enabled_schedulers = ["service", "batch", "system", "sysbatch"]

  # How many versions of a job are kept (at most 100), how long a source is kept with them (at most 4 MiB), the
  # priority of a job that names none, and the highest that one may name (100 to 32766).
  # job_tracked_versions = 6
  # job_max_source_size  = "1M"
  # job_default_priority = 50
  # job_max_priority     = 100

  # Whether there is an event stream, and how many changes it can be read again from.
  # enable_event_broker = true
  # event_buffer_size   = 100

  # How long what has ended is kept before it is forgotten, if nothing needs it any more: jobs that were stopped and batch jobs that
  # are done, with all that is theirs; evaluations with their allocations; those of batch jobs; deployments that newer ones
  # have followed; nodes that are down and run nothing. And how often that is looked after; `drover system gc` does it at once.
  # job_gc_threshold        = "4h"
  # eval_gc_threshold       = "1h"
  # batch_eval_gc_threshold = "24h"
  # deployment_gc_threshold = "1h"
  # node_gc_threshold       = "24h"
  # job_gc_interval         = "5m"

  # Search by parts of names: whether it is answered, how many objects of a kind it looks at, how many matches it tells.
  # search {
  #   fuzzy_enabled   = true
  #   limit_query     = 20
  #   limit_results   = 100
  #   min_term_length = 2
  # }

  # How the scheduler of a new region begins; later `drover operator scheduler set-config` says it. The algorithm is "binpack"
  # (the fuller node first) or "spread" (the emptier one). Where no node has room, jobs whose kind is switched on here send off
  # what is of a job of lower priority (by 10 at least).
  # default_scheduler_config {
  #   scheduler_algorithm             = "binpack"
  #   memory_oversubscription_enabled = false
  #   reject_job_registration         = false
  #   pause_eval_broker               = false
  #   preemption_config {
  #     system_scheduler_enabled   = true
  #     sysbatch_scheduler_enabled = false
  #     batch_scheduler_enabled    = false
  #     service_scheduler_enabled  = false
  #   }
  # }

  # The other servers: names or addresses, with or without a port (4647). This server's own may be among them, so that all servers can
  # have one file. start_join asks once, at the start; retry_join every retry_interval, and at most retry_max rounds (0: no limit)
  # while this server has no region. At most 32.
  # server_join {
  #   start_join     = ["10.0.0.2"]
  #   retry_join     = ["10.0.0.2:4647", "board-3.local"]
  #   retry_max      = 0
  #   retry_interval = "30s"
  #   # Instead of encrypt, and for the first start alone: a server's token (`drover token create -role server`), with which one of those
  #   # servers gives this one the region's key. It is kept in data_dir, and the token may go. It is shown nowhere.
  #   join_token      = "drover-join-AQZnbG9iYWwAAQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHwFfHCqQAABAAIAAAAAAAAAAZXhhbXBsZTogbWFrZSB5b3VyIG93biB0b2tlbiEhISGdHrWM"
  #   join_token_file = "/etc/drover/join-token"
  # }
  # Older names of the same.
  # start_join     = ["10.0.0.2"]
  # retry_join     = ["10.0.0.2:4647"]
  # retry_max      = 0
  # retry_interval = "30s"
}

client {
  enabled = true

  # What jobs can ask for by constraint: ${node.class}, ${meta.rack}; and the pool that the node is in.
  # node_class = "board"
  # node_pool  = "default"
  # meta {
  #   rack = "cellar"
  # }

  # Where the client's own state and the allocations' directories lie; without them, in data_dir.
  # state_dir = "/var/lib/drover/client"
  # alloc_dir = "/var/lib/drover/alloc"

  # The interface whose address tasks are reached at; without it, that of the default route.
  # network_interface = "eth0"

  # Names for some of the machine's addresses, for ports that say `host_network`: those within the ranges, on the interface.
  # Every address of the interface above is "default", too.
  # host_network "lan" {
  #   cidr           = "10.0.0.0/8"
  #   interface      = "eth1"
  #   reserved_ports = "22"
  # }

  # Where ports come from for which jobs name no number.
  # min_dynamic_port = 20000
  # max_dynamic_port = 32000

  # Directories that jobs may mount, by name.
  # host_volume "data" {
  #   path      = "/srv/data"
  #   read_only = false
  # }

  # What the machine has, in MHz and MiB, where the measurement is wrong or should be capped. 0 measures.
  # cpu_total_compute = 0
  # memory_total_mb   = 0
  # disk_total_mb     = 0
  # disk_free_mb      = 0

  # What is kept from jobs, in MHz and MiB, for the system and for drover itself.
  reserved {
    cpu    = 100
    memory = 64
    # disk   = 0
    # reserved_ports = "22,8000-8100"   # never given to tasks, on any address
  }

  # The longest time a task may ask for between its kill signal and its end by force.
  # max_kill_timeout = "30s"

  # How many ended allocations keep their directories and logs.
  # gc_max_allocs = 50

  # How many allocations may be here at a time, but for those that have ended: at most 1024. 0 is as many as a node can take.
  # node_max_allocs = 0

  # No `alloc exec` and no `job action` on this node.
  # disable_remote_exec = false

  # Servers to ask, where the agent has none of its own.
  # servers = ["board-1.local:4647"]
  # server_join {
  #   start_join     = ["board-1.local"]
  #   retry_join     = ["board-1.local:4647"]
  #   retry_max      = 0
  #   retry_interval = "30s"
  #   # For the first start alone: a client's token (`drover token create -role client`), or a file with it. What the node is given for it
  #   # is kept in data_dir, and the token may go.
  #   join_token      = "drover-join-AQZnbG9iYWwAAQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHwBfHCqQAABAAIAAAAAAAAAAZXhhbXBsZTogbWFrZSB5b3VyIG93biB0b2tlbiEhISGOMe0D"
  #   join_token_file = "/etc/drover/join-token"
  # }

  # The older way to say which drivers there are, lists of names with commas between them; and the variables of the agent's environment
  # that no task is given. Any other option is kept and shown, with a warning.
  # options {
  #   "env.denylist"           = "AWS_SECRET_ACCESS_KEY,VAULT_TOKEN"
  #   "driver.raw_exec.enable" = "true"
  #   "driver.allowlist"       = "raw_exec"
  #   "driver.denylist"        = ""
  #   "driver.whitelist"       = ""
  #   "driver.blacklist"       = ""
  # }
}

# Runs a command as it is, with the rights of the agent. Off unless switched on.
plugin "raw_exec" {
  config {
    enabled = true
  }
}

# What /v1/metrics tells, and to whom. With -dev, Prometheus' text is on.
# telemetry {
#   prometheus_metrics         = false
#   publish_allocation_metrics = false   # what each task uses: processors, memory
#   publish_node_metrics       = false   # figures of the machine: cpu, memory, disk, uptime
#   disable_dispatched_job_summary_metrics = false   # true: no summaries of jobs that were dispatched
#   disable_hostname           = false   # true: gauges carry no label "host"
#   use_node_name              = false   # true: that label is the node's name
#   # by the beginnings of names, the longest deciding, and what holds for all other names
#   prefix_filter              = ["+nomad.raft", "-nomad.nomad.worker"]
#   filter_default             = true
# }

# Opens /v1/agent/host, which shows the machine's files and environment.
# enable_debug = false   # with -dev: true, as what is published under telemetry

# Known, and refused by name until they are built (a value that asks for nothing is accepted):
#   acl.enabled, client.cgroup_parent, client.default_ineligible, client.drain_on_shutdown,
#   client.gc_disk_usage_threshold, client.gc_inode_usage_threshold, client.log_file, client.no_host_uuid,
#   client.preferred_address_family, client.reservable_cores, client.reserved.cores, enable_syslog,
#   plugin.raw_exec.config.denied_envvars, plugin.raw_exec.config.denied_host_gids,
#   plugin.raw_exec.config.denied_host_uids, server.client_introduction.enforcement, server.data_dir,
#   server.job_max_count, server.log_file, server.oidc_issuer,
#   server.plan_rejection_tracker.enabled, server.root_key_rotation_threshold,
#   telemetry.allowed_metadata_keys_in_metrics, telemetry.datadog_address,
#   telemetry.include_alloc_metadata_in_metrics, telemetry.statsd_address, telemetry.statsite_address
#
# Known, and without effect here, as a warning says:
#   acl.policy_ttl, acl.replication_token, acl.role_ttl, acl.token_max_expiration_ttl,
#   acl.token_min_expiration_ttl, acl.token_ttl, addresses.serf, advertise.serf,
#   audit, autopilot, client.alloc_mounts_dir, client.artifact, client.bind_wildcard_default_host_network,
#   client.bridge_network_hairpin_mode, client.bridge_network_name, client.bridge_network_subnet,
#   client.bridge_network_subnet_ipv6, client.chroot_env, client.client_max_port, client.client_min_port,
#   client.cni_config_dir, client.cni_path, client.common_plugin_dir, client.cpu_disable_dmidecode,
#   client.fingerprint, client.gc_interval, client.gc_parallel_destroys, client.gc_volumes_on_node_gc,
#   client.host_volume_plugin_dir, client.host_volumes_dir, client.network_speed, client.nomad_service_discovery,
#   client.template, client.users, consul,
#   disable_anonymous_signature, disable_update_check, eventlog, keyring.aead.active, keyring.aead.config,
#   keyring.aead.name, leave_on_interrupt, leave_on_terminate,
#   limits.rpc_handshake_timeout, limits.rpc_max_conns_per_client, plugin.raw_exec.args,
#   plugin.raw_exec.config.no_cgroups, plugin_dir, ports.serf, reporting, rpc, sentinel,
#   server.acl_token_gc_threshold, server.authoritative_region, server.client_introduction.default_identity_ttl,
#   server.client_introduction.max_identity_ttl, server.csi_plugin_gc_threshold,
#   server.csi_volume_claim_gc_interval, server.csi_volume_claim_gc_threshold,
#   server.default_scheduler_config.node_limit_for_feasibility_checks, server.deploy_query_rate_limit,
#   server.license_path, server.non_production, server.non_voting_server,
#   server.plan_apply_pipeline, server.plan_rejection_tracker.node_threshold,
#   server.plan_rejection_tracker.node_window, server.protocol_version, server.raft_boltdb, server.raft_logstore,
#   server.raft_multiplier, server.raft_protocol, server.raft_snapshot_interval, server.raft_snapshot_threshold,
#   server.raft_trailing_logs, server.redundancy_zone, server.rejoin_after_leave,
#   server.root_key_gc_interval, server.root_key_gc_threshold,
#   server.start_timeout, server.upgrade_version, syslog_facility,
#   telemetry.circonus_api_app, telemetry.circonus_api_token, telemetry.circonus_api_url,
#   telemetry.circonus_broker_id, telemetry.circonus_broker_select_tag, telemetry.circonus_check_display_name,
#   telemetry.circonus_check_force_metric_activation, telemetry.circonus_check_id,
#   telemetry.circonus_check_instance_id, telemetry.circonus_check_search_tag, telemetry.circonus_check_tags,
#   telemetry.circonus_submission_interval, telemetry.circonus_submission_url, telemetry.collection_interval,
#   telemetry.datadog_tags, telemetry.disable_allocation_hook_metrics, telemetry.disable_quota_utilization_metrics,
#   telemetry.disable_rpc_rate_metrics_labels, telemetry.in_memory_collection_interval,
#   telemetry.in_memory_retention_period, tls.rpc, tls.rpc_upgrade_mode, tls.verify_server_hostname, ui, vault
