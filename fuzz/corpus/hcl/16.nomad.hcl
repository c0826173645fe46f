
job "agent-per-site" {
  datacenters = ["site-*"]
  priority = 90
  group "collector" {
    count = 12
    meta { tier = "edge" }
    restart {
      attempts = 30
      interval = "1d"
      delay    = "15s"
      mode     = "delay"
    }
    task "collector" {
      driver = "exec"
      config {
        command = "local/collector"
        args = ["--site", "${node.datacenter}", "--node", "${node.unique.id}", "--class=${node.class}"]
      }
      resources {
        cpu    = 100
        memory = 32
      }
    }
  }
}
