
variable "image_version" {
  type        = string
  default     = "1.2.3"
  description = "What to run."
}
variable "instances" {
  type    = number
  default = 2
  validation {
    condition     = var.instances > 0 && var.instances <= 10
    error_message = "Between 1 and 10 instances."
  }
}
locals {
  full  = "app-${var.image_version}"
  names = [for i in range(var.instances) : "worker-${i}"]
}
job "app" {
  dynamic "group" {
    for_each = local.names
    labels   = [group.value]
    content {
      task "run" {
        driver = "raw_exec"
        config { command = "/opt/${local.full}/bin/run" }
        env {
          INDEX = group.key
          ALL   = join(",", local.names)
        }
      }
    }
  }
}
