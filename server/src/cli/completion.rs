//! `taffrail completion`: what a shell needs to complete commands, with the names of topics, groups and contexts as they are now.
//! The shell asks this program at each try, by the variable [`VARIABLE`].

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::anyhow;
use clap::{Args, CommandFactory, ValueEnum};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::{CompleteEnv, Shells};
use taffrail_client::kafka::{KafkaClient, KafkaError};
use taffrail_runtime::task;

use super::brokers::LOCAL;
use super::context::{self, Contexts};
use super::{Cli, output};
use crate::exit::Exit;

/// Variable by which a shell asks.
const VARIABLE: &str = "TAFFRAIL_COMPLETE";

/// How long people wait for a name.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Arguments of `completion`.
#[derive(Args, Debug)]
#[command(after_help = "bash: source <(taffrail completion bash)\nzsh: source <(taffrail completion zsh)\n\
                        fish: taffrail completion fish | source\nin the file that the shell reads at its start.")]
pub(crate) struct CompletionArgs {
    /// The shell
    #[arg(value_name = "SHELL", value_enum)]
    shell: Shell,
}

/// Shells that are known.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Answers a shell that asks; whether one did.
///
/// # Errors
/// When the shell is unknown, or the answer cannot be written.
pub(crate) fn answer() -> clap::error::Result<bool> {
    let here = std::env::current_dir().ok();
    CompleteEnv::with_factory(Cli::command).var(VARIABLE).try_complete(std::env::args_os(), here.as_deref())
}

/// Carries out `completion`: prints what tells the shell to ask.
pub(super) fn run(args: &CompletionArgs) -> anyhow::Result<Exit> {
    let name = match args.shell {
        Shell::Bash => "bash",
        Shell::Zsh => "zsh",
        Shell::Fish => "fish",
    };
    let shells = Shells::builtins();
    let shell = shells.completer(name).ok_or_else(|| anyhow!("{name} is not known here"))?;
    let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("taffrail"));
    let mut script = Vec::new();
    shell.write_registration(VARIABLE, "taffrail", "taffrail", &program.to_string_lossy(), &mut script)?;
    output::offer(&script)?;
    Ok(Exit::Done)
}

/// Completes names of topics.
pub(super) fn topics() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| {
        candidates(begun, || {
            ask(async |client| Ok(client.cluster().await?.topics.into_iter().map(|it| it.name).collect()))
        })
    })
}

/// Completes names of groups.
pub(super) fn groups() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| {
        candidates(begun, || ask(async |client| Ok(client.groups().await?.into_iter().map(|it| it.name).collect())))
    })
}

/// Completes names of contexts.
pub(super) fn contexts() -> ArgValueCompleter {
    let names = || Contexts::load().unwrap_or_default().contexts.into_keys().collect();
    ArgValueCompleter::new(move |begun: &OsStr| candidates(begun, names))
}

/// Those of `names` that begin so. Names with what a terminal would obey are left out.
fn candidates(begun: &OsStr, names: impl FnOnce() -> Vec<String>) -> Vec<CompletionCandidate> {
    let begun = begun.to_string_lossy();
    let fitting = names().into_iter().filter(|name| name.starts_with(&*begun) && !name.chars().any(char::is_control));
    fitting.map(CompletionCandidate::new).collect()
}

/// What the cluster says; nothing if it cannot be asked, because nobody wants to read of that in the middle of a line.
fn ask(question: impl AsyncFnOnce(&mut KafkaClient) -> Result<Vec<String>, KafkaError>) -> Vec<String> {
    let answered = task::block_on_current_thread(async {
        let mut client = KafkaClient::connect(&addresses(), TIMEOUT).await?;
        question(&mut client).await
    });
    answered.ok().and_then(Result::ok).unwrap_or_default()
}

/// Where brokers are, as far as the unfinished line tells.
fn addresses() -> Vec<String> {
    let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let given =
        given(&words, &["-b", "--brokers", "--bootstrap-server"]).or_else(|| std::env::var("TAFFRAIL_BROKERS").ok());
    if let Some(given) = given {
        return given.split(',').map(str::to_owned).collect();
    }
    let name = self::given(&words, &["--context"]).or_else(|| std::env::var("TAFFRAIL_CONTEXT").ok());
    let context = context::chosen(name.as_deref()).ok().flatten();
    context.map_or_else(|| vec![LOCAL.to_owned()], |context| context.brokers)
}

/// The value of one of these flags in a line.
fn given(words: &[String], flags: &[&str]) -> Option<String> {
    words.iter().enumerate().find_map(|(at, word)| match word.split_once('=') {
        Some((flag, value)) if flags.contains(&flag) => Some(value.to_owned()),
        _ if flags.contains(&word.as_str()) => words.get(at + 1).cloned(),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_flags_are_found_in_a_line_that_is_not_done() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let cases = [
            ("taffrail topic describe -b a:1,b:2 o", Some("a:1,b:2")),
            ("taffrail topic describe --brokers=a:1", Some("a:1")),
            ("taffrail topic describe -b", None),
            ("taffrail topic describe", None),
        ];
        for (line, expected) in cases {
            assert_eq!(given(&words(line), &["-b", "--brokers"]).as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn only_names_that_fit_and_harm_nobody_are_offered() {
        let names = || ["orders", "other", "or\u{1b}[2J", "x"].map(str::to_owned).to_vec();
        let offered: Vec<String> = candidates(OsStr::new("or"), names)
            .iter()
            .map(|candidate| candidate.get_value().to_string_lossy().into_owned())
            .collect();
        assert_eq!(offered, ["orders"]);
    }
}
