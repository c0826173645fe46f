//! Links between documents: each leads to a file or a folder that is there, and what is promised to be a page is one.

/// A page, in lines.
const PAGES: &[(&str, usize)] = &[("docs/ARCHITECTURE.md", 80)];

/// Each link of the document at `path` to something in the repository that `exists` does not know.
pub fn without_target(path: &str, text: &str, exists: impl Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        let own = targets.filter(|target| !target.contains("://") && !target.starts_with('#'));
        for target in own {
            let file = target.split('#').next().unwrap_or(target);
            if !exists(&beside(path, file)) {
                found.push(format!("{path}:{}: there is no {target}", at + 1));
            }
        }
    }
    found
}

pub fn long_pages(path: &str, text: &str) -> Vec<String> {
    let (page, lines) = (PAGES.iter().find(|(page, _)| *page == path), text.lines().count());
    let long = page.filter(|(_, limit)| lines > *limit);
    long.map(|(_, limit)| format!("{path}: {lines} lines: a page has {limit}")).into_iter().collect()
}

/// The path in the repository of what a document names from where it lies.
fn beside(document: &str, target: &str) -> String {
    let mut steps: Vec<&str> = document.split('/').collect();
    steps.pop();
    for step in target.split('/').filter(|step| !step.is_empty()) {
        match step {
            ".." => drop(steps.pop()),
            step => steps.push(step),
        }
    }
    steps.join("/")
}
