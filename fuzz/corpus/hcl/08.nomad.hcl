
job "rolling" {
  update {
    max_parallel      = 2
    health_check      = "task_states"
    min_healthy_time  = "30s"
    healthy_deadline  = "10m"
    progress_deadline = "15m"
    auto_revert       = true
    canary            = 1
    auto_promote      = true
    stagger           = "1m"
  }
  reschedule {
    delay          = "30s"
    delay_function = "fibonacci"
    max_delay      = "10m"
    unlimited      = true
  }
  migrate {
    max_parallel     = 1
    health_check     = "task_states"
    min_healthy_time = "10s"
    healthy_deadline = "2m"
  }
  group "g" {
    count = 4
    update { max_parallel = 1 }
    task "t" {
      driver = "exec"
      config { command = "/bin/app" }
    }
  }
}
