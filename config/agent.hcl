# The agent's configuration: `drover agent -config /etc/drover/agent.hcl`, or a directory of such files, read in
# alphabetical order, later ones winning. An unknown key is an error, never ignored.
#
# This file makes one machine both server and client. Uncommented keys are what such a machine needs; commented ones
# show their defaults.

# Where this machine is. Jobs choose datacenters by name or by glob.
region     = "global"
datacenter = "dc1"

# Defaults to the host name.
# name = "board-1"

# Everything that outlives a process: the region's state, the allocations' directories, the keeper's journal.
data_dir = "/var/lib/drover"

# The address that is listened on. Callers are not authenticated yet: keep it on the loopback, or behind a proxy that does.
bind_addr = "127.0.0.1"

# TRACE, DEBUG, INFO, WARN, ERROR or OFF. Read again on SIGHUP.
log_level = "INFO"
# One JSON object per line instead of text.
# log_json = false

ports {
  http = 4646
}

# An address of its own for the HTTP API; without it, bind_addr.
# addresses {
#   http = "127.0.0.1"
# }

server {
  enabled = true

  # How many servers a new region waits for before it elects a leader.
  bootstrap_expect = 1

  # How long a node may be silent beyond its promised heartbeat before it counts as down.
  # heartbeat_grace = "10s"
  # The shortest interval between two heartbeats of a node.
  # min_heartbeat_ttl = "10s"

  # Heartbeats are spread so that the servers hear no more of them than this in a second.
  # max_heartbeats_per_second = 50

  # How many scheduler workers think at once; without it, one for each processor.
  # num_schedulers = 2

  # How many versions of a job are kept (at most 100), how long a source is kept with them (at most 4 MiB), and the
  # priority of a job that names none.
  # job_tracked_versions = 6
  # job_max_source_size  = "1M"
  # job_default_priority = 50

  # How many changes the event stream can be read again from.
  # event_buffer_size = 100

  # Search by parts of names: whether it is answered, how many objects of a kind it looks at, how many matches it tells.
  # search {
  #   fuzzy_enabled   = true
  #   limit_query     = 20
  #   limit_results   = 100
  #   min_term_length = 2
  # }
}

client {
  enabled = true

  # What jobs can ask for by constraint: ${node.class}, ${meta.rack}.
  # node_class = "board"
  # meta {
  #   rack = "cellar"
  # }

  # The interface whose address tasks are reached at; without it, that of the default route.
  # network_interface = "eth0"

  # What the machine has, in MHz and MiB, where the measurement is wrong or should be capped. 0 measures.
  # cpu_total_compute = 0
  # memory_total_mb   = 0

  # What is kept from jobs, in MHz and MiB, for the system and for drover itself.
  reserved {
    cpu    = 100
    memory = 64
  }

  # The longest time a task may ask for between its kill signal and its end by force.
  # max_kill_timeout = "30s"

  # How many ended allocations keep their directories and logs.
  # gc_max_allocs = 50             # other values are not supported yet
}

# Runs a command as it is, with the rights of the agent. Off unless switched on.
plugin "raw_exec" {
  config {
    enabled = true
  }
}

# What /v1/metrics tells, and to whom. With -dev, Prometheus' text is on.
# telemetry {
#   prometheus_metrics   = false
#   publish_node_metrics = false   # figures of the machine: cpu, memory, disk, uptime
#   disable_hostname     = false   # true: gauges carry no label "host"
#   use_node_name        = false   # true: that label is the node's name
# }

# Opens /v1/agent/host, which shows the machine's files and environment.
# enable_debug = false
