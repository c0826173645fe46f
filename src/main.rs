fn main() -> std::process::ExitCode {
    drover::main();
    std::process::ExitCode::SUCCESS
}
