
job "batch-retry" {
  type = "batch"
  reschedule {
    attempts  = 3
    interval  = "1h"
    delay     = "30s"
    delay_function = "constant"
    unlimited = false
  }
  group "g" {
    restart {
      attempts = 0
      mode     = "fail"
    }
    task "t" {
      driver = "raw_exec"
      config { command = "/opt/once.sh" }
    }
  }
}
