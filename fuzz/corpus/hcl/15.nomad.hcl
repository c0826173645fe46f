
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
