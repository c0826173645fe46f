//! How things look: tables, times and sizes, differences, Go templates, and what is drawn in place on a terminal. Pure, but for the terminal.
//!
//! Refuses to know: where what is shown comes from.

pub mod diff;
pub mod json;
pub mod layout;
pub mod lists;
pub mod pages;
pub mod screen;
pub mod template;
pub mod terminal;
