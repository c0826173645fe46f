//! Job files in, jobs out, and job files of jobs. Text in HCL2 (or its JSON syntax) becomes the API's JSON job with positions for everything
//! that is wrong; the API's JSON job becomes a canonical `model::job::JobSpec`.
//!
//! Refuses to know: files, the environment, clocks and randomness (all handed in as values); what a job does once it is
//! accepted; how requests arrive. Invariants: no input makes it panic, recurse without bound, or work beyond a budget;
//! whatever it does not understand is refused by name, never dropped.

mod api_job;
mod decimal;
mod decode;
pub mod diagnostic;
pub mod duration;
mod eval;
mod functions;
#[cfg(any(test, feature = "testing"))]
pub mod fuzz;
pub mod hcl;
mod json_syntax;
pub mod layout;
pub mod nearest;
mod object_size;
mod operators;
mod register;
mod scope;
mod submitted;
mod template;
#[cfg(test)]
mod tests;
mod types;
mod variables;
mod write;

pub use api_job::scaling::free_form;
pub use api_job::{decode_job, read_job};
#[cfg(any(test, feature = "testing"))]
pub use diagnostic::render_lines;
pub use diagnostic::{Diagnostic, Source, render};
pub use functions::Files;
pub use register::{Register, decode_register, decode_validate};
pub use submitted::{Flaws, RefusedJob};
pub use write::write;

use diagnostic::Problems;
use eval::Evaluator;
use functions::World;
use hcl::{BlockBody, Content, HclBlock};
use model::job::JobSpec;
use model::schema::Declared;
use scope::{Budget, Scope};
use serde_json::Value;

/// Where variables get their values from, weakest first.
#[derive(Clone, Debug, Default)]
pub struct Vars {
    /// Environment names with values; those that do not start with `NOMAD_VAR_` are ignored.
    pub env: Vec<(String, String)>,
    /// Variable files: name and text.
    pub files: Vec<(String, String)>,
    /// `-var name=value`.
    pub flags: Vec<(String, String)>,
    /// A value for a variable that is not declared is an error, not a warning.
    pub strict: bool,
    /// For `uuidv4` and `bcrypt`: equal seeds give equal jobs.
    pub seed: u64,
}

/// What became of a job file.
#[derive(Clone, Debug, Default)]
pub struct Parsed {
    /// The API's JSON job, all members present, nothing defaulted. None when there are diagnostics.
    pub job: Option<Value>,
    pub diagnostics: Vec<Diagnostic>,
    /// What the job uses that is not built yet. It is in `job` all the same; registering it will be refused.
    pub not_supported: Vec<Diagnostic>,
    pub warnings: Vec<Diagnostic>,
}

/// Reads a job file. `name` is for its diagnostics. Without `files`, filesystem functions fail.
pub fn parse(name: &str, text: &str, vars: &Vars, files: Option<&dyn Files>) -> Parsed {
    let budget = Budget::new(scope::WHOLE_FILE);
    let source = Source { name, text };
    let evaluator = Evaluator { source, world: World { files, seed: vars.seed, budget: &budget } };
    match hcl::document(source) {
        Err(d) => Parsed { diagnostics: vec![d], ..Parsed::default() },
        Ok(body) => parse_body(&evaluator, body, vars),
    }
}

fn parse_body(evaluator: &Evaluator<'_>, body: BlockBody, vars: &Vars) -> Parsed {
    let (mut problems, mut warnings) = (Problems::default(), Problems::default());
    let labels = |n: &str| match n {
        "job" | "variable" => Some(1),
        "variables" | "locals" => Some(0),
        _ => None,
    };
    let top = top_level(evaluator, body.content(&labels), &mut problems);
    let values = variables_of(evaluator, top.variables, vars, &mut problems, &mut warnings);
    let locals = locals_of(evaluator, top.locals, &values, &mut problems);
    let warnings = warnings.into_inner();
    let Some(job) = top.job.filter(|_| problems.is_empty()) else {
        return Parsed { diagnostics: problems.into_inner(), warnings, ..Parsed::default() };
    };
    let outer = Scope::EMPTY.with("var", &values);
    let mut decoder = decode::Decoder::new(evaluator);
    let json = decoder.block(JobSpec::BLOCK, job, &outer.with("local", &locals));
    Parsed {
        job: decoder.diagnostics.is_empty().then_some(json),
        diagnostics: decoder.diagnostics.into_inner(),
        not_supported: decoder.not_supported.into_inner(),
        warnings,
    }
}

/// The blocks of a file, by their kind.
#[derive(Default)]
struct Top {
    job: Option<HclBlock>,
    variables: Vec<HclBlock>,
    locals: Vec<HclBlock>,
}

/// One job block and its inputs; anything unknown beside them is a diagnostic.
fn top_level(evaluator: &Evaluator<'_>, content: Content, problems: &mut Problems) -> Top {
    let source = evaluator.source;
    let known = ["job", "variable", "variables", "locals"];
    let unknown = |n: &str| {
        let hint = nearest::nearest(n, known).map(|k| format!("; did you mean {k:?}?")).unwrap_or_default();
        format!("{n:?} is not expected here: a job file has job, variable, variables and locals blocks{hint}")
    };
    for a in content.attributes {
        problems.at(source, a.name_at, "Unsupported argument", unknown(&a.name));
    }
    for l in content.malformed {
        problems.at(source, l.at, "Invalid block", format!("{:?} is an object here", l.text));
    }
    let mut top = Top::default();
    for b in content.blocks {
        match b.name.as_str() {
            "variable" | "variables" => top.variables.push(b),
            "locals" => top.locals.push(b),
            "job" if top.job.is_none() => top.job = Some(b),
            "job" => problems.at(source, b.name_at, "Duplicate job block", "a file describes one job"),
            other => problems.at(source, b.name_at, "Unsupported block type", unknown(other)),
        }
    }
    if top.job.is_none() {
        let detail = "a job file has one job \"name\" { ... }";
        problems.push(Diagnostic::nowhere(source.name, "Missing job block", detail));
    }
    top
}

fn variables_of(
    evaluator: &Evaluator<'_>,
    blocks: Vec<HclBlock>,
    vars: &Vars,
    problems: &mut Problems,
    warnings: &mut Problems,
) -> Value {
    let mut variables = variables::Variables::new(evaluator);
    for b in blocks {
        match b.name.as_str() {
            "variable" => variables.declare(b),
            "variables" => variables.declare_all(b),
            _ => {}
        }
    }
    let (values, found, warned) = variables.values(vars);
    found.into_inner().into_iter().for_each(|d| problems.push(d));
    warned.into_inner().into_iter().for_each(|d| warnings.push(d));
    Value::Object(values)
}

fn locals_of(
    evaluator: &Evaluator<'_>,
    blocks: Vec<HclBlock>,
    vars: &Value,
    problems: &mut Problems,
) -> Value {
    let mut attributes = Vec::new();
    for b in blocks {
        let content = b.body.content(&|_| None);
        attributes.extend(content.attributes);
        for inner in content.blocks {
            let detail = "locals holds only name = value";
            problems.at(evaluator.source, inner.name_at, "Unsupported block type", detail);
        }
    }
    let (locals, found) = variables::locals(evaluator, attributes, vars);
    found.into_inner().into_iter().for_each(|d| problems.push(d));
    locals
}
