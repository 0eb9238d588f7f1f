//! An operator that restarts brokers: it asks for the permission, has the broker stopped, and gives the permission back.

use std::collections::BTreeSet;
use std::time::Duration;

use taffrail_client::controller::ControllerClient;
use taffrail_core::control::{CloseGrant, Command, OpenGrant, Reply, SmallPartitions};
use taffrail_core::errors::ErrorCode;
use taffrail_core::ids::BrokerId;
use taffrail_runtime::grpc::Target;
use taffrail_runtime::{random, time};

use super::{BROKERS_MAX, Surroundings, between};
use crate::cluster::machines::controllers;

/// How long a grant is asked for.
pub(in crate::cluster) const GRANT_MS: i64 = 4_000;

/// How long the controllers may take.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Shortest and longest pause between two restarts.
const RESTARTS_AFTER_MS: (u64, u64) = (200, 1_500);

/// How long a grant is kept, at least and at most; a longer time than it is given for.
const KEEPS_MS: (u64, u64) = (200, 5_000);

/// By how much an operator that was displaced is newer than before, when it leads again.
const EPOCHS: i64 = 2;

/// Restarts one broker after the other, as the operator of this epoch.
pub(in crate::cluster) async fn restart(mut epoch: i64, surroundings: Surroundings) {
    let members = controllers().into_iter().map(|address| (address.clone(), Target::Address(address)));
    let client = match ControllerClient::new(members.collect()) {
        Ok(client) => client,
        Err(error) => return surroundings.trace.note(format_args!("operator {epoch}"), error),
    };
    loop {
        time::sleep(between(RESTARTS_AFTER_MS)).await;
        if !surroundings.operating.get() {
            continue;
        }
        let broker = 1 + (random::u64() % u64::from(BROKERS_MAX)) as u8;
        let request = OpenGrant {
            brokers: BTreeSet::from([BrokerId(i32::from(broker))]),
            operator_epoch: epoch,
            duration_ms: GRANT_MS,
            policy: SmallPartitions::Block,
        };
        let opened = client.propose(&Command::OpenGrant(request), TIMEOUT).await;
        let what = match &opened {
            Ok(committed) => match &committed.reply {
                Reply::GrantOpened(grant) => format!("may restart {broker}: {}", grant.id),
                _ => format!("may not restart {broker}"),
            },
            Err(error) => format!("gets no answer on {broker}: {error}"),
        };
        surroundings.trace.note(format_args!("operator {epoch}"), what);
        match opened {
            Ok(committed) => {
                if let Reply::GrantOpened(grant) = committed.reply {
                    surroundings.ledger.granted();
                    surroundings.to_restart.set(Some(broker));
                    time::sleep(between(KEEPS_MS)).await;
                    surroundings.ledger.give_back(grant.id);
                    let closing = CloseGrant { id: grant.id, operator_epoch: epoch };
                    let closed = client.propose(&Command::CloseGrant(closing), TIMEOUT).await;
                    let outcome = closed.map(|committed| committed.offset);
                    surroundings.trace.note(format_args!("operator {epoch}"), format!("gives back: {outcome:?}"));
                }
            }
            Err(error) if error.code == ErrorCode::StaleControllerEpoch => epoch += EPOCHS,
            Err(_) => {}
        }
    }
}
