//! `taffrail context`: clusters under names, so that their addresses need not be given each time.

mod file;

use anyhow::bail;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::brokers::named;
use super::{Format, completion, print, table};
use crate::exit::Exit;
use crate::nodes;
use crate::options::OptionsError;

pub(crate) use self::file::{Context, Contexts};

/// The context that `taffrail up` keeps.
const UP: &str = "up";

#[derive(Subcommand, Debug)]
pub(crate) enum ContextCommand {
    /// List contexts; the one in use has a star
    #[command(visible_alias = "ls")]
    List(ListArgs),
    /// Give a cluster a name, or other addresses to one that has it
    Add(AddArgs),
    /// Use a context from now on
    Use(NameArgs),
    /// Forget a context
    Remove(NameArgs),
}

/// Arguments of `context list`.
#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    /// How to print the answer
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// Arguments of `context add`.
#[derive(Args, Debug)]
pub(crate) struct AddArgs {
    /// Name of the context
    #[arg(value_name = "NAME")]
    name: String,
    /// Addresses of brokers to begin with
    #[arg(
        short,
        long,
        visible_alias = "bootstrap-server",
        value_name = "HOST:PORT",
        value_delimiter = ',',
        required = true
    )]
    brokers: Vec<String>,
    /// Addresses of the controllers, for what is asked of them
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',')]
    controllers: Vec<String>,
    /// Address of a process's metrics
    #[arg(long, value_name = "HOST:PORT")]
    metrics: Option<String>,
    /// Use it from now on
    #[arg(long = "use")]
    use_it: bool,
    /// How to print the answer
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// The name of a context.
#[derive(Args, Debug)]
pub(crate) struct NameArgs {
    /// Name of the context
    #[arg(value_name = "NAME", add = completion::contexts())]
    name: String,
    /// How to print the answer
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// Carries out `context ...`.
pub(super) fn run(command: &ContextCommand) -> anyhow::Result<Exit> {
    match command {
        ContextCommand::List(args) => list(args),
        ContextCommand::Add(args) => add(args),
        ContextCommand::Use(args) => change(args, "is used from now on", |contexts, name| {
            contexts.current = Some(name.to_owned());
        }),
        ContextCommand::Remove(args) => change(args, "is forgotten", |contexts, name| {
            contexts.contexts.remove(name);
            if contexts.current.as_deref() == Some(name) {
                contexts.current = None;
            }
        }),
    }
}

fn list(args: &ListArgs) -> anyhow::Result<Exit> {
    let contexts = Contexts::load()?;
    let data = |(name, context): (&String, &Context)| {
        json!({
            "name": name,
            "brokers": context.brokers,
            "controllers": context.controllers,
            "metrics": context.metrics,
        })
    };
    let all: Vec<Value> = contexts.contexts.iter().map(data).collect();
    print(args.output, &json!({ "current": contexts.current, "contexts": all }), || {
        let row = |(name, context): (&String, &Context)| {
            let star = if contexts.current.as_ref() == Some(name) { "*" } else { "" };
            let (brokers, controllers) = (context.brokers.join(","), context.controllers.join(","));
            vec![star.to_owned(), name.clone(), brokers, controllers, context.metrics.clone().unwrap_or_default()]
        };
        let rows: Vec<Vec<String>> = contexts.contexts.iter().map(row).collect();
        table(&["USED", "NAME", "BROKERS", "CONTROLLERS", "METRICS"], &rows)
    })?;
    Ok(Exit::Done)
}

fn add(args: &AddArgs) -> anyhow::Result<Exit> {
    nodes::check_addresses("--brokers", &args.brokers)?;
    nodes::check_addresses("--controllers", &args.controllers)?;
    let context =
        Context { brokers: args.brokers.clone(), controllers: args.controllers.clone(), metrics: args.metrics.clone() };
    let mut contexts = Contexts::load()?;
    contexts.contexts.insert(args.name.clone(), context);
    if args.use_it || contexts.current.is_none() {
        contexts.current = Some(args.name.clone());
    }
    contexts.save()?;
    told(args.output, &args.name, "is known from now on")
}

fn change(args: &NameArgs, words: &str, change: impl Fn(&mut Contexts, &str)) -> anyhow::Result<Exit> {
    let mut contexts = Contexts::load()?;
    if !contexts.contexts.contains_key(&args.name) {
        bail!(contexts.unknown(&args.name));
    }
    change(&mut contexts, &args.name);
    contexts.save()?;
    told(args.output, &args.name, words)
}

fn told(output: Format, name: &str, words: &str) -> anyhow::Result<Exit> {
    print(output, &named("contexts", &[name.to_owned()]), || {
        format!("context {} {words}\n", super::output::shown(name))
    })?;
    Ok(Exit::Done)
}

/// The context of this name, or the one in use if there is any.
///
/// # Errors
/// When there is none of that name, or the file cannot be read.
pub(crate) fn chosen(name: Option<&str>) -> anyhow::Result<Option<Context>> {
    let contexts = Contexts::load()?;
    let Some(name) = name.map(str::to_owned).or_else(|| contexts.current.clone()) else { return Ok(None) };
    match contexts.contexts.get(&name) {
        Some(context) => Ok(Some(context.clone())),
        None => Err(OptionsError::Conflict(contexts.unknown(&name)).into()),
    }
}

/// Keeps the context of `taffrail up`, and has it used unless another one is.
///
/// # Errors
/// When the file cannot be read or written.
pub(crate) fn keep_up(context: Context) -> anyhow::Result<()> {
    let mut contexts = Contexts::load()?;
    if contexts.contexts.get(UP) == Some(&context) && contexts.current.is_some() {
        return Ok(());
    }
    contexts.contexts.insert(UP.to_owned(), context);
    contexts.current.get_or_insert_with(|| UP.to_owned());
    contexts.save()
}
