# Launched at times, as a child of its own each: `backup/periodic-<unix time>`.

job "backup" {
  type = "batch"

  # Every night at half past two, and at noon of each first Monday of a month. An hour that a change of the clocks skips
  # launches nothing, one that it repeats launches once.
  periodic {
    crons            = ["30 2 * * *", "0 12 * * mon#1"]
    time_zone        = "Europe/Berlin"
    prohibit_overlap = true
  }

  group "backup" {
    task "copy" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "echo copying for $NOMAD_JOB_PARENT_ID"]
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
