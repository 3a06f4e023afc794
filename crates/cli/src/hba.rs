//! `weir hba explain`: names the line of `auth_hba_file` that decides about a client, and the reasons why
//! earlier lines do not. It starts nothing and asks no server or resolver: flags provide what those would know.

use weir_access::{Answer, Decision, Fact, Facts, Hba, Method, Origin, Rule, Transport, Visitor};
use weir_command::exit::{Exit, complain, print};
use weir_config::AuthType;

use crate::access;
use crate::args::{self, Address, Explain};
use crate::load::Source;

/// Word for "none" in `--role` and `--host`. PostgreSQL reserves this name, so no role can have it.
const NONE: &str = "none";

/// Prints the rules' decision about the client that the arguments describe.
pub(crate) fn explain(args: &Explain) -> Exit {
    let Some(source) = Source::choose(args.config.as_deref(), None) else {
        return args::report_missing("--config <FILE>");
    };
    let settings = match source.config() {
        Ok(loaded) => loaded.settings,
        Err(errors) => {
            errors.iter().for_each(complain);
            return Exit::Config;
        }
    };
    if settings.global.auth_hba_file.is_empty() {
        complain("auth_hba_file is not set, so there are no lines to explain");
        return Exit::Config;
    }
    let hba = match access::hba(&settings) {
        Ok(hba) => hba,
        Err(errors) => {
            errors.iter().for_each(complain);
            return Exit::Config;
        }
    };
    let auth = settings.global.auth_type;
    if auth != AuthType::Hba {
        complain(format_args!(
            "note: auth_type is {auth}, so Weir does not look at auth_hba_file"
        ));
    }
    let said = answer(&hba, args);
    print(&said.text);
    if let Some(hint) = said.hint {
        complain(hint);
    }
    said.exit
}

/// Answer before it is printed.
struct Said {
    /// The lines and the decision.
    text: String,
    /// Flag that is missing for a decision.
    hint: Option<&'static str>,
    exit: Exit,
}

fn answer(hba: &Hba, args: &Explain) -> Said {
    // Addresses of this machine for `samehost` and `samenet`, as the engine would see them.
    let interfaces = weir_proxy::interfaces();
    let visitor = Visitor {
        user: &args.user,
        database: &args.database,
        origin: match args.address {
            Address::Local => Origin::Unix,
            Address::Ip(address) => Origin::Ip {
                address,
                interfaces: interfaces.as_deref(),
            },
        },
        transport: match (args.tls, args.cert) {
            (_, true) => Transport::TlsVerified,
            (true, false) => Transport::Tls,
            (false, false) => Transport::Plain,
        },
        physical_replication: args.replication,
    };
    let roles = roles(args);
    let facts = Facts {
        host_name: match args.host.as_deref() {
            None => Answer::NotAsked,
            Some(NONE) => Answer::Known(None),
            Some(name) => Answer::Known(Some(name)),
        },
        roles: match args.roles.is_empty() {
            true => Answer::NotAsked,
            false => Answer::Known(&roles),
        },
    };
    let explanation = hba.explain(&visitor, &facts);
    let mut text = String::new();
    for line in &explanation.lines {
        text.push_str(&format!("{line}\n"));
    }
    let (outcome, hint, exit) = match explanation.decision {
        Decision::NoRule => ("refused: no line fits".to_owned(), None, Exit::Config),
        Decision::Rule(rule) => decided(rule, &visitor),
        Decision::Needs(fact) => {
            let (what, hint) = missing(fact);
            (
                format!("undecided: it depends on {what}"),
                Some(hint),
                Exit::Usage,
            )
        }
    };
    text.push_str(&outcome);
    text.push('\n');
    Said { text, hint, exit }
}

/// Returns the given roles; every user is also a member of the role of the same name.
fn roles(args: &Explain) -> Vec<String> {
    let given = args.roles.iter().filter(|role| *role != NONE).cloned();
    given.chain([args.user.clone()]).collect()
}

fn decided(rule: &Rule, visitor: &Visitor<'_>) -> (String, Option<&'static str>, Exit) {
    let place = rule.place();
    if matches!(rule.method(), Method::Reject) {
        return (format!("refused by {place}"), None, Exit::Config);
    }
    if rule.lacks_certificate(visitor.transport) {
        let outcome = format!("refused by {place}: it wants a verified client certificate");
        let hint = "with --cert the client has shown one";
        return (outcome, Some(hint), Exit::Config);
    }
    let outcome = match rule.method() {
        Method::Trust => format!("let in without proof by {place}"),
        method => format!("may log in by {}, {place}", method.name()),
    };
    (outcome, None, Exit::Ok)
}

/// Returns the name of an unknown fact, and the flag that states it.
fn missing(fact: Fact) -> (&'static str, &'static str) {
    match fact {
        Fact::HostName => (
            "the name of the client's host",
            "give the name that its address leads to, and that leads back to it, by --host NAME, or --host none",
        ),
        Fact::Roles => (
            "the roles of the user",
            "give each role that the user is a member of by --role NAME, or --role none",
        ),
    }
}

#[cfg(test)]
mod tests;
