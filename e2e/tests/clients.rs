//! The client matrix: each client that people have runs the same scenario (`e2e/clients/README.md`) against a process.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use taffrail_e2e::matrix;
use taffrail_e2e::process::Server;

/// Groups form at once: the scenario makes many, and waiting three seconds for each shows nothing.
const SETTINGS: &[(&str, &str)] = &[("group.initial.rebalance.delay.ms", "0")];

/// Runs the scenario with one client against a process of its own, which must then still stop cleanly.
fn passes(client: &str) -> Result<()> {
    if !matrix::is_installed(client)? {
        return Ok(());
    }
    let mut server = Server::start(SETTINGS)?;
    let outcome = matrix::run(client, &server.bootstrap(), "scenario")?;
    ensure!(
        outcome.passed,
        "{client}: {} steps failed\n{}\n--- taffrail:\n{}",
        outcome.failures.len(),
        outcome.output,
        server.log_tail()
    );
    let status = server.stop()?;
    ensure!(status.success(), "taffrail ended with {status}: {}", server.log_tail());
    Ok(())
}

/// One test a client, and the list of all of them.
macro_rules! matrix {
    ($($test:ident: $client:literal,)*) => {
        const TESTED: &[&str] = &[$($client),*];
        $(
            #[test]
            fn $test() -> Result<()> {
                passes($client)
            }
        )*
    };
}

matrix! {
    client_java_4_4_passes_every_step: "java-4.4",
    client_java_2_8_passes_every_step: "java-2.8",
    client_java_2_1_passes_every_step: "java-2.1",
    kafkas_own_tools_pass_every_step: "kafka-tools",
    client_confluent_kafka_passes_every_step: "confluent-kafka",
    client_kafka_python_passes_every_step: "kafka-python",
    client_aiokafka_passes_every_step: "aiokafka",
    client_kcat_passes_every_step: "kcat",
    old_librdkafka_passes_every_step: "librdkafka-1.9.2",
    client_kafkajs_passes_every_step: "kafkajs",
    client_platformatic_passes_every_step: "platformatic",
    client_franz_go_passes_every_step: "franz-go",
    client_kafka_go_passes_every_step: "kafka-go",
    client_sarama_0_11_passes_every_step: "sarama-0.11.0.0",
    client_sarama_1_0_passes_every_step: "sarama-1.0.0",
    client_sarama_2_1_passes_every_step: "sarama-2.1.0",
    client_sarama_3_6_passes_every_step: "sarama-3.6.0",
    client_sarama_max_passes_every_step: "sarama-max",
}

#[test]
fn every_client_of_the_matrix_has_a_test() -> Result<()> {
    let listed: BTreeSet<String> = matrix::clients()?.into_iter().map(|(name, _)| name).collect();
    let tested: BTreeSet<String> = TESTED.iter().map(ToString::to_string).collect();
    assert_eq!(listed, tested);
    Ok(())
}
