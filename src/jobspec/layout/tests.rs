//! Texts and their canonical layout, as the formatter that Nomad's users know writes them.

use super::*;

fn layout(text: &str) -> String {
    canonical(Source { name: "t", text }).unwrap_or_else(|d| panic!("{d}\n{text}"))
}

#[test]
fn lines_stand_as_they_are_known() {
    for (text, expected) in [
        ("a=1\n", "a = 1\n"),
        ("a=1   # one\n  bbb   =  \"x\"//two\n", "a   = 1   # one\nbbb = \"x\" //two\n"),
        ("a=1\n\nbbb=2\n", "a = 1\n\nbbb = 2\n"),
        ("job  \"x\"{\na=[1,2 ,3]\n}\n", "job \"x\" {\n  a = [1, 2, 3]\n}\n"),
        ("a {\n b { }\n c {d=1}\n}\n", "a {\n  b {}\n  c { d = 1 }\n}\n"),
        ("a = 1\nbb = {\nc=1\nlong = 2\n}\n", "a = 1\nbb = {\n  c    = 1\n  long = 2\n}\n"),
        ("a=[\n1,#x\n22, # y\n]\n", "a = [\n  1,  #x\n  22, # y\n]\n"),
        ("a=1\nb=<<-E\n  x=1\n E\nccc=2\n", "a   = 1\nb   = <<-E\n  x=1\n E\nccc = 2\n"),
        ("a=<<E\n {\nE\nb=2\n", "a = <<E\n {\nE\nb = 2\n"),
        ("r = f([{\na=1\n}])\n", "r = f([{\n  a = 1\n}])\n"),
        ("a = [{\nb=1\n}, {\nc=2\n}\n]\n", "a = [{\n  b = 1\n  }, {\n  c = 2\n  }\n]\n"),
        ("x {\n# lone\na=1\n  # b\n}\n", "x {\n  # lone\n  a = 1\n  # b\n}\n"),
        ("a=1 /* x */\nbb= /* y */ 2\n", "a  = 1 /* x */\nbb = /* y */ 2\n"),
        ("a = 1\r\n  b=2\r\n", "a = 1\r\nb = 2\r\n"),
        ("a=1", "a = 1"),
        ("\n\n  \na=1\n", "\n\n\na = 1\n"),
    ] {
        assert_eq!(layout(text), expected);
        assert_eq!(layout(expected), expected, "twice");
    }
}

#[test]
fn tokens_have_the_blanks_that_are_known() {
    for (text, expected) in [
        ("1+2*-3", "1 + 2 * -3"),
        ("p -1", "p - 1"),
        ("a? b:c", "a ? b : c"),
        ("f (1,2)", "f(1, 2)"),
        ("f( )", "f()"),
        ("[ ]", "[]"),
        ("{ }", "{}"),
        ("[1,]", "[1, ]"),
        ("{a=1,b=2}", "{ a = 1, b = 2 }"),
        ("! x&&y||z", "!x && y || z"),
        ("x [0].y", "x[0].y"),
        ("x [*] .y", "x[*].y"),
        ("x.*.y", "x.*.y"),
        ("(1+2)", "(1 + 2)"),
        ("(a) [ 0 ]", "(a)[0]"),
        ("a==b", "a == b"),
        ("a<=b", "a <= b"),
        ("f(a...)", "f(a...)"),
        ("[ -1 , - 2 ]", "[-1, -2]"),
        ("a == -1?- a:-b", "a == -1 ? -a : -b"),
        ("{for k,v in x:k=>v if v!=null}", "{ for k, v in x : k => v if v != null }"),
        ("[for x in [1,2]:x]", "[for x in [1, 2] : x]"),
        ("\"x${ a+b }y\"", "\"x${a + b}y\""),
        ("\"%{ if a }q%{ endif ~}z\"", "\"%{if a}q%{endif~}z\""),
        ("\"$${ a } \\\" ${ f(\"}\") }\"", "\"$${ a } \\\" ${f(\"}\")}\""),
        ("1.5e-3", "1.5e-3"),
        ("a.0.b", "a.0.b"),
    ] {
        assert_eq!(layout(&format!("v={text}\n")), format!("v = {expected}\n"));
    }
}

#[test]
fn a_file_that_is_no_hcl_is_not_formatted() {
    for text in ["a = = 1\n", "{\"a\": 1}", "a {"] {
        assert!(canonical(Source { name: "t", text }).is_err(), "{text}");
    }
}

/// Whatever stands where, the tokens are found without a panic, and none is lost.
#[test]
fn broken_text_makes_tokens_too() {
    let parts =
        ["\"", "${", "}", "<<E\n", "<<", "\\", "/*", "*/", "é", "\n", "a-b", "1e", "1.", "%{", "~", "$$"];
    for first in parts {
        for second in parts {
            for third in parts {
                let text = format!("{first}{second}{third}");
                let found: usize = tokens::lines(&text)
                    .iter()
                    .map(|l| l.end.len() + l.tokens.iter().map(|t| t.text.len()).sum::<usize>())
                    .sum();
                assert_eq!(found, text.len(), "{text:?}");
                let _any = laid_out(&text);
            }
        }
    }
}
