# A process that fails now and then: it is started again after a delay. Three failures within a minute are what the policy
# bears; then, in mode "delay", it rests until the minute is over ("fail" would give the allocation up).

job "flaky" {
  group "flaky" {
    restart {
      attempts = 3
      interval = "1m"
      delay    = "5s"
      mode     = "delay"
    }

    task "flaky" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "echo working; sleep 8; echo failing >&2; exit 3"]
      }

      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
