# One of three servers of a region: `drover agent -config /etc/drover`. The same file serves all three but for `name` and the
# addresses of `bind_addr` and `advertise`; config/agent.hcl explains every key.
#
# The key that they share lies in a file of its own beside this one, the same on all three, which only root can read:
#
#   umask 077
#   echo "server { encrypt = \"$(drover operator gossip keyring generate)\" }" > /etc/drover/encrypt.hcl
#
# Or without any such file: `drover server init` on one of them, which then begins the region, whatever bootstrap_expect says; `drover token create -role
# server -uses 2` there; and `drover join` on the others.

region     = "global"
datacenter = "dc1"
name       = "server-1"

data_dir = "/var/lib/drover"

# The other servers reach this one here, at UDP port 4647.
bind_addr = "10.0.0.1"

# The HTTP API stays on this machine. Where others are to ask it, it has to be encrypted: tls in config/agent.hcl.
addresses {
  http = "127.0.0.1"
}

# What the others are told; needed where they reach this machine at another address than bind_addr.
advertise {
  rpc = "10.0.0.1"
}

server {
  enabled = true

  # The region begins once three servers with empty data directories have met. A server that comes later joins it, whatever it expects.
  bootstrap_expect = 3

  # All three, this one among them.
  server_join {
    retry_join     = ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
    retry_interval = "10s"
  }
}
