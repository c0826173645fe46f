
job "heredoc" {
  group "g" {
    task "t" {
      driver = "exec"
      config {
        command = "/usr/bin/python3"
        args    = ["-c", <<-EOT
          import os
          for key in os.environ:
              print(f"{key}")
          EOT
        ]
      }
      env = {
        CONFIG = <<-EOF
          [server]
          listen = "${NOMAD_ADDR_http}"
          mode = %{ if true }"on"%{ else }"off"%{ endif }
        EOF
      }
    }
  }
}
