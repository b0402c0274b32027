//! What Prometheus scrapes: the newest readings as they are. A scrape samples nothing and waits for nothing.

mod encode;
mod gpu;
mod health;

use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use prometheus_client::registry::Registry;
use sluice::net::Listener;
use tokio::sync::watch;
use tracing::error;

use crate::report::Reporter;
use crate::uplink::Outbox;

use self::encode::AgentMetrics;

/// Media type of what is served.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Serves `/metrics`, and `/healthz` which says nothing but that the agent runs, until `stop` turns true.
pub(crate) async fn serve(
    listener: Listener,
    reporter: Reporter,
    outbox: Outbox,
    mut stop: watch::Receiver<bool>,
) {
    let mut registry = Registry::with_prefix("sluice_agent");
    registry.register_collector(Box::new(AgentMetrics { reporter, outbox }));
    let registry = Arc::new(registry);
    let router = Router::new()
        .route("/metrics", get(move || std::future::ready(scrape(&registry))))
        .route("/healthz", get(|| std::future::ready("ok\n")));
    let stopped = async move {
        // An error means that the agent has stopped.
        let _ = stop.wait_for(|stop| *stop).await;
    };
    if let Err(why) = axum::serve(listener, router).with_graceful_shutdown(stopped).await {
        error!("metrics are no longer served: {why}; restart the agent");
    }
}

fn scrape(registry: &Registry) -> axum::response::Response {
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, registry) {
        Ok(()) => ([(CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(why) => {
            (StatusCode::INTERNAL_SERVER_ERROR, format!("could not write metrics: {why}\n"))
                .into_response()
        }
    }
}
