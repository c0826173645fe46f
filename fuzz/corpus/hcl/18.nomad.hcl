
job "quoting" {
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo \"tab\t\" 'single' \\ $PATH $$ \u00e9 %{ if false }no%{ endif }"]
        ulimit { nofile = "2048:4096" }
      }
    }
  }
}
