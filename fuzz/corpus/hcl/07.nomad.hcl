
job "lifecycle" {
  group "g" {
    task "init" {
      driver = "raw_exec"
      lifecycle { hook = "prestart" }
      config { command = "/bin/mkdir" }
    }
    task "proxy" {
      driver = "raw_exec"
      lifecycle {
        hook    = "prestart"
        sidecar = true
      }
      config { command = "/bin/proxy" }
    }
    task "main" {
      driver = "raw_exec"
      leader = true
      config { command = "/bin/app" }
    }
    task "clean" {
      driver = "raw_exec"
      lifecycle { hook = "poststop" }
      config { command = "/bin/rm" }
    }
  }
}
