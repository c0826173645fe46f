# Blocks made from data: one task per sensor, each with an environment made from a map.

variable "sensors" {
  type = map(map(string))

  default = {
    temperature = { unit = "celsius", every = "4" }
    humidity    = { unit = "percent", every = "6" }
  }
}

job "sensors" {
  group "sensors" {
    dynamic "task" {
      for_each = var.sensors
      iterator = sensor
      labels   = [sensor.key]

      content {
        driver = "raw_exec"

        env = {
          for name, value in sensor.value : upper(name) => value
        }

        config {
          command = "/bin/sh"
          args    = ["-c", "while true; do echo $NOMAD_TASK_NAME in $UNIT; sleep $EVERY; done"]
        }

        resources {
          cpu    = 10
          memory = 16
        }
      }
    }
  }
}
