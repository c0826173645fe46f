{"job": {"json": {"type": "batch", "group": {"g": {"task": {"t": {"driver": "raw_exec",
      "config": {"command": "/bin/echo", "args": ["hello ${NOMAD_JOB_NAME}"]},
      "resources": {"cpu": 50, "memory": 20}}}}}}}}