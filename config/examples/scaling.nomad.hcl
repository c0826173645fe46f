# As many as somebody wants, within limits: `drover job scale workers 3`.

job "workers" {
  type = "batch"

  group "workers" {
    # Beyond these, a job file and `job scale` are refused. Without a `count`, as few as there may be.
    scaling {
      min = 1
      max = 5

      # For the program that decides: it reads this from `/v1/scaling/policies`, and writes to `/v1/job/workers/scale`.
      policy {
        cooldown = "1m"
      }
    }

    task "work" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "echo worker $NOMAD_ALLOC_INDEX; exec sleep 1000"]
      }

      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
