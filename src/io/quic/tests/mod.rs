//! Links over real sockets of the loopback interface.

mod enrolment;
mod hostile;
mod links;
mod machine;
mod refusals;
mod relay;
mod relay_streams;
mod slow_lines;
mod stored;
