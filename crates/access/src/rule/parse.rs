//! Parser of a rule from the fields of a line: PostgreSQL's `parse_hba_line`, stricter where that is lenient.

use std::net::IpAddr;

use crate::address::Address;
use crate::error::{Mistake, nearest};
use crate::ldap::{self, LdapBuilder};
use crate::lines::Line;
use crate::names::{Database, Patterns, User};
use crate::rule::{ClientCertificate, ClientName, Kind, Method, PamOptions, Rule};
use crate::tokens::Token;

/// Methods that PostgreSQL has and Weir does not.
const UNSUPPORTED: [&str; 6] = ["bsd", "gss", "ident", "oauth", "radius", "sspi"];

/// First words of lines that are not rules.
const DIRECTIVES: [&str; 3] = ["include", "include_if_exists", "include_dir"];

/// Options besides those of LDAP.
const OPTIONS: [&str; 5] = [
    "map",
    "clientcert",
    "clientname",
    "pamservice",
    "pam_use_hostname",
];

/// Parses one line.
pub(crate) fn parse(line: &Line, patterns: &mut Patterns) -> Result<Rule, Mistake> {
    let mut fields = Fields(line.fields.iter());
    let kind = kind(fields.one("type of the line", "write local or host")?)?;
    let databases = fields
        .list("database", "write a database name or all")?
        .iter()
        .map(|token| Database::parse(token, patterns))
        .collect::<Result<_, _>>()?;
    let users = fields
        .list("user", "write a user name or all")?
        .iter()
        .map(|token| User::parse(token, patterns))
        .collect::<Result<_, _>>()?;
    let address = match kind {
        Kind::Local => None,
        _ => Some(address(&mut fields)?),
    };
    let advice = "end the line with one, such as scram-sha-256 or reject";
    let word = fields.one("authentication method", advice)?;
    let options: Vec<&Token> = fields.0.flatten().collect();
    let mut rule = Rule {
        place: line.place.clone(),
        text: line.text.to_string(),
        kind,
        databases,
        users,
        address,
        method: method(kind, &word.text)?,
        map: None,
        client_certificate: ClientCertificate::default(),
        client_name: ClientName::default(),
    };
    Reader::read(&mut rule, &options)?;
    if matches!(&rule.method, Method::Ldap(options) if options.bindpasswd.is_some()) {
        rule.text = rule.to_string();
    }
    Ok(rule)
}

/// The fields of a line that are still to be read.
struct Fields<'l>(std::slice::Iter<'l, Vec<Token>>);

impl<'l> Fields<'l> {
    fn list(&mut self, name: &'static str, advice: &'static str) -> Result<&'l [Token], Mistake> {
        match self.0.next() {
            Some(field) => Ok(field),
            None => Err(Mistake::Missing(name, advice)),
        }
    }

    fn one(&mut self, name: &'static str, advice: &'static str) -> Result<&'l Token, Mistake> {
        match self.list(name, advice)? {
            [token] => Ok(token),
            _ => Err(Mistake::MultipleValues(name)),
        }
    }
}

fn kind(token: &Token) -> Result<Kind, Mistake> {
    let word = token.text.as_str();
    if let Some(kind) = Kind::ALL.into_iter().find(|kind| kind.name() == word) {
        return Ok(kind);
    }
    if DIRECTIVES.contains(&word) {
        let advice = "name one file or directory behind the directive, in double quotes if needed";
        return Err(Mistake::Missing("file name", advice));
    }
    let known: Vec<&'static str> = Kind::ALL
        .into_iter()
        .map(Kind::name)
        .chain(DIRECTIVES)
        .collect();
    Err(Mistake::UnknownKind {
        word: word.to_owned(),
        suggestion: nearest(word, &known),
    })
}

fn address(fields: &mut Fields<'_>) -> Result<Address, Mistake> {
    let advice = "write an address such as 10.0.0.0/8, or all, before the method";
    let token = fields.one("address", advice)?;
    let word = token.text.as_str();
    if !token.quoted && (Method::NAMES.contains(&word) || UNSUPPORTED.contains(&word)) {
        return Err(Mistake::Missing("address", advice));
    }
    Address::parse(token, || {
        let advice = "write the length behind the address as in 10.0.0.1/32";
        fields.one("mask", advice)
    })
}

/// Parses the method; its options are filled in later.
fn method(kind: Kind, word: &str) -> Result<Method, Mistake> {
    let method = match word {
        "trust" => Method::Trust,
        "reject" => Method::Reject,
        "md5" => Method::Md5,
        "password" => Method::Password,
        "scram-sha-256" => Method::ScramSha256,
        "cert" => Method::Cert,
        "peer" => Method::Peer,
        "ldap" => Method::Ldap(Box::default()),
        "pam" => Method::Pam(PamOptions::default()),
        _ => return Err(unknown_method(kind, word)),
    };
    let advice = match (&method, kind) {
        // PostgreSQL requires hostssl. PgBouncer takes host too, where a client without TLS then fails.
        (Method::Cert, Kind::Local | Kind::HostNoSsl) => "use hostssl",
        (Method::Peer, kind) if kind != Kind::Local => "use local",
        _ => return Ok(method),
    };
    Err(Mistake::MethodPlace {
        method: method.name(),
        kind: kind.name(),
        advice,
    })
}

fn unknown_method(kind: Kind, word: &str) -> Mistake {
    let address = |word: &str| word.split('/').next().map(str::parse::<IpAddr>);
    if kind == Kind::Local && matches!(address(word), Some(Ok(_))) {
        return Mistake::LocalAddress;
    }
    if UNSUPPORTED.contains(&word) {
        return Mistake::MethodUnsupported(word.to_owned());
    }
    let suggestion = match word {
        // PgBouncer's auth_type calls this method plain.
        "plain" => Some("password"),
        _ => nearest(word, &Method::NAMES),
    };
    Mistake::UnknownMethod {
        word: word.to_owned(),
        suggestion,
    }
}

/// Reads the options behind the method.
struct Reader<'r> {
    rule: &'r mut Rule,
    ldap: LdapBuilder,
    seen: Vec<&'static str>,
}

impl<'r> Reader<'r> {
    fn read(rule: &'r mut Rule, tokens: &[&Token]) -> Result<(), Mistake> {
        if matches!(rule.method, Method::Cert) {
            rule.client_certificate = ClientCertificate::VerifyFull;
        }
        let mut reader = Self {
            rule,
            ldap: LdapBuilder::default(),
            seen: Vec::new(),
        };
        for token in tokens {
            reader.option(token)?;
        }
        if let Method::Ldap(options) = &mut reader.rule.method {
            **options = reader.ldap.finish()?;
        }
        Ok(())
    }

    fn option(&mut self, token: &Token) -> Result<(), Mistake> {
        let Some((word, value)) = token.text.split_once('=') else {
            return Err(Mistake::OptionSyntax);
        };
        if token.comment_glued {
            return Err(Mistake::CommentInOption);
        }
        let known: Vec<&'static str> = OPTIONS.into_iter().chain(ldap::NAMES).collect();
        let Some(name) = known.iter().copied().find(|name| *name == word) else {
            return Err(self.unknown(word, &known));
        };
        if self.seen.contains(&name) {
            return Err(Mistake::DuplicateOption(name));
        }
        self.seen.push(name);
        match name {
            "map" => self.map(value),
            "clientcert" => self.client_certificate(value),
            "clientname" => self.client_name(value),
            "pamservice" | "pam_use_hostname" => self.pam(name, value),
            name => match self.rule.method {
                Method::Ldap(_) => self.ldap.set(name, value),
                _ => Err(misplaced(name, "the method ldap")),
            },
        }
    }

    /// Reports an unknown option. On a line with LDAP's options the word may be the rest of a password with a comma, so
    /// it is hidden.
    fn unknown(&self, word: &str, known: &[&'static str]) -> Mistake {
        let suggestion = nearest(word, known);
        let secret = suggestion.is_none() && matches!(self.rule.method, Method::Ldap(_));
        Mistake::UnknownOption {
            word: if secret { "***" } else { word }.to_owned(),
            suggestion,
        }
    }

    fn map(&mut self, value: &str) -> Result<(), Mistake> {
        match (&self.rule.method, value) {
            (Method::Cert | Method::Peer, "") => Err(Mistake::Empty("map name")),
            (Method::Cert | Method::Peer, name) => {
                self.rule.map = Some(name.to_owned());
                Ok(())
            }
            _ => Err(misplaced("map", "the methods cert and peer")),
        }
    }

    fn client_certificate(&mut self, value: &str) -> Result<(), Mistake> {
        if self.rule.kind != Kind::HostSsl {
            return Err(misplaced("clientcert", "lines of type hostssl"));
        }
        let cert = matches!(self.rule.method, Method::Cert);
        self.rule.client_certificate = match value {
            "verify-full" => ClientCertificate::VerifyFull,
            "verify-ca" if !cert => ClientCertificate::VerifyCa,
            _ => {
                let expected = match cert {
                    true => "verify-full with the method cert",
                    false => "verify-ca or verify-full",
                };
                return Err(bad_value("clientcert", value, expected));
            }
        };
        Ok(())
    }

    fn client_name(&mut self, value: &str) -> Result<(), Mistake> {
        if self.rule.kind != Kind::HostSsl {
            return Err(misplaced("clientname", "lines of type hostssl"));
        }
        self.rule.client_name = match value {
            "CN" => ClientName::CommonName,
            "DN" => ClientName::DistinguishedName,
            _ => return Err(bad_value("clientname", value, "CN or DN")),
        };
        Ok(())
    }

    fn pam(&mut self, name: &'static str, value: &str) -> Result<(), Mistake> {
        let Method::Pam(options) = &mut self.rule.method else {
            return Err(misplaced(name, "the method pam"));
        };
        match (name, value) {
            ("pam_use_hostname", value) => options.use_hostname = ldap::flag(name, value)?,
            (_, "") => return Err(Mistake::Empty("PAM service name")),
            (_, service) => options.service = Some(service.to_owned()),
        }
        Ok(())
    }
}

fn misplaced(option: &'static str, belongs_to: &'static str) -> Mistake {
    Mistake::OptionPlace { option, belongs_to }
}

fn bad_value(option: &'static str, value: &str, expected: &'static str) -> Mistake {
    Mistake::BadValue {
        option,
        value: value.to_owned(),
        expected,
    }
}
