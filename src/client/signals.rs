//! Signal names of Linux to their numbers (signal(7); the numbers of x86 and ARM).

const NAMES: [(&str, i32); 34] = [
    ("SIGHUP", 1),
    ("SIGINT", 2),
    ("SIGQUIT", 3),
    ("SIGILL", 4),
    ("SIGTRAP", 5),
    ("SIGABRT", 6),
    ("SIGIOT", 6),
    ("SIGBUS", 7),
    ("SIGFPE", 8),
    ("SIGKILL", 9),
    ("SIGUSR1", 10),
    ("SIGSEGV", 11),
    ("SIGUSR2", 12),
    ("SIGPIPE", 13),
    ("SIGALRM", 14),
    ("SIGTERM", 15),
    ("SIGSTKFLT", 16),
    ("SIGCHLD", 17),
    ("SIGCONT", 18),
    ("SIGSTOP", 19),
    ("SIGTSTP", 20),
    ("SIGTTIN", 21),
    ("SIGTTOU", 22),
    ("SIGURG", 23),
    ("SIGXCPU", 24),
    ("SIGXFSZ", 25),
    ("SIGVTALRM", 26),
    ("SIGPROF", 27),
    ("SIGWINCH", 28),
    ("SIGIO", 29),
    ("SIGPOLL", 29),
    ("SIGPWR", 30),
    ("SIGSYS", 31),
    ("SIGUNUSED", 31),
];

/// The first real-time signal as the C library numbers them: it keeps 32 and 33 for itself.
const RTMIN: i32 = 34;
const RTMAX: i32 = 64;

/// The signal for a task whose job names none.
pub const DEFAULT: i32 = 2;

/// The number of a job's `kill_signal`; empty is the default. `None` for a name that Linux does not know.
pub fn number(name: &str) -> Option<i32> {
    if name.is_empty() {
        return Some(DEFAULT);
    }
    let real_time = |rest: &str, base: i32, sign: char, way: i32| {
        if rest.is_empty() {
            return Some(base);
        }
        let step: i32 = rest.strip_prefix(sign)?.parse().ok()?;
        let signal = base.checked_add(step.checked_mul(way)?)?;
        (step >= 0 && (RTMIN..=RTMAX).contains(&signal)).then_some(signal)
    };
    if let Some(rest) = name.strip_prefix("SIGRTMIN") {
        return real_time(rest, RTMIN, '+', 1);
    }
    if let Some(rest) = name.strip_prefix("SIGRTMAX") {
        return real_time(rest, RTMAX, '-', -1);
    }
    NAMES.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signal_names_have_numbers() {
        for (name, signal) in [
            ("", Some(2)),
            ("SIGINT", Some(2)),
            ("SIGTERM", Some(15)),
            ("SIGKILL", Some(9)),
            ("SIGSYS", Some(31)),
            ("SIGRTMIN", Some(34)),
            ("SIGRTMIN+3", Some(37)),
            ("SIGRTMIN+31", None),
            ("SIGRTMAX", Some(64)),
            ("SIGRTMAX-1", Some(63)),
            ("SIGRTMAX-99999999999", None),
            ("SIGRTMIN+-1", None),
            ("TERM", None),
            ("sigterm", None),
        ] {
            assert_eq!(number(name), signal, "{name}");
        }
    }
}
