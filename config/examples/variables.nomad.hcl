# Variables with types, defaults and a check; locals; functions. Values come from -var, -var-file or NOMAD_VAR_ in the
# environment:
#
#   drover job run -var greeting=hi -var 'names=["ann","bob"]' config/examples/variables.nomad.hcl

variable "greeting" {
  type        = string
  default     = "good morning"
  description = "How each name is greeted."

  validation {
    condition     = length(split(" ", var.greeting)) <= 3
    error_message = "The greeting must have at most three words."
  }
}

variable "names" {
  type    = list(string)
  default = ["cellar", "attic", "garden"]
}

variable "pause_seconds" {
  type    = number
  default = 5
}

locals {
  title    = "${title(var.greeting)}!"
  sentence = join(", ", [for name in sort(var.names) : upper(name) if name != "garden"])
}

job "greeter" {
  meta {
    names  = join(",", var.names)
    digest = substr(sha256(local.sentence), 0, 8)
  }

  group "greeter" {
    task "greet" {
      driver = "raw_exec"

      env {
        LINE  = format("%s %s", local.title, local.sentence)
        PAUSE = var.pause_seconds
      }

      config {
        command = "/bin/sh"
        args    = ["-c", "while true; do echo \"$LINE\"; sleep \"$PAUSE\"; done"]
      }

      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
