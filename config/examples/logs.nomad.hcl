# A talkative process whose output is bounded: at most three files of 1 MiB for each of stdout and stderr; the oldest goes.
#
#   drover alloc logs -f -job talkative

job "talkative" {
  group "talkative" {
    ephemeral_disk {
      size = 20
    }

    task "talk" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "n=0; while true; do n=$((n+1)); echo line $n; [ $((n % 100)) -ne 0 ] || { echo $n lines >&2; sleep 1; }; done"]
      }

      logs {
        max_files     = 3
        max_file_size = 1
      }

      resources {
        cpu    = 50
        memory = 16
      }
    }
  }
}
