//! Finds launchers within a worker that kill its processes some time after they were told to end.
//!
//! torchrun (torchelastic) hands SIGTERM, SIGINT, SIGHUP and SIGQUIT on to its processes and kills them 30 s later,
//! whatever grace the worker has otherwise; `accelerate launch` runs it within itself. Source: pytorch
//! `torch/distributed/elastic/multiprocessing/api.py`, read 2026-11.

use std::fs::File;
use std::io::Read as _;

/// What torchelastic waits unless it is told otherwise.
const TORCHELASTIC_GRACE_MS: u64 = 30_000;
/// How much of a command line is read: the program and its own flags stand at the beginning.
const COMMAND_BYTES_MAX: u64 = 16 * 1024;
/// Longest grace that is believed: a day.
const GRACE_S_MAX: u64 = 86_400;

/// The grace of process `pid`, if it is such a launcher. Unit: ms.
pub(super) fn grace_ms(pid: u32) -> Option<u64> {
    let mut bytes = Vec::new();
    let file = File::open(format!("/proc/{pid}/cmdline")).ok()?;
    file.take(COMMAND_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    of_command(&bytes)
}

/// The same from the words of a command line, each ended by a zero byte.
fn of_command(command: &[u8]) -> Option<u64> {
    let words: Vec<&str> =
        command.split(|b| *b == 0).map(|word| std::str::from_utf8(word).unwrap_or("")).collect();
    let is_launcher = (0..words.len().min(8)).any(|i| starts_launcher(&words[i..]));
    is_launcher.then(|| declared_ms(&words).unwrap_or(TORCHELASTIC_GRACE_MS))
}

fn starts_launcher(words: &[&str]) -> bool {
    let file = |word: &str| word.rsplit('/').next().unwrap_or("").to_owned();
    let second = words.get(1).copied().unwrap_or("");
    match words.first().copied().unwrap_or("") {
        "-m" => matches!(
            second,
            "torch.distributed.run"
                | "torch.distributed.launch"
                | "accelerate.commands.launch"
                | "accelerate.commands.accelerate_cli"
        ),
        word if file(word) == "torchrun" => true,
        word if file(word) == "accelerate-launch" => true,
        word if file(word) == "accelerate" => second == "launch",
        word => word.ends_with("torch/distributed/run.py"),
    }
}

/// `--shutdown-timeout 120`, in seconds, as newer versions know it.
fn declared_ms(words: &[&str]) -> Option<u64> {
    let value = words.iter().enumerate().find_map(|(i, word)| {
        let rest =
            word.strip_prefix("--shutdown-timeout").or(word.strip_prefix("--shutdown_timeout"));
        match rest? {
            "" => words.get(i + 1).copied(),
            rest => rest.strip_prefix('='),
        }
    });
    let seconds: u64 = value?.parse().ok()?;
    (1..=GRACE_S_MAX).contains(&seconds).then_some(seconds * 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(command: &str, expected: Option<u64>) {
        let bytes: Vec<u8> = command.bytes().map(|b| if b == b' ' { 0 } else { b }).collect();
        assert_eq!(of_command(&bytes), expected, "{command}");
    }

    #[test]
    fn launchers_are_told_from_what_they_launch() {
        check("/usr/bin/python3 /opt/venv/bin/torchrun --nproc-per-node 8 train.py", Some(30_000));
        check("torchrun train.py", Some(30_000));
        check("python -m torch.distributed.run train.py", Some(30_000));
        check("python /opt/bin/accelerate launch --config c.yaml train.py", Some(30_000));
        check("accelerate config", None);
        check("python train.py --launcher torchrun-like", None);
        check("bash -c torchrun_is_not_run_here", None);
        check("", None);
    }

    #[test]
    fn a_longer_timeout_of_the_launcher_counts() {
        check("torchrun --shutdown-timeout 120 train.py", Some(120_000));
        check("torchrun --shutdown-timeout=90 train.py", Some(90_000));
        check("torchrun --shutdown-timeout never train.py", Some(30_000));
    }
}
