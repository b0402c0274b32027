//! The connection to the API server.

use std::time::Duration;

use anyhow::Context as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use super::Settings;

/// Longest time for a connection to be made; after that another server may be reached.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A client, and the namespace that is this arbiter's. Nothing is asked yet.
///
/// # Errors
/// There is no configuration, or it cannot be read.
pub(crate) async fn connect(settings: &Settings) -> anyhow::Result<(Client, String)> {
    let mut config = match &settings.kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path)
                .with_context(|| format!("could not read kubeconfig \"{}\"", path.display()))?;
            Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
                .await
                .with_context(|| format!("could not use kubeconfig \"{}\"", path.display()))?
        }
        None => Config::infer().await.context(
            "there is no cluster to connect to: no service account of a pod, no $KUBECONFIG and no ~/.kube/config; \
             name one with --kubeconfig",
        )?,
    };
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    let namespace = settings.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    let client = Client::try_from(config).context("could not set up TLS to the API server")?;
    Ok((client, namespace))
}

/// Whether a request may succeed if it is simply sent again: the server is away, overloaded or starting.
///
/// One that has just started knows no roles yet, and forbids what it allows a second later.
pub(super) fn is_passing(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => matches!(status.code, 401 | 403 | 429 | 500 | 502..=504),
        kube::Error::HyperError(_) | kube::Error::Service(_) | kube::Error::ReadEvents(_) => true,
        _ => false,
    }
}

/// Whether somebody else has changed the object in between, or made it.
pub(super) fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

/// Whether there is no such object.
pub(super) fn is_missing(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}
