//! A small Kubernetes API in this process: objects by their paths, server-side apply as a merge, preconditions, and failures
//! at the call that a test names.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

/// When a call fails, beside its own answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Nothing is done.
    Before,
    /// It is done, and the answer is lost.
    After,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Value>,
    version: u64,
    calls: usize,
    writes: Vec<String>,
    failure: Option<(usize, Failure)>,
}

/// The API. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct FakeApi(Arc<Mutex<State>>);

impl FakeApi {
    /// A client of it.
    pub(crate) fn client(&self) -> Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let api = api.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await.unwrap_or_default();
                let body: Value = serde_json::from_slice(&body).unwrap_or_default();
                let (code, answer) = api.call(&parts.method, parts.uri.path(), body);
                let answer = Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()));
                Ok::<_, Infallible>(answer.unwrap())
            }
        });
        Client::new(service, "shop")
    }

    /// The call of this number from now on fails.
    pub(crate) fn fail_at(&self, call: usize, failure: Failure) {
        let mut state = self.0.lock().unwrap();
        state.failure = Some((state.calls + call, failure));
    }

    /// Calls so far.
    pub(crate) fn calls(&self) -> usize {
        self.0.lock().unwrap().calls
    }

    /// What was written since this was asked last.
    pub(crate) fn take_writes(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap().writes)
    }

    /// Puts an object there, as its owner would.
    pub(crate) fn put(&self, collection: &str, object: Value) -> Value {
        let path = format!("{collection}/{}", object["metadata"]["name"].as_str().unwrap());
        let mut state = self.0.lock().unwrap();
        state.store(&path, object)
    }

    /// Takes an object away, as its owner would.
    pub(crate) fn remove(&self, collection: &str, name: &str) {
        self.0.lock().unwrap().objects.remove(&format!("{collection}/{name}"));
    }

    /// All objects of a collection.
    pub(crate) fn list(&self, collection: &str) -> Vec<Value> {
        let state = self.0.lock().unwrap();
        let is_in = |path: &str| path.rsplit_once('/').is_some_and(|(parent, _)| parent == collection);
        state.objects.iter().filter(|(path, _)| is_in(path)).map(|(_, object)| object.clone()).collect()
    }

    /// Names of all objects, with their kinds' plurals.
    pub(crate) fn names(&self) -> Vec<String> {
        let state = self.0.lock().unwrap();
        let short = |path: &String| {
            let (parent, name) = path.rsplit_once('/').unwrap();
            format!("{}/{name}", parent.rsplit_once('/').unwrap().1)
        };
        state.objects.keys().map(short).collect()
    }

    fn call(&self, method: &Method, path: &str, body: Value) -> (u16, Value) {
        let mut state = self.0.lock().unwrap();
        let call = state.calls;
        state.calls += 1;
        let failure = state.failure.filter(|(at, _)| *at == call).map(|(_, failure)| failure);
        if failure == Some(Failure::Before) {
            return refused(500, "InternalError", "the server has a bad moment");
        }
        let answer = state.answer(method, path, body);
        if *method != Method::GET {
            state.writes.push(format!("{method} {path}"));
        }
        if failure == Some(Failure::After) {
            return refused(500, "InternalError", "the answer is lost");
        }
        answer
    }
}

fn refused(code: u16, reason: &str, message: &str) -> (u16, Value) {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    });
    (code, status)
}

impl State {
    fn answer(&mut self, method: &Method, path: &str, body: Value) -> (u16, Value) {
        if let Some(path) = path.strip_suffix("/scale") {
            return self.answer_scale(method, path, body);
        }
        let (path, is_status) = match path.strip_suffix("/status") {
            Some(object) => (object, true),
            None => (path, false),
        };
        let present = self.objects.get(path).cloned();
        match (method.as_str(), present) {
            ("GET", Some(object)) => (200, object),
            ("POST", _) => {
                let path = format!("{path}/{}", body["metadata"]["name"].as_str().unwrap_or_default());
                if self.objects.contains_key(&path) {
                    return refused(409, "AlreadyExists", "already exists");
                }
                (201, self.store(&path, body))
            }
            ("PATCH", present) => {
                let uid = body["metadata"]["uid"].as_str();
                match present {
                    None if is_status || uid.is_some() => refused(404, "NotFound", "not found"),
                    Some(present) if uid.is_some_and(|uid| present["metadata"]["uid"] != uid) => {
                        refused(409, "Conflict", "another uid")
                    }
                    present => {
                        let mut object = present.unwrap_or_else(|| json!({}));
                        merge(&mut object, body);
                        (200, self.store(path, object))
                    }
                }
            }
            ("PUT", Some(present)) => {
                if body["metadata"]["resourceVersion"] != present["metadata"]["resourceVersion"] {
                    return refused(409, "Conflict", "changed meanwhile");
                }
                (200, self.store(path, body))
            }
            ("DELETE", Some(present)) => {
                let uid = body["preconditions"]["uid"].as_str();
                if uid.is_some_and(|uid| present["metadata"]["uid"] != uid) {
                    return refused(409, "Conflict", "another uid");
                }
                self.objects.remove(path);
                (200, present)
            }
            _ => refused(404, "NotFound", "not found"),
        }
    }

    /// The part of an object that says how many replicas it is to have.
    fn answer_scale(&mut self, method: &Method, path: &str, body: Value) -> (u16, Value) {
        let Some(mut object) = self.objects.get(path).cloned() else { return refused(404, "NotFound", "not found") };
        if *method == Method::PATCH {
            merge(&mut object, body);
            object = self.store(path, object);
        }
        let (metadata, replicas) = (&object["metadata"], &object["spec"]["replicas"]);
        let scale = json!({
            "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata, "spec": {"replicas": replicas},
        });
        (200, scale)
    }

    fn store(&mut self, path: &str, mut object: Value) -> Value {
        self.version += 1;
        let version = self.version.to_string();
        let metadata = &mut object["metadata"];
        if metadata["uid"].is_null() {
            metadata["uid"] = format!("uid-{version}").into();
            metadata["creationTimestamp"] = format!("2026-01-01T00:00:{:02}Z", self.version % 60).into();
        }
        metadata["resourceVersion"] = version.into();
        if let Some((parent, _)) = path.split_once("/namespaces/").map(|(_, rest)| rest.split_once('/').unwrap()) {
            metadata["namespace"] = parent.into();
        }
        self.objects.insert(path.to_owned(), object.clone());
        object
    }
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            from.into_iter().for_each(|(key, value)| merge(into.entry(key).or_insert(Value::Null), value));
        }
        (into, from) => *into = from,
    }
}
