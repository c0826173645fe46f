# Commands that operators run beside a task by name: `drover job action -job counter -group counter reset`.

job "counter" {
  group "counter" {
    task "count" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "while true; do echo . >> local/count; echo counting; sleep 1; done"]
      }

      # They run in the task's directory, with its environment, user and limits. Changing them restarts nothing.
      action "show" {
        command = "/bin/sh"
        args    = ["-c", "wc -l < local/count"]
      }

      action "reset" {
        command = "/bin/sh"
        args    = ["-c", "echo resetting ${NOMAD_TASK_NAME} of $NOMAD_ALLOC_ID; : > local/count"]
      }

      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
