//! What a web interface says about a job: its `ui` block. drover keeps and shows it.

use super::schema::{block, named, nullable, zeroed};
use serde::{Deserialize, Serialize};

block! {
    /// What a web interface says about the job.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Ui in named("ui", "UI") => {
        pub description: String => zeroed("description", "Description");
        pub links: Vec<UiLink> => nullable("link", "Links").in_order();
    }
}

block! {
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct UiLink in named("link", "Link") => {
        pub label: String => zeroed("label", "Label");
        pub url: String => zeroed("url", "URL");
    }
}
