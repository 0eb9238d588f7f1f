//! A controller without a disk, with one broker that serves: shared by the tests of both kinds of operator.

use std::sync::{Arc, Mutex};

use taffrail_core::config::Overrides;
use taffrail_core::control::{BrokerIdentity, Command, Inputs, Lags, RegisterBroker, Reply, decide};
use taffrail_core::event::{Listener, SecurityProtocol};
use taffrail_core::ids::{BrokerId, Uuid};
use taffrail_core::image::MetadataImage;
use taffrail_operator::platform::local::LocalPlatform;
use taffrail_operator::platform::{Platform, PlatformError};
use taffrail_runtime::random;

/// The image, and what decides on it; `broker` serves.
pub(crate) async fn with_broker(broker: BrokerId) -> LocalPlatform {
    let image = Arc::new(Mutex::new(Arc::new(MetadataImage::default())));
    let read = Arc::clone(&image);
    let propose = move |command: Command| {
        let mut image = image.lock().unwrap();
        let ids: Vec<Uuid> = (0..command.ids_needed()).map(|_| random::uuid()).collect();
        let inputs = Inputs {
            fresh_ids: &ids,
            live_brokers: &[broker],
            static_config: &Overrides::new(),
            now_ms: 0,
            lags: &Lags::default(),
        };
        let decided = decide(&image, &command, &inputs).map_err(PlatformError::Refused);
        std::future::ready(decided.map(|decision| {
            let mut next = MetadataImage::clone(&image);
            decision.events.iter().for_each(|event| next.apply(event).unwrap());
            *image = Arc::new(next);
            decision.reply
        }))
    };
    let platform = LocalPlatform::new(move || Arc::clone(&read.lock().unwrap()), propose);
    platform.propose(Command::CreateCluster { cluster_id: random::uuid() }).await.unwrap();
    let register = RegisterBroker {
        id: broker,
        cluster_id: None,
        incarnation: random::uuid(),
        rack: None,
        listeners: vec![Listener {
            name: "PLAINTEXT".into(),
            host: "broker".into(),
            port: 9092,
            security: SecurityProtocol::Plaintext,
        }],
        log_dirs: vec![random::uuid()],
        features: Default::default(),
        unclean_shutdown: false,
        min_in_sync: None,
    };
    let Reply::BrokerRegistered { epoch } = platform.propose(Command::RegisterBroker(register)).await.unwrap() else {
        panic!("not registered")
    };
    platform.propose(Command::UnfenceBroker(BrokerIdentity { id: broker, epoch })).await.unwrap();
    platform
}
