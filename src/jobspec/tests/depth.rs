//! The deepest nesting that the parser lets through, and the shallowest that it does not.

use super::read;

/// What the parser lets through at its own limits must not overflow the stack later on.
#[test]
fn the_deepest_allowed_nesting_is_evaluated() {
    for depth in [50, 61, 62, 63, 64, 65] {
        for (open, middle, close) in [
            ("[", "1", "]"),
            ("(", "1", ")"),
            ("{ a = ", "1", " }"),
            ("\"${", "\"x\"", "}\""),
            ("[for x in [1]: ", "1", "]"),
            ("flatten([", "1", "])"),
            ("!", "true", ""),
            ("true ? 1 : ", "1", ""),
        ] {
            let sum = vec!["1"; 128].join(" + ");
            for middle in [middle, sum.as_str()] {
                let value = format!("{}{middle}{}", open.repeat(depth), close.repeat(depth));
                let text = format!(
                    "locals {{\n a = {value}\n}}\njob \"x\" {{\n group \"g\" {{\n task \"t\" {{}}\n}}\n}}\n"
                );
                let parsed = read(&text);
                assert_eq!(parsed.job.is_none(), !parsed.diagnostics.is_empty());
            }
        }
        let (open, close) = ("x {\n".repeat(depth), "}\n".repeat(depth));
        let blocks = format!("job \"x\" {{\n task \"t\" {{\n config {{\n{open}a = 1\n{close}\n}}\n}}\n}}\n");
        let parsed = read(&blocks);
        assert_eq!(parsed.job.is_none(), !parsed.diagnostics.is_empty());
    }
    for open in ["[", "{\n", "(", "\"${", "x {\n"] {
        assert!(read(&format!("job \"x\" {{\n a = {}", open.repeat(100_000))).job.is_none());
    }
}
