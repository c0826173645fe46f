
job "stop-me" {
  type = "service"
  group "one" {
    task "t" {
      driver = "mock_driver"
      config {
        run_for   = "10s"
        exit_code = 1
      }
      restart {
        attempts = 1
        delay    = "1s"
        interval = "10s"
        mode     = "fail"
      }
    }
  }
}
