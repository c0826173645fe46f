# Runs nothing by itself: `drover job dispatch -meta size=small thumbnail picture.txt` runs it once, as a child of its own, with that file.
# With `-idempotency-token` whoever repeats a dispatch gets the child that there is.

job "thumbnail" {
  type = "batch"

  parameterized {
    payload       = "required"
    meta_required = ["size"]
    meta_optional = ["title"]
  }

  group "work" {
    task "shrink" {
      driver = "raw_exec"

      # The payload, below the task's directory local/.
      dispatch_payload {
        file = "picture"
      }

      # An optional key that a dispatch does not name is there, and empty.
      config {
        command = "/bin/sh"
        args    = ["-c", "wc -c < local/picture; echo $NOMAD_META_SIZE, ${NOMAD_META_TITLE}"]
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
