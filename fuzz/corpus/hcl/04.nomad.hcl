
job "nightly" {
  type = "batch"
  meta {
    owner = "ops"
    run   = "1"
  }
  group "backup" {
    ephemeral_disk { size = 1000 }
    task "dump" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args = ["-c", <<EOF
set -e
echo "$${HOME} on ${node.unique.name}"
date > ${NOMAD_ALLOC_DIR}/done
EOF
        ]
      }
      kill_timeout = "2m"
    }
  }
}
