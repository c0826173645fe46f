# A process that wants to finish what it does: on stop it waits two seconds (shutdown_delay), gets SIGTERM instead of SIGINT,
# and has ten seconds to end before it is killed.
#
#   drover job stop graceful

job "graceful" {
  group "graceful" {
    task "serve" {
      driver         = "raw_exec"
      kill_signal    = "SIGTERM"
      kill_timeout   = "10s"
      shutdown_delay = "2s"

      config {
        command = "/bin/sh"
        args    = ["-c", "trap 'echo finishing; sleep 3; echo done; exit 0' TERM; echo serving; while true; do sleep 1; done"]
      }

      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
