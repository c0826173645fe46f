# Where a job may run. `drover node status -verbose` lists a node's attributes.

job "placed" {
  datacenters = ["*"]

  constraint {
    attribute = "${attr.kernel.name}"
    value     = "linux"
  }

  constraint {
    attribute = "${attr.cpu.arch}"
    operator  = "regexp"
    value     = "^(amd64|arm64|arm)$"
  }

  group "placed" {
    # Numbers are compared as numbers.
    constraint {
      attribute = "${attr.cpu.numcores}"
      operator  = ">="
      value     = "1"
    }

    task "where" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "while true; do echo on ${node.unique.name}, ${attr.cpu.arch}; sleep 5; done"]
      }

      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
