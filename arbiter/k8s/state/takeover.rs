//! Taking up what an earlier arbiter left.

use std::collections::BTreeMap;

use kube::ResourceExt as _;
use kube::api::{ListParams, PostParams};

use super::{Bucket, State, StateError};
use crate::k8s::client::is_conflict;
use crate::k8s::log::Changes;
use crate::k8s::objects::{Head, LABEL, changes_in, name_of, records_in};

/// Most objects of one page of a list.
const PAGE: u32 = 16;

impl State {
    pub(super) async fn raise_epoch(&mut self) -> Result<(), StateError> {
        loop {
            let found = match self.api.get_opt(&self.name).await {
                Ok(found) => found,
                Err(error) => {
                    self.again("read", &error).await?;
                    continue;
                }
            };
            let head = match &found {
                Some(object) => Head::read(object)?,
                None => Head { next_sequence: 1, ..Head::default() },
            };
            let raised = Head { epoch: head.epoch + 1, ..head };
            let version = found.as_ref().and_then(kube::ResourceExt::resource_version);
            let object = raised.to_object(&self.name, version.as_deref());
            let post = PostParams::default();
            let written = match version {
                Some(_) => self.api.replace(&self.name, &post, &object).await,
                None => self.api.create(&post, &object).await,
            };
            match written {
                Ok(object) => {
                    self.version = object.resource_version().unwrap_or_default();
                    self.head = raised;
                    return Ok(());
                }
                // An earlier leader was in the middle of a commit. It is read again, with that.
                Err(error) if is_conflict(&error) => {}
                // Perhaps it was written; one epoch more does no harm.
                Err(error) => self.again("write", &error).await?,
            }
        }
    }

    /// Reads all records. What an earlier leader wrote in between is in the head as well.
    pub(super) async fn load(&mut self) -> Result<(), StateError> {
        let mut parts = BTreeMap::new();
        let mut page = ListParams::default().labels(&format!("{LABEL} in (records, part)"));
        page.limit = Some(PAGE);
        loop {
            let list = match self.api.list(&page).await {
                Ok(list) => list,
                Err(error) => {
                    self.again("list", &error).await?;
                    continue;
                }
            };
            for object in list.items {
                let name = name_of(&object);
                let Some(suffix) = name.strip_prefix(&format!("{}-", self.name)) else { continue };
                if suffix.starts_with('p') {
                    parts.insert(name, changes_in(&object)?);
                } else {
                    let version = object.resource_version();
                    let bucket = Bucket { version, records: records_in(&object)? };
                    self.buckets.insert(suffix.to_owned(), bucket);
                }
            }
            page.continue_token = list.metadata.continue_.filter(|token| !token.is_empty());
            if page.continue_token.is_none() {
                break;
            }
        }
        self.take_up(parts).await
    }

    /// Makes the changes that are in no record yet.
    async fn take_up(&mut self, mut parts: BTreeMap<String, Changes>) -> Result<(), StateError> {
        self.remember(self.head.changes.clone());
        for part in 0..self.head.parts {
            let name = self.part_name(self.head.commit, part);
            let Some(changes) = parts.remove(&name) else {
                let why = "it is missing, though the head counts on it".to_owned();
                return Err(StateError::Unreadable { object: name, why });
            };
            self.remember(changes);
        }
        // Of commits that were never made, or that are in records by now.
        for name in parts.keys() {
            self.remove(name).await;
        }
        Ok(())
    }
}
