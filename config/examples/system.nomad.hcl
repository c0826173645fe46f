# One on every node: each machine that may run it has one, and each that comes later gets its own.

job "watcher" {
  type = "system"

  # A change is tried on a fifth of the nodes first, one after the other; when all of them are well, the rest follows. If one of them
  # is not, the version before comes back.
  update {
    max_parallel = 1
    canary       = 20
    auto_promote = true
    auto_revert  = true
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
