# The smallest service: one process that says something every few seconds and is kept running.
#
#   drover job run config/examples/hello.nomad.hcl
#   drover job status hello
#   drover alloc logs -job hello

job "hello" {
  group "hello" {
    task "hello" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "while true; do echo hello from drover; sleep 3; done"]
      }

      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
