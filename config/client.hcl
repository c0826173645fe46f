# A machine that runs tasks and no server: `drover agent -config /etc/drover`. config/agent.hcl explains every key.
#
# It joins its region once, with a token that a server has made, and from then on knows who it is by what is in its data directory:
#
#   drover token create -role client                            # at a server
#   drover join -data-dir /var/lib/drover <token> 10.0.0.1      # here, before the agent starts

region     = "global"
datacenter = "dc1"
name       = "node-1"

data_dir = "/var/lib/drover"

# The HTTP API of this machine. The node itself listens nowhere: it dials its servers.
bind_addr = "127.0.0.1"

client {
  enabled = true

  # All servers that are known today. The node learns of others from its region, and keeps what it has learnt.
  server_join {
    retry_join     = ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
    retry_interval = "10s"
  }
}

# Runs tasks as they are, without isolation: off, unless it is said.
plugin "raw_exec" {
  config {
    enabled = true
  }
}
