//! Job files of the kind that people publish, with what is built only. Each must parse, decode and be valid.

use super::*;
use crate::jobspec::{decode_job, render};
use crate::model::validate::{Limits, validate};

pub const SAMPLES: [&str; 20] = [
    // The smallest.
    "job \"a\" {\n  group \"g\" {\n    task \"t\" {\n      driver = \"raw_exec\"\n    }\n  }\n}\n",
    // A task directly under the job.
    "job \"short\" {\n  type = \"batch\"\n  task \"t\" {\n    driver = \"exec\"\n    config {\n      command = \"/bin/true\"\n    }\n  }\n}\n",
    r#"
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
"#,
    r#"
job "nightly" {
  type = "batch"
  meta {
    owner = "ops"
    run   = "1"
  }
  group "backup" {
    ephemeral_disk { size = 1000 }
    task "dump" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args = ["-c", <<EOF
set -e
echo "$${HOME} on ${node.unique.name}"
date > ${NOMAD_ALLOC_DIR}/done
EOF
        ]
      }
      kill_timeout = "2m"
    }
  }
}
"#,
    r#"
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
"#,
    r#"
job "constrained" {
  constraint {
    attribute = "${attr.kernel.name}"
    value     = "linux"
  }
  constraint {
    attribute = "${attr.cpu.arch}"
    operator  = "regexp"
    value     = "^(arm64|amd64)$"
  }
  group "g" {
    constraint {
      attribute = "${attr.kernel.version}"
      operator  = "version"
      value     = ">= 4.19, < 7"
    }
    constraint {
      attribute    = "${meta.features}"
      set_contains = "camera,gps"
    }
    task "t" {
      driver = "exec"
      config { command = "/bin/sleep" }
      constraint {
        attribute = "${meta.rack}"
        operator  = "is_set"
      }
    }
  }
}
"#,
    r#"
job "lifecycle" {
  group "g" {
    task "init" {
      driver = "raw_exec"
      lifecycle { hook = "prestart" }
      config { command = "/bin/mkdir" }
    }
    task "proxy" {
      driver = "raw_exec"
      lifecycle {
        hook    = "prestart"
        sidecar = true
      }
      config { command = "/bin/proxy" }
    }
    task "main" {
      driver = "raw_exec"
      leader = true
      config { command = "/bin/app" }
    }
    task "clean" {
      driver = "raw_exec"
      lifecycle { hook = "poststop" }
      config { command = "/bin/rm" }
    }
  }
}
"#,
    r#"
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
"#,
    r#"
job "signals" {
  group "g" {
    shutdown_delay = "10s"
    task "t" {
      driver         = "exec"
      kill_signal    = "SIGTERM"
      kill_timeout   = "45s"
      shutdown_delay = "1s"
      config { command = "/bin/app" }
      logs {
        max_files     = 2
        max_file_size = 5
      }
    }
  }
}
"#,
    r#"
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
"#,
    r#"{"job": {"json": {"type": "batch", "group": {"g": {"task": {"t": {"driver": "raw_exec",
      "config": {"command": "/bin/echo", "args": ["hello ${NOMAD_JOB_NAME}"]},
      "resources": {"cpu": 50, "memory": 20}}}}}}}}"#,
    r#"
job "heredoc" {
  group "g" {
    task "t" {
      driver = "exec"
      config {
        command = "/usr/bin/python3"
        args    = ["-c", <<-EOT
          import os
          for key in os.environ:
              print(f"{key}")
          EOT
        ]
      }
      env = {
        CONFIG = <<-EOF
          [server]
          listen = "${NOMAD_ADDR_http}"
          mode = %{ if true }"on"%{ else }"off"%{ endif }
        EOF
      }
    }
  }
}
"#,
    r#"
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
"#,
    r#"
/* Several comments, */ // and styles
job "comments" { # here too
  group "g" {
    // nothing
    task "t" {
      driver = "raw_exec" # the driver
      config {
        command = "/bin/true" /* inline */
      }
    }
  }
}
"#,
    r#"
locals {
  common_env = {
    TZ   = "UTC"
    LANG = "C.UTF-8"
  }
  arch = "arm64"
}
job "merge" {
  group "g" {
    task "t" {
      driver = "raw_exec"
      config { command = "/opt/${local.arch}/run" }
      env = merge(local.common_env, {
        LEVEL = upper("debug")
        LIST  = jsonencode(["a", "b"])
      })
      meta = { for k, v in local.common_env : "env_${lower(k)}" => v }
    }
  }
}
"#,
    r#"
job "agent-per-site" {
  datacenters = ["site-*"]
  priority = 90
  group "collector" {
    count = 12
    meta { tier = "edge" }
    restart {
      attempts = 30
      interval = "1d"
      delay    = "15s"
      mode     = "delay"
    }
    task "collector" {
      driver = "exec"
      config {
        command = "local/collector"
        args = ["--site", "${node.datacenter}", "--node", "${node.unique.id}", "--class=${node.class}"]
      }
      resources {
        cpu    = 100
        memory = 32
      }
    }
  }
}
"#,
    r#"
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
"#,
    r#"
job "quoting" {
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo \"tab\t\" 'single' \\ $PATH $$ \u00e9 %{ if false }no%{ endif }"]
        ulimit { nofile = "2048:4096" }
      }
    }
  }
}
"#,
    r#"
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
"#,
    r#"
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
"#,
];

#[test]
fn all_are_taken() {
    for text in SAMPLES {
        let parsed = read(text);
        let problems = render(&[parsed.diagnostics.as_slice(), parsed.not_supported.as_slice()].concat());
        assert_eq!(problems, "", "{text}");
        let spec = decode_job(&parsed.job.unwrap_or_default()).unwrap_or_else(|e| panic!("{text}\n{e}"));
        assert_eq!(validate(&spec, &Limits::default()).error_text(), "", "{text}");
    }
}
