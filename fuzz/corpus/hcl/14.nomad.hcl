
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
