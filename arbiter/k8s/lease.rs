//! Who of several replicas decides: who holds a Lease.
//!
//! Clocks of machines are not compared. Whoever waits looks whether the Lease changes; if it has not for as long as it is
//! good for, by the waiting replica's own clock, its holder has had no chance to renew it, and it is taken. The holder for
//! its part stops once two thirds of that time have passed since it *began* its last successful renewal. So there are never
//! two, unless a machine stops for longer in the middle of a write; what such a write would do is refused by the fence of
//! [`super::state`].

#[cfg(test)]
mod tests;

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease as Object, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, PostParams};
use kube::{Client, ResourceExt as _};
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{info, warn};

use super::client::{is_conflict, is_missing};

/// Attempts to renew within the time in which the Lease is good.
const RENEWALS: u32 = 6;
/// Longest time between two looks at another's Lease: it may be given up at any time.
const LOOK_INTERVAL_MAX: Duration = Duration::from_secs(2);

/// Takes part in the election.
#[derive(Debug)]
pub(crate) struct Election {
    api: Api<Object>,
    name: String,
    identity: String,
    good_for: Duration,
    seen: Option<Seen>,
}

/// The Lease as it was seen last.
#[derive(Debug)]
struct Seen {
    version: String,
    holder: String,
    good_for: Duration,
    /// When it was seen to be of this version.
    since: Instant,
}

impl Seen {
    /// Whether it may be taken.
    fn is_free(&self, now: Instant) -> bool {
        self.holder.is_empty() || now.duration_since(self.since) >= self.good_for
    }
}

/// The Lease, as its holder has it.
#[derive(Debug)]
pub(crate) struct Lease {
    election: Election,
    object: Object,
    good_until: Instant,
}

impl Election {
    /// Takes part as `identity`, which no other process has or had.
    pub(crate) fn new(
        client: Client,
        namespace: &str,
        name: &str,
        identity: &str,
        good_for: Duration,
    ) -> Self {
        let api = Api::namespaced(client, namespace);
        let (name, identity) = (name.to_owned(), identity.to_owned());
        Self { api, name, identity, good_for, seen: None }
    }

    /// Waits until this replica holds the Lease; `tell` is told who does, whenever that changes.
    ///
    /// # Errors
    /// The API server refuses for good: no permission, or a name that cannot be one.
    pub(crate) async fn win(mut self, tell: impl Fn(&str)) -> Result<Lease, kube::Error> {
        let mut told = None;
        let started = Instant::now();
        loop {
            let began = Instant::now();
            match self.try_to_win().await {
                Ok(Some(object)) => {
                    info!(lease = self.name, holder = self.identity, "this replica decides");
                    let good_until = began + self.stops_after();
                    return Ok(Lease { election: self, object, good_until });
                }
                Ok(None) => {
                    let holder = self.seen.as_ref().map(|seen| seen.holder.clone());
                    if holder != told {
                        tell(holder.as_deref().unwrap_or_default());
                        told = holder;
                    }
                }
                // What an API server that has just started forbids it may allow once it knows the roles.
                Err(error) if is_refusal(&error) && started.elapsed() > self.good_for => {
                    return Err(error);
                }
                Err(error) => warn!("could not look at the Lease {:?}: {error}", self.name),
            }
            tokio::time::sleep((self.good_for / RENEWALS).min(LOOK_INTERVAL_MAX)).await;
        }
    }

    /// How long after the beginning of its last renewal a holder stops.
    fn stops_after(&self) -> Duration {
        self.good_for * 2 / 3
    }

    /// The Lease if it is now this replica's.
    async fn try_to_win(&mut self) -> Result<Option<Object>, kube::Error> {
        let now = Instant::now();
        let object = match self.api.get(&self.name).await {
            Ok(object) => object,
            Err(error) if is_missing(&error) => {
                let metadata =
                    ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
                let object = Object { metadata, spec: Some(self.spec(None)) };
                return taken(self.api.create(&PostParams::default(), &object).await);
            }
            Err(error) => return Err(error),
        };
        let version = object.resource_version().unwrap_or_default();
        if self.seen.as_ref().is_none_or(|seen| seen.version != version) {
            self.seen = Some(seen(version, object.spec.as_ref(), now, self.good_for));
        }
        if !self.seen.as_ref().is_some_and(|seen| seen.is_free(now)) {
            return Ok(None);
        }
        let spec = self.spec(object.spec.as_ref());
        self.replace(Object { spec: Some(spec), ..object }).await
    }

    /// Replaces the Lease if nobody else has changed it; `None` if somebody has.
    async fn replace(&self, object: Object) -> Result<Option<Object>, kube::Error> {
        taken(self.api.replace(&self.name, &PostParams::default(), &object).await)
    }

    /// What the Lease says once this replica has taken it from `before`.
    fn spec(&self, before: Option<&LeaseSpec>) -> LeaseSpec {
        let now = MicroTime(Timestamp::now());
        let transitions = before.and_then(|spec| spec.lease_transitions);
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(seconds(self.good_for)),
            lease_transitions: Some(transitions.map_or(0, |n| n.saturating_add(1))),
            acquire_time: Some(now.clone()),
            renew_time: Some(now),
            ..LeaseSpec::default()
        }
    }
}

impl Lease {
    /// Until when this replica may act; further and further away while the Lease is kept.
    pub(crate) fn good_until(&self) -> Instant {
        self.good_until
    }

    /// Renews the Lease until `stop` is done, then gives it up. `tell` is told until when it is good.
    ///
    /// Returns false if it was lost: this replica must not act any more.
    pub(crate) async fn keep(
        mut self,
        tell: &watch::Sender<Instant>,
        stop: impl Future<Output = ()>,
    ) -> bool {
        let mut stop = std::pin::pin!(stop);
        loop {
            let pause = self.election.good_for / RENEWALS;
            tokio::select! {
                () = &mut stop => {
                    self.give_up().await;
                    return true;
                }
                () = tokio::time::sleep(pause) => {}
            }
            let began = Instant::now();
            let renewal = tokio::time::timeout_at(self.good_until, self.renew());
            match renewal.await {
                Ok(Ok(true)) => {
                    self.good_until = began + self.election.stops_after();
                    tell.send_replace(self.good_until);
                }
                Ok(Ok(false)) => {
                    warn!(lease = self.election.name, "another replica has taken the Lease");
                    return false;
                }
                Ok(Err(error)) => warn!("could not renew the Lease: {error}"),
                Err(_) => {}
            }
            if Instant::now() >= self.good_until {
                warn!(lease = self.election.name, "the Lease could not be renewed in time");
                return false;
            }
        }
    }

    /// False if it is another's.
    async fn renew(&mut self) -> Result<bool, kube::Error> {
        let mut object = self.object.clone();
        if let Some(spec) = &mut object.spec {
            spec.renew_time = Some(MicroTime(Timestamp::now()));
        }
        if let Some(renewed) = self.election.replace(object).await? {
            self.object = renewed;
            return Ok(true);
        }
        // Somebody wrote to it: perhaps only a label, perhaps this replica, in a request whose answer was lost.
        let object = self.election.api.get(&self.election.name).await?;
        let holder = object.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref());
        if holder != Some(self.election.identity.as_str()) {
            return Ok(false);
        }
        self.object = object;
        Ok(true)
    }

    /// So that the next one need not wait. If this fails it waits.
    async fn give_up(mut self) {
        if let Some(spec) = &mut self.object.spec {
            spec.holder_identity = Some(String::new());
        }
        let given_up = self.election.replace(self.object.clone());
        if let Err(error) = tokio::time::timeout_at(self.good_until, given_up).await {
            warn!("the Lease could not be given up: {error}");
        }
    }
}

fn seen(version: String, spec: Option<&LeaseSpec>, now: Instant, good_for: Duration) -> Seen {
    let holder = spec.and_then(|spec| spec.holder_identity.clone()).unwrap_or_default();
    let stated = spec.and_then(|spec| spec.lease_duration_seconds);
    let stated = stated.and_then(|s| u64::try_from(s).ok()).map(Duration::from_secs);
    Seen { version, holder, good_for: stated.unwrap_or(good_for), since: now }
}

/// Whole seconds, rounded up; at least 1, the least that Kubernetes takes.
fn seconds(span: Duration) -> i32 {
    i32::try_from(span.as_millis().div_ceil(1_000).max(1)).unwrap_or(i32::MAX)
}

/// Of a write that another's write came before there is no result.
fn taken(result: Result<Object, kube::Error>) -> Result<Option<Object>, kube::Error> {
    match result {
        Ok(object) => Ok(Some(object)),
        Err(error) if is_conflict(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The server has understood, and refuses.
fn is_refusal(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 400 | 401 | 403 | 422))
}
