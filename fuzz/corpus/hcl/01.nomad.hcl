job "a" {
  group "g" {
    task "t" {
      driver = "raw_exec"
    }
  }
}
