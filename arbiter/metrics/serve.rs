//! The HTTP side: `/metrics` and `/healthz`, nothing else.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::encoding::text::encode;
use sluice::net::Listener;

use super::Metrics;
use crate::agents::Agents;
use crate::run::Handle;

/// How long a scrape may take. Prometheus gives up after 10 s.
const SCRAPE_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, Clone)]
struct Sources {
    metrics: Arc<Metrics>,
    agents: Arc<Agents>,
    handle: Handle,
}

/// Serves until `stop` is done.
///
/// # Errors
/// The socket fails.
pub(crate) async fn serve(
    listener: Listener,
    metrics: Arc<Metrics>,
    agents: Arc<Agents>,
    handle: Handle,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let router = Router::new()
        .route("/metrics", get(scrape))
        .route("/healthz", get(health))
        .with_state(Sources { metrics, agents, handle });
    axum::serve(listener, router).with_graceful_shutdown(stop).await
}

async fn scrape(State(sources): State<Sources>) -> Response {
    let Sources { metrics, agents, handle } = sources;
    let looked = metrics.clone();
    let look = handle.ask(move |view| looked.look(view.arbiter, agents.connected()));
    match tokio::time::timeout(SCRAPE_TIMEOUT, look).await {
        Ok(Ok(())) => {}
        Ok(Err(_)) | Err(_) => return unavailable(),
    }
    let mut text = String::new();
    match encode(&mut text, &metrics.registry) {
        Ok(()) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// The task that decides answers.
async fn health(State(sources): State<Sources>) -> Response {
    match tokio::time::timeout(SCRAPE_TIMEOUT, sources.handle.ask(|_| ())).await {
        Ok(Ok(())) => "ok\n".into_response(),
        Ok(Err(_)) | Err(_) => unavailable(),
    }
}

fn unavailable() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, "the arbiter does not answer\n").into_response()
}
