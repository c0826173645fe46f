# One on every node: each machine that may run it has one, and each that comes later gets its own.

job "watcher" {
  type = "system"

  # A change reaches one node in ten seconds.
  update {
    max_parallel = 1
    stagger      = "10s"
  }

  group "watch" {
    task "watch" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "echo watching $NOMAD_DC; exec sleep 100000"]
      }

      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
