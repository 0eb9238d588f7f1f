//! The console: a page that shows the cluster and its records, and the questions that the page asks. It changes nothing.
//!
//! The page is in the binary and needs nothing else (`assets`). Its questions are answered from the metadata of a broker of this
//! process, and by asking brokers and controllers as any client does. Names and records come from strangers: the answers
//! are JSON, the page shows them as text, and no script but its own runs (`guard`). Addresses are relative, so that it works
//! behind a proxy under any prefix. What it takes is bounded: connections, readers at a time, records and bytes of an answer.

mod assets;
mod brokers;
mod clients;
mod fresh;
mod groups;
mod guard;
mod health;
mod history;
mod messages;
mod parameters;
mod refusal;
mod sizes;
mod topics;
mod troubles;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::Value;
use taffrail_broker::Broker;
use taffrail_client::controller::ControllerClient;
use taffrail_core::image::MetadataImage;
use taffrail_runtime::grpc::Target;
use taffrail_runtime::net::TcpListener;
use taffrail_runtime::shutdown::Shutdown;
use taffrail_runtime::{task, time};

use self::clients::Clients;
use self::fresh::Fresh;
use self::history::History;
use self::parameters::Parameters;
use self::refusal::Refusal;
use crate::http::{Listener, Places};
use crate::options::ConsoleAddress;
use crate::sockets::listen;

/// Where the console of `taffrail up` is unless told otherwise.
const OF_UP: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9405);

/// The flag that says where the console is.
const FLAG: &str = "--console";

/// Connections at a time. A browser keeps six.
const CONNECTIONS_MAX: usize = 64;

/// How long a connection may be silent.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Questions about records at a time; who comes while there are so many is told to come again.
const READS_MAX: usize = 4;

/// How long a question may take.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// How old an answer about the health of the cluster may be; everybody who looks shares it.
const HEALTH_FRESH: Duration = Duration::from_secs(1);

/// The same for disks, which fill slowly.
const DISKS_FRESH: Duration = Duration::from_secs(5);

/// The same for sizes of logs, of which all brokers are asked.
const SIZES_FRESH: Duration = Duration::from_secs(4);

/// The socket that `taffrail up` serves the console at. If nobody has said where, one that is taken is no reason to stop: another
/// cluster on the same machine has it, and this one takes any that is free.
///
/// # Errors
/// When an address that somebody asked for cannot be listened at.
pub(crate) async fn socket_of_up(asked: ConsoleAddress) -> anyhow::Result<Option<TcpListener>> {
    match asked {
        ConsoleAddress::Auto => match TcpListener::bind(OF_UP).await {
            Ok(socket) => Ok(Some(socket)),
            Err(_) => Ok(Some(listen(SocketAddr::new(OF_UP.ip(), 0), FLAG).await?)),
        },
        _ => socket_of_broker(asked).await,
    }
}

/// The socket that `taffrail broker` serves the console at: none unless somebody asked for it.
///
/// # Errors
/// When the address cannot be listened at.
pub(crate) async fn socket_of_broker(asked: ConsoleAddress) -> anyhow::Result<Option<TcpListener>> {
    match asked {
        ConsoleAddress::At(address) => Ok(Some(listen(address, FLAG).await?)),
        ConsoleAddress::Auto | ConsoleAddress::Off => Ok(None),
    }
}

/// What a console is made of.
pub(crate) struct ConsoleParts {
    /// The broker whose metadata it shows.
    pub(crate) broker: Arc<Broker>,
    /// Addresses of brokers to begin with.
    pub(crate) bootstrap: Vec<String>,
    /// The controllers: their addresses as the cluster knows them, and where to reach them.
    pub(crate) controllers: Vec<(String, Target)>,
    /// Names under which browsers reach it, beside addresses and localhost.
    pub(crate) hosts: Vec<String>,
}

/// What all questions share.
pub(crate) struct Console {
    broker: Arc<Broker>,
    controllers: ControllerClient,
    clients: Clients,
    hosts: Vec<String>,
    health: Fresh<Value>,
    disks: Fresh<brokers::Disks>,
    sizes: Fresh<sizes::Sizes>,
    history: History,
    reads: Places,
}

impl Console {
    /// A console that knows nothing yet.
    ///
    /// # Errors
    /// When the address of a controller is no host and port.
    pub(crate) fn new(parts: ConsoleParts) -> io::Result<Self> {
        Ok(Self {
            broker: parts.broker,
            controllers: ControllerClient::new(parts.controllers)?,
            clients: Clients::new(parts.bootstrap),
            hosts: parts.hosts,
            health: Fresh::new(HEALTH_FRESH),
            disks: Fresh::new(DISKS_FRESH),
            sizes: Fresh::new(SIZES_FRESH),
            history: History::default(),
            reads: Places::new(READS_MAX),
        })
    }

    /// The metadata as they are now.
    fn image(&self) -> Arc<MetadataImage> {
        self.broker.metadata.image()
    }

    /// Serves until the word to stop.
    pub(crate) async fn serve(self, listener: TcpListener, stop: Shutdown) -> io::Result<()> {
        let address = listener.local_addr()?;
        if !address.ip().is_loopback() {
            tracing::warn!(%address, "the console shows records to everybody who reaches it");
        }
        let console = Arc::new(self);
        task::spawn_until(stop.clone(), history::keep(Arc::clone(&console)));
        let router = Router::new()
            .route("/", get(|headers: HeaderMap| async move { assets::answer(assets::PAGE, &headers) }))
            .route(
                "/{file}",
                get(|Path(file): Path<String>, headers: HeaderMap| async move { assets::answer(&file, &headers) }),
            )
            .route("/api/health", get(health))
            .route("/api/brokers", get(brokers))
            .route("/api/topics", get(topics))
            .route("/api/topic", get(topic))
            .route("/api/settings", get(settings))
            .route("/api/groups", get(groups))
            .route("/api/group", get(group))
            .route("/api/messages", get(messages))
            .fallback(|| async { assets::nothing() })
            .layer(middleware::from_fn_with_state(Arc::clone(&console), guard::guard))
            .with_state(console);
        let listener = Listener::new(listener, CONNECTIONS_MAX, SILENCE_MAX);
        axum::serve(listener, router).with_graceful_shutdown(async move { stop.triggered().await }).await
    }
}

type Asked = State<Arc<Console>>;

async fn health(State(console): Asked) -> Response {
    answer(async { Ok(health::read(&console).await) }).await
}

async fn brokers(State(console): Asked) -> Response {
    answer(async { Ok(brokers::read(&console).await) }).await
}

async fn topics(State(console): Asked, RawQuery(query): RawQuery) -> Response {
    answer(async { topics::list(&console, Parameters::of(query.as_deref())?).await }).await
}

async fn topic(State(console): Asked, RawQuery(query): RawQuery) -> Response {
    answer(async { topics::one(&console, Parameters::of(query.as_deref())?).await }).await
}

async fn settings(State(console): Asked, RawQuery(query): RawQuery) -> Response {
    answer(async { topics::settings(&console, Parameters::of(query.as_deref())?).await }).await
}

async fn groups(State(console): Asked, RawQuery(query): RawQuery) -> Response {
    answer(async { groups::list(&console, Parameters::of(query.as_deref())?) }).await
}

async fn group(State(console): Asked, RawQuery(query): RawQuery) -> Response {
    answer(async { groups::one(&console, Parameters::of(query.as_deref())?).await }).await
}

async fn messages(State(console): Asked, RawQuery(query): RawQuery) -> Response {
    answer(async { messages::read(&console, Parameters::of(query.as_deref())?).await }).await
}

/// What is answered to a question, in time.
async fn answer(work: impl Future<Output = Result<Value, Refusal>>) -> Response {
    match time::timeout(ANSWER_MAX, work).await {
        Ok(Ok(value)) => json(&value),
        Ok(Err(refusal)) => refusal.into_response(),
        Err(_) => Refusal::late().into_response(),
    }
}

/// A value as an answer that nobody keeps.
fn json(value: &Value) -> Response {
    let mut response = Response::new(Body::from(value.to_string()));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
