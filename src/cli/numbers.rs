//! Whole numbers as flags take them: what is none, or is out of range, is refused with the range instead of the words of the
//! integer's parser.
//!
//! Pure. Refuses to know: which flags there are.

/// A whole number from `least` to `most`, whatever is written.
fn within(text: &str, least: i128, most: i128) -> Result<i128, String> {
    let number = text.parse().ok().filter(|n| (least..=most).contains(n));
    number.ok_or_else(|| format!("it must be a whole number between {least} and {most}"))
}

/// The same where the type alone says what the most is.
fn from(text: &str, least: i128, most: i128) -> Result<i128, String> {
    within(text, least, most).map_err(|_| format!("it must be a whole number from {least}"))
}

/// The priority of an evaluation, as the API takes it.
pub fn priority(text: &str) -> Result<u8, String> {
    within(text, 1, 100).map(|n| n as u8)
}

/// How many rows a page has: the API reads 32 bits.
pub fn per_page(text: &str) -> Result<u32, String> {
    within(text, 0, i128::from(i32::MAX)).map(|n| n as u32)
}

/// An index of the state, or a version of a job.
pub fn index(text: &str) -> Result<u64, String> {
    from(text, 0, i128::from(u64::MAX)).map(|n| n as u64)
}

pub fn count(text: &str) -> Result<u32, String> {
    from(text, 0, i128::from(u32::MAX)).map(|n| n as u32)
}

/// What may be negative.
pub fn integer(text: &str) -> Result<i64, String> {
    text.parse().map_err(|_| "it must be a whole number".to_string())
}
