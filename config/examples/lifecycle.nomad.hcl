# Tasks in order: `prepare` must succeed before the others start, `watch` runs beside the main task as long as it does,
# `clean` runs after the main task has ended. They share the allocation's directory, $NOMAD_ALLOC_DIR.

job "lifecycle" {
  group "work" {
    task "prepare" {
      driver = "raw_exec"

      lifecycle {
        hook    = "prestart"
        sidecar = false
      }

      config {
        command = "/bin/sh"
        args    = ["-c", "echo prepared > $NOMAD_ALLOC_DIR/data/state; echo prepared"]
      }

      resources {
        cpu    = 10
        memory = 10
      }
    }

    task "watch" {
      driver = "raw_exec"

      lifecycle {
        hook    = "prestart"
        sidecar = true
      }

      config {
        command = "/bin/sh"
        args    = ["-c", "while true; do echo state: $(cat $NOMAD_ALLOC_DIR/data/state); sleep 5; done"]
      }

      resources {
        cpu    = 10
        memory = 10
      }
    }

    task "work" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "n=0; while true; do n=$((n+1)); echo step $n > $NOMAD_ALLOC_DIR/data/state; sleep 4; done"]
      }

      resources {
        cpu    = 20
        memory = 16
      }
    }

    task "clean" {
      driver = "raw_exec"

      lifecycle {
        hook = "poststop"
      }

      config {
        command = "/bin/sh"
        args    = ["-c", "rm -f $NOMAD_ALLOC_DIR/data/state; echo cleaned"]
      }

      resources {
        cpu    = 10
        memory = 10
      }
    }
  }
}
