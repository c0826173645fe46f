//! Volumes and plugins of container storage: there are none here, and a list of none is what clients of the API expect.
//!
//! Refuses to know: what a volume is. Registering one is not built.

use crate::response::Response;
use crate::{Call, RouteOutcome, blocking};

pub fn none(call: &Call<'_>) -> Result<RouteOutcome, Response> {
    blocking::nothing(call, 1)
}
