//! The binary: all of it is in the library.

fn main() -> std::process::ExitCode {
    drover::main();
    std::process::ExitCode::SUCCESS
}
