//! Job files of the kind that people publish, with what is built only. Each must parse, decode and be valid.

use super::*;
use crate::{decode_job, render};
use model::validate::{Limits, validate};

pub const SAMPLES: [&str; 21] = [
    // Spread out, with places that are liked better.
    r#"
job "wide" {
  spread {
    attribute = "${node.datacenter}"
    weight    = 100
    target "us-east1" { percent = 60 }
    target "us-west1" { percent = 40 }
  }
  affinity {
    attribute = "${node.class}"
    value     = "big"
    weight    = -20
  }
  group "g" {
    count = 10
    spread { attribute = "${meta.rack}" }
    affinity {
      attribute    = "${attr.kernel.version}"
      version      = ">= 5.4"
    }
    task "t" {
      driver = "raw_exec"
      affinity {
        attribute        = "${meta.tags}"
        set_contains_any = "ssd,nvme"
      }
    }
  }
}
"#,
    // The smallest.
    include_str!("../../../fuzz/corpus/hcl/01.nomad.hcl"),
    // A task directly under the job.
    include_str!("../../../fuzz/corpus/hcl/02.nomad.hcl"),
    include_str!("../../../fuzz/corpus/hcl/03.nomad.hcl"),
    include_str!("../../../fuzz/corpus/hcl/04.nomad.hcl"),
    include_str!("../../../fuzz/corpus/hcl/05.nomad.hcl"),
    include_str!("../../../fuzz/corpus/hcl/06.nomad.hcl"),
    include_str!("../../../fuzz/corpus/hcl/07.nomad.hcl"),
    include_str!("../../../fuzz/corpus/hcl/08.nomad.hcl"),
    include_str!("../../../fuzz/corpus/hcl/09.nomad.hcl"),
    include_str!("../../../fuzz/corpus/hcl/10.nomad.hcl"),
    include_str!("../../../fuzz/corpus/hcl/11.nomad.hcl"),
    include_str!("../../../fuzz/corpus/hcl/12.nomad.hcl"),
    include_str!("../../../fuzz/corpus/hcl/13.nomad.hcl"),
    include_str!("../../../fuzz/corpus/hcl/14.nomad.hcl"),
    include_str!("../../../fuzz/corpus/hcl/15.nomad.hcl"),
    include_str!("../../../fuzz/corpus/hcl/16.nomad.hcl"),
    include_str!("../../../fuzz/corpus/hcl/17.nomad.hcl"),
    include_str!("../../../fuzz/corpus/hcl/18.nomad.hcl"),
    include_str!("../../../fuzz/corpus/hcl/19.nomad.hcl"),
    include_str!("../../../fuzz/corpus/hcl/20.nomad.hcl"),
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
