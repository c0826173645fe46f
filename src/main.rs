//! The binary: all of it is in the library.

fn main() -> std::process::ExitCode {
    drover::main()
}
