//! Which methods a route takes, and where it has something to choose from. Refuses to know what any of them leads to.

use super::path::{PoolRoute, Route};
use super::request::Method;

pub fn takes(route: &Route, method: Method) -> bool {
    match route {
        Route::Jobs | Route::NodePools | Route::SchedulerConfiguration | Route::JobScale(_) => {
            method == Method::Get || method.is_write()
        }
        Route::Job(_) | Route::Namespace(_) | Route::NodePool(PoolRoute::Itself, _) => {
            method == Method::Get || method == Method::Delete || method.is_write()
        }
        Route::Evaluations => matches!(method, Method::Get | Method::Delete),
        Route::JobsStatuses => matches!(method, Method::Get | Method::Post),
        Route::JobsParse
        | Route::Search
        | Route::SearchFuzzy
        | Route::ValidateJob
        | Route::NamespaceWrite
        | Route::AllocRestart(_)
        | Route::AllocStop(_)
        | Route::AllocSignal(_)
        | Route::JobEvaluate(_)
        | Route::JobPlan(_)
        | Route::JobRevert(_)
        | Route::JobStability(_)
        | Route::JobLaunch(_)
        | Route::JobDispatch(_)
        | Route::NodeWish(..)
        | Route::DeploymentStep(..)
        | Route::ReconcileSummaries => method.is_write(),
        Route::JobTag { .. } => method == Method::Delete || method.is_write(),
        Route::CollectGarbage => method == Method::Put,
        Route::JobDispatchPayload => false,
        // not by PUT (http-api.md 0.1.4)
        Route::Metadata => matches!(method, Method::Get | Method::Post),
        _ => method == Method::Get,
    }
}

/// Where a `filter` chooses.
pub fn is_list(route: &Route) -> bool {
    matches!(
        route,
        Route::Jobs
            | Route::JobsStatuses
            | Route::JobAllocations(_)
            | Route::JobDeployments(_)
            | Route::JobEvaluations(_)
            | Route::JobVersions(_)
            | Route::Allocations
            | Route::Evaluations
            | Route::EvaluationsCount
            | Route::EvaluationAllocations(_)
            | Route::Nodes
            | Route::NodePools
            | Route::NodePool(PoolRoute::Nodes | PoolRoute::Jobs, _)
            | Route::NodeAllocations(_)
            | Route::Deployments
            | Route::DeploymentAllocations(_)
            | Route::Namespaces
            | Route::KeyringKeys
    )
}
