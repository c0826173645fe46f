
variable "ports" {
  type = map(object({ listen = number, name = optional(string) }))
  default = {
    http  = { listen = 80 }
    https = { listen = 443, name = "secure" }
  }
}
job "objects" {
  group "g" {
    dynamic "task" {
      for_each = var.ports
      iterator = port
      labels   = ["serve-${port.key}"]
      content {
        driver = "raw_exec"
        config {
          command = "/bin/serve"
          args    = [format("--listen=%05d", port.value.listen), coalesce(port.value.name, port.key)]
        }
      }
    }
  }
}
