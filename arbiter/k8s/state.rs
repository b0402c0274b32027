//! The arbiter's state in a cluster: ConfigMaps that are written by one leader and taken up by the next.
//!
//! A commit is one write of the head, on condition that nobody has written it since: that is what makes it durable, and
//! what an earlier leader cannot do any more once its successor has raised the epoch there. Records are written now and
//! then, when the head has grown; until then their changes stand in the head, so that a crash in between loses nothing and
//! making changes twice changes nothing. A write whose answer is lost is looked up before it is made again.

#[cfg(test)]
mod fake;
mod takeover;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, PostParams};
use kube::{Client, ResourceExt as _};
use prost::Message as _;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::warn;

use super::client::{is_conflict, is_missing, is_passing};
use super::log::{Change, Changes, Records, apply, bucket_of, encode};
use super::objects::{Head, object};

// Tests that let a writer die at each of its requests make all of this happen within a few.
/// Size of the head above which records are written. Unit: bytes. Each commit writes the whole head.
const HEAD_BYTES_MAX: usize = if cfg!(test) { 1 << 10 } else { 128 << 10 };
/// Largest content of one object. Unit: bytes. The API server takes 1 MiB of data, all together.
const OBJECT_BYTES_MAX: usize = if cfg!(test) { 4 << 10 } else { 900 << 10 };
/// Most parts of one commit: 58 MB, the size of the state of the largest cluster.
const PARTS_MAX: usize = 64;
/// Pause before a request is sent again.
const PAUSE: Duration = Duration::from_millis(if cfg!(test) { 5 } else { 200 });

/// Why there is no state, or no write to it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StateError {
    /// An object is not what it should be.
    #[error("ConfigMap \"{object}\" cannot be used: {why}; nothing was changed")]
    Unreadable {
        /// Its name.
        object: String,
        /// What is wrong with it.
        why: String,
    },
    /// Another arbiter has taken over.
    #[error("another arbiter, of epoch {epoch}, has taken over")]
    Deposed {
        /// Its epoch.
        epoch: u64,
    },
    /// The Lease ran out before the write was done.
    #[error("the Lease ran out before \"{object}\" was written: {why}")]
    OutOfTime {
        /// What was to be written.
        object: String,
        /// The last that was heard.
        why: String,
    },
    /// It does not fit.
    #[error("\"{object}\" would have {bytes} bytes; at most {most} are possible")]
    TooLarge {
        /// What was to be written.
        object: String,
        /// Its size.
        bytes: usize,
        /// The limit.
        most: usize,
    },
    /// The API server refuses.
    #[error("the API server refuses to {verb} \"{object}\": {why}")]
    Refused {
        /// What was tried.
        verb: &'static str,
        /// With what.
        object: String,
        /// What it says.
        why: String,
    },
}

/// The records of one object.
#[derive(Debug, Default)]
struct Bucket {
    /// The version that was read or written last; `None`: there is no object yet.
    version: Option<String>,
    records: Records,
}

/// The state, and what of it is in which object.
#[derive(Debug)]
pub(super) struct State {
    api: Api<ConfigMap>,
    /// Name of the head, with which all names begin.
    name: String,
    head: Head,
    version: String,
    buckets: BTreeMap<String, Bucket>,
    /// Buckets of which the object is older than its records here.
    dirty: BTreeSet<String>,
    good_until: watch::Receiver<Instant>,
}

impl State {
    /// Takes up what an earlier arbiter left, and raises the epoch, so that it can write no more.
    pub(super) async fn take_over(
        client: Client,
        namespace: &str,
        name: &str,
        good_until: watch::Receiver<Instant>,
    ) -> Result<Self, StateError> {
        let (head, version) = (Head { next_sequence: 1, ..Head::default() }, String::new());
        let api = Api::namespaced(client, namespace);
        let mut state = Self {
            api,
            name: format!("{name}-state"),
            head,
            version,
            buckets: BTreeMap::new(),
            dirty: BTreeSet::new(),
            good_until,
        };
        state.raise_epoch().await?;
        state.load().await?;
        if state.head.parts > 0 {
            state.write_records().await?;
        }
        Ok(state)
    }

    /// The head as it was written last.
    pub(super) fn head(&self) -> &Head {
        &self.head
    }

    /// All records.
    pub(super) fn records(&self) -> impl Iterator<Item = (&String, &Vec<u8>)> {
        self.buckets.values().flat_map(|bucket| &bucket.records)
    }

    /// Makes `changes` durable, all or none.
    pub(super) async fn commit(
        &mut self,
        changes: Vec<Change>,
        last_now_ms: u64,
        next_sequence: u64,
    ) -> Result<(), StateError> {
        let changes = Changes { changes };
        let bytes = changes.encoded_len();
        if self.head.changes.encoded_len() + bytes > HEAD_BYTES_MAX {
            self.write_records().await?;
        }
        let mut next = Head {
            commit: self.head.commit + 1,
            last_now_ms,
            next_sequence: next_sequence.max(self.head.next_sequence),
            ..self.head.clone()
        };
        if bytes > OBJECT_BYTES_MAX {
            next.parts = self.write_parts(next.commit, &changes).await?;
        } else {
            next.changes.changes.extend(changes.changes.iter().cloned());
        }
        self.write_head(next).await?;
        self.remember(changes);
        if self.head.parts > 0 {
            self.write_records().await?;
        }
        Ok(())
    }

    /// Writes what stands in the head into records, and takes it out of the head.
    async fn write_records(&mut self) -> Result<(), StateError> {
        while let Some(bucket) = self.dirty.first().cloned() {
            self.write_bucket(&bucket).await?;
            self.dirty.remove(&bucket);
        }
        let parts = self.head.parts;
        let (commit, changes) = (self.head.commit + 1, Changes::default());
        let written = self.head.commit;
        self.write_head(Head { commit, parts: 0, changes, ..self.head.clone() }).await?;
        for part in 0..parts {
            self.remove(&self.part_name(written, part)).await;
        }
        Ok(())
    }

    fn remember(&mut self, changes: Changes) {
        for change in changes.changes {
            let name = bucket_of(&change.key);
            apply(&mut self.buckets.entry(name.clone()).or_default().records, change);
            self.dirty.insert(name);
        }
    }

    fn part_name(&self, commit: u64, part: u64) -> String {
        format!("{}-p{commit}-{part}", self.name)
    }

    /// Writes `changes` into objects of their own; how many.
    async fn write_parts(&self, commit: u64, changes: &Changes) -> Result<u64, StateError> {
        let mut parts: Vec<(usize, Changes)> = vec![(0, Changes::default())];
        for change in &changes.changes {
            let bytes = change.encoded_len() + 8;
            if let Some((used, part)) = parts.last_mut()
                && *used + bytes <= OBJECT_BYTES_MAX
            {
                *used += bytes;
                part.changes.push(change.clone());
            } else {
                parts.push((bytes, Changes { changes: vec![change.clone()] }));
            }
        }
        if parts.len() > PARTS_MAX {
            let (bytes, most) = (changes.encoded_len(), PARTS_MAX * OBJECT_BYTES_MAX);
            return Err(StateError::TooLarge { object: self.name.clone(), bytes, most });
        }
        let count = parts.len() as u64;
        for (number, (_, part)) in (0..).zip(parts) {
            let name = self.part_name(commit, number);
            self.put(&name, None, "part", part.encode_to_vec()).await?;
        }
        Ok(count)
    }

    async fn write_bucket(&mut self, suffix: &str) -> Result<(), StateError> {
        let Some(bucket) = self.buckets.get(suffix) else { return Ok(()) };
        let name = format!("{}-{suffix}", self.name);
        let version = bucket.version.clone();
        let version = self.put(&name, version, "records", encode(&bucket.records)).await?;
        if let Some(bucket) = self.buckets.get_mut(suffix) {
            bucket.version = Some(version);
        }
        Ok(())
    }

    /// Writes an object other than the head; the version that it has then.
    ///
    /// What is written is right as long as the head is this arbiter's: whoever wrote it in between had less.
    async fn put(
        &self,
        name: &str,
        mut version: Option<String>,
        kind: &str,
        bytes: Vec<u8>,
    ) -> Result<String, StateError> {
        if bytes.len() > OBJECT_BYTES_MAX {
            let (object, bytes) = (name.to_owned(), bytes.len());
            return Err(StateError::TooLarge { object, bytes, most: OBJECT_BYTES_MAX });
        }
        loop {
            let object = object(name, version.as_deref(), kind, bytes.clone());
            let post = PostParams::default();
            let written = match version {
                Some(_) => self.api.replace(name, &post, &object).await,
                None => self.api.create(&post, &object).await,
            };
            match written {
                Ok(object) => return Ok(object.resource_version().unwrap_or_default()),
                Err(error) if is_conflict(&error) || is_missing(&error) => {}
                Err(error) => self.again("write", &error).await?,
            }
            self.look_at_head().await?;
            match self.api.get_opt(name).await {
                Ok(found) => version = found.as_ref().and_then(kube::ResourceExt::resource_version),
                Err(error) => self.again("read", &error).await?,
            }
        }
    }

    /// Writes the head, if it is still as this arbiter left it.
    async fn write_head(&mut self, next: Head) -> Result<(), StateError> {
        let bytes = next.changes.encoded_len();
        if bytes > OBJECT_BYTES_MAX {
            let object = self.name.clone();
            return Err(StateError::TooLarge { object, bytes, most: OBJECT_BYTES_MAX });
        }
        loop {
            self.check_time("nothing was tried")?;
            let object = next.to_object(&self.name, Some(&self.version));
            match self.api.replace(&self.name, &PostParams::default(), &object).await {
                Ok(object) => {
                    self.version = object.resource_version().unwrap_or_default();
                    self.head = next;
                    return Ok(());
                }
                Err(error) if is_conflict(&error) => {}
                Err(error) => self.again("write", &error).await?,
            }
            let (found, version) = self.look_at_head().await?;
            self.version = version;
            if found.commit == next.commit {
                self.head = next;
                return Ok(());
            }
        }
    }

    /// The head as it is now, and its version.
    async fn look_at_head(&self) -> Result<(Head, String), StateError> {
        loop {
            match self.api.get(&self.name).await {
                Ok(object) => {
                    let head = Head::read(&object)?;
                    if head.epoch != self.head.epoch {
                        return Err(StateError::Deposed { epoch: head.epoch });
                    }
                    return Ok((head, object.resource_version().unwrap_or_default()));
                }
                Err(error) => self.again("read", &error).await?,
            }
        }
    }

    async fn remove(&self, name: &str) {
        match self.api.delete(name, &DeleteParams::default()).await {
            Ok(_) => {}
            Err(error) if is_missing(&error) => {}
            // The next one to take over removes it.
            Err(error) => warn!("could not remove ConfigMap {name:?}: {error}"),
        }
    }

    /// Returns, after a pause, if a request is to be sent again.
    async fn again(&self, verb: &'static str, error: &kube::Error) -> Result<(), StateError> {
        if !is_passing(error) {
            let (object, why) = (self.name.clone(), error.to_string());
            return Err(StateError::Refused { verb, object, why });
        }
        self.check_time(&error.to_string())?;
        warn!("could not {verb} the state: {error}; trying again");
        tokio::time::sleep(PAUSE).await;
        Ok(())
    }

    fn check_time(&self, why: &str) -> Result<(), StateError> {
        if Instant::now() < *self.good_until.borrow() {
            return Ok(());
        }
        Err(StateError::OutOfTime { object: self.name.clone(), why: why.to_owned() })
    }
}
