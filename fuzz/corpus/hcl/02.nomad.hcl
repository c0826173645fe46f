job "short" {
  type = "batch"
  task "t" {
    driver = "exec"
    config {
      command = "/bin/true"
    }
  }
}
