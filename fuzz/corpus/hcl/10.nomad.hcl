
job "multi" {
  region    = "global"
  namespace = "default"
  node_pool = "default"
  all_at_once = true
  group "cache" {
    task "redis" {
      driver = "docker"
      config {
        image = "redis:7"
        labels {
          team = "edge"
        }
        logging {
          type = "journald"
          config {
            tag = "redis"
          }
        }
      }
    }
  }
  group "api" {
    count = 0
    task "api" {
      driver = "docker"
      config {
        image   = "registry.local/api:latest"
        command = "serve"
        args    = ["--listen", "0.0.0.0:${NOMAD_PORT_http}", "--name=${NOMAD_ALLOC_NAME}"]
      }
      env {
        DB = "postgres://user:pass@${attr.unique.network.ip-address}:5432/db"
      }
    }
  }
}
