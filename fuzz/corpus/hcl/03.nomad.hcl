
# A web server behind nothing.
job "web" {
  datacenters = ["dc1", "edge-*"]
  type        = "service"
  priority    = 70

  group "web" {
    count = 3

    restart {
      attempts = 10
      interval = "5m"
      delay    = "25s"
      mode     = "delay"
    }

    task "server" {
      driver = "exec"
      user   = "www-data"

      config {
        command = "/usr/sbin/nginx"
        args    = ["-g", "daemon off;"]
      }

      resources {
        cpu    = 500
        memory = 256
      }
    }
  }
}
