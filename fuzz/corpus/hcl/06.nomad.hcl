
job "constrained" {
  constraint {
    attribute = "${attr.kernel.name}"
    value     = "linux"
  }
  constraint {
    attribute = "${attr.cpu.arch}"
    operator  = "regexp"
    value     = "^(arm64|amd64)$"
  }
  group "g" {
    constraint {
      attribute = "${attr.kernel.version}"
      operator  = "version"
      value     = ">= 4.19, < 7"
    }
    constraint {
      attribute    = "${meta.features}"
      set_contains = "camera,gps"
    }
    task "t" {
      driver = "exec"
      config { command = "/bin/sleep" }
      constraint {
        attribute = "${meta.rack}"
        operator  = "is_set"
      }
    }
  }
}
