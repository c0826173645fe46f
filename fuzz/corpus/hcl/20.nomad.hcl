
job "disk" {
  type = "batch"
  group "g" {
    count = 2
    ephemeral_disk {
      size    = "500"
      sticky  = false
      migrate = false
    }
    task "t" {
      driver = "exec"
      config { command = "/bin/dd" }
      logs {
        max_files     = 4
        max_file_size = 100
        disabled      = true
      }
    }
  }
}
