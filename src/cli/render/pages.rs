//! Lists of the API that come in pages: what is asked for, and what is said of the rest.

use crate::error::CommandResult;
use crate::output::Objects;
use crate::session::Session;
use serde_json::Value;

/// What the flags of a list say.
#[derive(Clone, Copy)]
pub struct ListPage<'a> {
    pub filter: Option<&'a str>,
    pub per_page: Option<u32>,
    pub token: Option<&'a str>,
}

/// One page; or nothing, if `objects` says that it is to be printed as it is, which is done. `show`: as a table.
pub fn show(
    session: &Session,
    list: &str,
    page: ListPage<'_>,
    objects: Option<Objects<'_>>,
    show: impl FnOnce(&Value) -> CommandResult<()>,
) -> CommandResult<()> {
    let per_page = page.per_page.map(|n| n.to_string());
    let given = [("filter", page.filter), ("per_page", per_page.as_deref()), ("next_token", page.token)];
    let query: Vec<_> = given.iter().filter_map(|(name, value)| Some((*name, (*value)?))).collect();
    let (value, next) = session.client.get_page(list, &query)?;
    if let Some(objects) = objects {
        return session.out.objects(objects, &value);
    }
    show(&value)?;
    if !next.is_empty() {
        session.out.line(&format!("\nThere are more: add -page-token {next}"))?;
    }
    Ok(())
}
