
job "signals" {
  group "g" {
    shutdown_delay = "10s"
    task "t" {
      driver         = "exec"
      kill_signal    = "SIGTERM"
      kill_timeout   = "45s"
      shutdown_delay = "1s"
      config { command = "/bin/app" }
      logs {
        max_files     = 2
        max_file_size = 5
      }
    }
  }
}
