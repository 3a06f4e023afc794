//! Asks PAM as Weir would and prints the outcome: `ask-pam SERVICE USER PASSWORD [REMOTE-HOST]`.
//!
//! This is a separate program, because PAM's test wrapper must be loaded before any other code.

#![expect(clippy::print_stdout, reason = "its output is its purpose")]

use anyhow::Result;
use anyhow::bail;
use weir_auth::secret::Secret;
use weir_directory::check_pam;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (service, user, password, host) = match *arguments.as_slice() {
        [service, user, password] => (service, user, password, None),
        [service, user, password, host] => (service, user, password, Some(host)),
        _ => bail!("usage: ask-pam SERVICE USER PASSWORD [REMOTE-HOST]"),
    };
    println!(
        "{:?}",
        check_pam(service, user, &Secret::from(password), host)
    );
    Ok(())
}
