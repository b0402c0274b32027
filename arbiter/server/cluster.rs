//! Serving in a cluster: only while this replica holds the Lease.

use std::future::Future;
use std::pin::pin;

use anyhow::bail;
use tracing::info;

use super::{Listeners, Parts, tell};
use crate::config::Config;
use crate::k8s::{Lost, Remote, Settings};
use crate::store::Store;

/// Waits for the Lease, then serves until `stop` or until the Lease is lost.
///
/// A replica that waits does not listen, so that a Service leads to the one that decides.
pub(super) async fn serve(
    config: &Config,
    settings: &Settings,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let mut stop = pin!(stop);
    let wait = |holder: &str| {
        info!(holder, "another replica decides; this one waits");
        // Without a terminal or a reader there is nobody to be told.
        let _ = tell(&format!("sluice-arbiter waiting: holder={holder}\n"));
    };
    let won = tokio::select! {
        () = &mut stop => return Ok(()),
        won = Remote::win(settings, wait) => won?,
    };
    let (remote, taken, keeper, lost) = won;
    let opened = Store::in_cluster(remote, &taken)?;
    drop(taken);
    let listeners = Listeners::bind(config).await?;
    let parts = Parts::start(config, opened)?;
    tokio::select! {
        result = parts.serve(listeners, stop) => {
            keeper.give_up();
            result
        }
        Ok(Lost) = lost => bail!("the Lease was lost: another replica decides, or the API server is away"),
    }
}
