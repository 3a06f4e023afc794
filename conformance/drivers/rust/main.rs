//! Rust's drivers in transaction pooling: tokio-postgres or sqlx (the first argument), with their defaults.
//!
//! Several clients run the same steps at the same time; the results are printed client by client. Lines that begin
//! with # are remarks; FAIL marks results that the program itself considers wrong. Further arguments name scenarios
//! to leave out, each after a dash, or to run alone.

mod harness;
mod tx_sqlx;
mod tx_tokio_postgres;

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let driver = arguments.next();
    let mut runs = harness::Runs::new(arguments.collect());
    match driver.as_deref() {
        Some("tokio_postgres") => tx_tokio_postgres::run(&mut runs).await,
        Some("sqlx") => tx_sqlx::run(&mut runs).await,
        _ => {
            eprintln!("drivers tokio_postgres|sqlx [SCENARIO...] [-SCENARIO...]");
            return ExitCode::from(2);
        }
    }
    if runs.good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
