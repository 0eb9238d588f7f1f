//! A running `taffrail up`, for tests of what people and programs do to it.

#![allow(dead_code, reason = "no test uses all of it")]

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use taffrail_runtime::{net, task};

/// A running `taffrail up`, killed when it is dropped.
pub(crate) struct Up {
    pub(crate) child: Child,
    pub(crate) summary: Vec<String>,
    /// Where it makes temporary directories, which a kill leaves behind.
    _scratch: tempfile::TempDir,
}

pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_taffrail"));
    command
        .env_clear()
        .arg("up")
        .args(["--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--console", "127.0.0.1:0"])
        .args(args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

impl Up {
    /// Starts it, and waits until it has said that it is up.
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::start_in(&[], args)
    }

    /// The same with variables in its environment.
    pub(crate) fn start_in(environment: &[(&str, &str)], args: &[&str]) -> Self {
        let mut command = command(args);
        command.envs(environment.iter().copied());
        Self::run(command)
    }

    /// The same with its log in a file, which can be read while it runs.
    pub(crate) fn start_with_log(log: &Path, args: &[&str]) -> Self {
        let mut command = command(args);
        command.stderr(File::create(log).unwrap());
        Self::run(command)
    }

    fn run(mut command: Command) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        command.env("TMPDIR", scratch.path());
        let child = command.spawn().unwrap();
        let mut up = Self { child, summary: Vec::new(), _scratch: scratch };
        let lines = BufReader::new(up.child.stdout.take().unwrap()).lines();
        for line in lines.map(Result::unwrap) {
            up.summary.push(line);
            if up.summary.last().is_some_and(|line| line.starts_with("Ctrl-C")) {
                return up;
            }
        }
        let mut said = String::new();
        if let Some(mut stderr) = up.child.stderr.take() {
            stderr.read_to_string(&mut said).unwrap();
        }
        panic!("not up: {:?}\n{said}", up.summary)
    }

    /// What it says after a word.
    pub(crate) fn told(&self, word: &str) -> &str {
        let line = self.summary.iter().find_map(|line| line.trim().strip_prefix(word)).unwrap();
        line.trim()
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The whole answer to a GET.
pub(crate) fn get(address: &str, path: &str) -> std::io::Result<String> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    task::block_on_current_thread(async {
        let mut stream = net::connect(address).await?;
        stream.split().1.write_vectored(&[std::io::IoSlice::new(request.as_bytes())], false).await?;
        let mut answer = bytes::BytesMut::new();
        loop {
            stream.readable().await?;
            answer.reserve(64 << 10);
            match stream.try_read_buf(&mut answer) {
                Ok(0) => return Ok(String::from_utf8_lossy(&answer).into_owned()),
                Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => return Err(error),
                _ => {}
            }
        }
    })?
}
