# Work that ends: two instances count a little and exit 0; the job is dead when both are complete.

job "count" {
  type = "batch"

  group "count" {
    count = 2

    # A failed attempt is repeated on this node at most twice.
    restart {
      attempts = 2
      interval = "5m"
      delay    = "5s"
      mode     = "fail"
    }

    # Then it would be placed once more, elsewhere: stored, and without effect until drover has built it.
    reschedule {
      attempts  = 1
      interval  = "1h"
      unlimited = false
    }

    task "count" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "for n in 1 2 3 4 5; do echo $NOMAD_ALLOC_INDEX: $n; sleep 1; done"]
      }

      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
