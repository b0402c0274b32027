//! What an API server does with ConfigMaps, in memory, where the client would send its requests: versions, conflicts, pages.
//! It can go away at a chosen request, or make one and lose the answer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tower::service_fn;

/// When it fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    /// From this request on nothing is made and nothing answered.
    GoneFrom(usize),
    /// This request is made, and nobody is told.
    AnswerLost(usize),
}

#[derive(Debug)]
struct Inner {
    objects: BTreeMap<String, Value>,
    version: u64,
    requests: usize,
    fault: Fault,
}

/// The server.
#[derive(Debug, Clone)]
pub(super) struct Server(Arc<Mutex<Inner>>);

impl Server {
    pub(super) fn new() -> Self {
        let (objects, fault) = (BTreeMap::new(), Fault::None);
        Self(Arc::new(Mutex::new(Inner { objects, version: 0, requests: 0, fault })))
    }

    /// From now on requests are counted anew, and fail so.
    pub(super) fn set_fault(&self, fault: Fault) {
        let mut inner = self.0.lock().unwrap();
        (inner.fault, inner.requests) = (fault, 0);
    }

    /// Requests since then.
    pub(super) fn requests(&self) -> usize {
        self.0.lock().unwrap().requests
    }

    /// Names of all objects.
    pub(super) fn names(&self) -> Vec<String> {
        self.0.lock().unwrap().objects.keys().cloned().collect()
    }

    pub(super) fn client(&self) -> Client {
        let server = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await.unwrap();
                server.answer(&parts.method, &parts.uri, &body)
            }
        });
        Client::new(service, "sluice-system")
    }

    fn answer(
        &self,
        method: &Method,
        uri: &http::Uri,
        body: &[u8],
    ) -> Result<Response<Body>, std::io::Error> {
        let mut inner = self.0.lock().unwrap();
        let number = inner.requests;
        inner.requests += 1;
        let away = || Err(std::io::Error::other("the server is away"));
        if matches!(inner.fault, Fault::GoneFrom(first) if number >= first) {
            return away();
        }
        let (code, answer) = inner.handle(method, uri, body);
        if inner.fault == Fault::AnswerLost(number) {
            return away();
        }
        let response = Response::builder().status(code);
        Ok(response.body(Body::from(answer.to_string().into_bytes())).unwrap())
    }
}

impl Inner {
    fn handle(&mut self, method: &Method, uri: &http::Uri, body: &[u8]) -> (u16, Value) {
        let name = uri.path().trim_start_matches("/api/v1/namespaces/sluice-system/configmaps");
        let name = name.trim_start_matches('/').to_owned();
        let sent: Value = serde_json::from_slice(body).unwrap_or_default();
        let sent_version = &sent["metadata"]["resourceVersion"];
        match (method.as_str(), self.objects.get(&name)) {
            ("GET", _) if name.is_empty() => (200, self.list(uri.query().unwrap_or_default())),
            ("POST", _) => {
                let name = sent["metadata"]["name"].as_str().unwrap().to_owned();
                if self.objects.contains_key(&name) { conflict() } else { self.set(&name, sent) }
            }
            (_, None) => status(404, "NotFound"),
            ("GET", Some(object)) => (200, object.clone()),
            ("PUT", Some(known)) if *sent_version != known["metadata"]["resourceVersion"] => {
                conflict()
            }
            ("PUT", Some(_)) => self.set(&name, sent),
            ("DELETE", Some(_)) => {
                self.objects.remove(&name);
                (200, json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}))
            }
            (other, Some(_)) => panic!("a {other} of {name}"),
        }
    }

    fn set(&mut self, name: &str, mut object: Value) -> (u16, Value) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.objects.insert(name.to_owned(), object.clone());
        (200, object)
    }

    /// Two objects a page; the token is the last name.
    fn list(&self, query: &str) -> Value {
        let token = query.split('&').find_map(|pair| pair.strip_prefix("continue="));
        let is_wanted =
            |object: &Value| object["metadata"]["labels"][crate::k8s::objects::LABEL] != "head";
        let after = self.objects.iter().filter(|(name, _)| token.is_none_or(|t| name.as_str() > t));
        let mut wanted = after.filter(|(_, object)| is_wanted(object));
        let page: Vec<_> = wanted.by_ref().take(2).collect();
        let last = page.last().filter(|_| wanted.next().is_some()).map(|(name, _)| *name);
        let items: Vec<&Value> = page.iter().map(|(_, object)| *object).collect();
        json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"continue": last}, "items": items})
    }
}

fn conflict() -> (u16, Value) {
    status(409, "Conflict")
}

fn status(code: u16, reason: &str) -> (u16, Value) {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
        "reason": reason, "message": reason});
    (code, status)
}
