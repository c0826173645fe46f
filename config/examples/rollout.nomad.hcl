# A service that is changed step by step: first one allocation of the new version beside the old ones, and once somebody has
# said that it is good, the others, one after the other. A new version that fails is taken back by itself.
#
#   drover job run config/examples/rollout.nomad.hcl
#
# Change the text below and run it again: it waits for a word.
#
#   drover job promote rollout

job "rollout" {
  group "web" {
    count = 2

    update {
      max_parallel      = 1
      canary            = 1
      min_healthy_time  = "2s"
      healthy_deadline  = "1m"
      progress_deadline = "5m"
      auto_revert       = true
    }

    task "serve" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "echo the first version; while true; do sleep 3; done"]
      }

      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
