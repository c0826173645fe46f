# What a task knows about itself: meta of job, group and task (the innermost wins), interpolation when the task starts, and
# a whole script in the job file. ${...} is drover's, in a script too: the shell's variables are written without braces.

job "environment" {
  meta {
    owner = "nobody"
    site  = "cellar"
  }

  group "environment" {
    count = 1

    meta {
      owner = "everybody"
    }

    task "show" {
      driver = "raw_exec"

      meta {
        purpose = "an example"
      }

      env {
        NODE  = "${node.unique.name}"
        WHERE = "${node.datacenter}/${NOMAD_META_site}"
        PAUSE = "10"
        LABEL = "${NOMAD_JOB_NAME}.${NOMAD_GROUP_NAME}[${NOMAD_ALLOC_INDEX}]"
      }

      config {
        command = "/bin/sh"
        args = ["-c", <<-SCRIPT
          set -eu
          echo "$LABEL on $NODE in $WHERE, owned by $NOMAD_META_owner, $NOMAD_META_purpose"
          echo "task directory: $NOMAD_TASK_DIR, shared: $NOMAD_ALLOC_DIR"
          env | sort | grep '^NOMAD_'
          while true; do
            sleep "$PAUSE"
            echo "still here"
          done
        SCRIPT
        ]
      }

      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
