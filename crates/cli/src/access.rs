//! Access rules beyond the settings: `auth_hba_file` and `auth_ident_file` with all their includes, and
//! `auth_ldap_options`. Read at the start and by each reload; any mistake refuses the whole configuration.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use weir_access::ldap::LdapOptions;
use weir_access::limits::FILE_BYTES_MAX;
use weir_access::{
    ClientCertificate, Fact, FileError, Files, Hba, IdentMap, Kind, Method, Mistake, Place,
    Problem, Rule,
};
use weir_config::{AuthType, Loaded, Origin, Settings, SslMode};
use weir_proxy::Access;

/// Mistake in the access rules.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AccessError {
    #[error(transparent)]
    File(#[from] Problem),
    #[error("{origin}: {option}: {mistake}")]
    Missing {
        origin: Origin,
        option: &'static str,
        mistake: Mistake,
    },
    #[error("{origin}: auth_ldap_options: {mistake}")]
    Ldap { origin: Origin, mistake: Mistake },
    #[error("{place}: a line with roles needs auth_user, which is not set")]
    NoRoles { place: String },
    #[error("{place}: method {method} is not part of this build")]
    NotBuilt { place: String, method: &'static str },
}

/// Reads all rules.
///
/// # Errors
/// Every mistake, file by file.
pub(crate) fn load(loaded: &Loaded) -> Result<Access, Vec<AccessError>> {
    let settings = &loaded.settings;
    let global = &settings.global;
    let mut access = Access::default();
    let mut errors = Vec::new();
    if settings.trust_loopback {
        return Ok(access);
    }
    if global.auth_type == AuthType::Hba {
        match hba(settings) {
            Ok(hba) => {
                errors.extend(hba.rules().iter().filter_map(not_built));
                errors.extend(needs_roles(&hba, settings));
                access.hba = Some(Arc::new(hba));
            }
            Err(mistakes) => errors.extend(named(loaded, "auth_hba_file", mistakes)),
        }
        match ident(settings) {
            Ok(ident) => access.ident = Arc::new(ident),
            Err(mistakes) => errors.extend(named(loaded, "auth_ident_file", mistakes)),
        }
    }
    let ldap = global.auth_ldap_options.expose();
    if !ldap.is_empty() {
        match LdapOptions::parse(ldap) {
            Ok(options) => access.ldap = Some(Arc::new(options)),
            Err(mistake) => {
                let origin = origin_of(loaded, "auth_ldap_options");
                errors.push(AccessError::Ldap { origin, mistake });
            }
        }
    }
    if let Some(method) = unbuilt(global.auth_type.as_str()) {
        let place = origin_of(loaded, "auth_type").to_string();
        errors.push(AccessError::NotBuilt { place, method });
    }
    if errors.is_empty() {
        Ok(access)
    } else {
        Err(errors)
    }
}

/// Names the place of the option if the file itself cannot be read: no line of it can be named.
fn named(
    loaded: &Loaded,
    option: &'static str,
    errors: Vec<AccessError>,
) -> impl Iterator<Item = AccessError> {
    let origin = origin_of(loaded, option);
    let global = &loaded.settings.global;
    let files = [&global.auth_hba_file, &global.auth_ident_file].map(|file| Arc::from(&**file));
    let is_named = move |place: &Place| place.line == 0 && files.contains(&place.file);
    errors.into_iter().map(move |error| match error {
        AccessError::File(problem) if is_named(&problem.place) => AccessError::Missing {
            origin: origin.clone(),
            option,
            mistake: problem.mistake,
        },
        error => error,
    })
}

/// Reads `auth_hba_file`, regardless of `auth_type`.
///
/// # Errors
/// Every mistake in it and in the files that it includes.
pub(crate) fn hba(settings: &Settings) -> Result<Hba, Vec<AccessError>> {
    let path = Path::new(&settings.global.auth_hba_file);
    Hba::load(path, &Disk).map_err(|problems| problems.iter().cloned().map(Into::into).collect())
}

fn ident(settings: &Settings) -> Result<IdentMap, Vec<AccessError>> {
    let path = &settings.global.auth_ident_file;
    if path.is_empty() {
        return Ok(IdentMap::default());
    }
    IdentMap::load(Path::new(path), &Disk)
        .map_err(|problems| problems.iter().cloned().map(Into::into).collect())
}

pub(crate) fn origin_of(loaded: &Loaded, key: &str) -> Origin {
    let origin = loaded.sources.get(key).cloned();
    origin.unwrap_or(Origin::Argument("configuration"))
}

/// Returns the method of this name if this build lacks it.
fn unbuilt(method: &str) -> Option<&'static str> {
    match method {
        "ldap" if !cfg!(feature = "ldap") => Some("ldap"),
        "pam" if !cfg!(feature = "pam") => Some("pam"),
        _ => None,
    }
}

/// Finds a rule that needs roles, if neither the global settings nor any database have an `auth_user` to look them
/// up.
fn needs_roles(hba: &Hba, settings: &Settings) -> Option<AccessError> {
    let asks = !settings.global.auth_user.is_empty()
        || settings
            .databases
            .values()
            .any(|entry| entry.auth_user.is_some());
    let rule = hba.rules().iter().find(|rule| rule.depends_on(Fact::Roles));
    rule.filter(|_| !asks).map(|rule| AccessError::NoRoles {
        place: rule.place().to_string(),
    })
}

fn not_built(rule: &Rule) -> Option<AccessError> {
    let method = unbuilt(rule.method().name())?;
    let place = rule.place().to_string();
    Some(AccessError::NotBuilt { place, method })
}

/// Warnings about valid lines that do not do what they seem to do under these settings.
pub(crate) fn warnings(access: &Access, settings: &Settings) -> Vec<String> {
    let rules = access.hba.iter().flat_map(|hba| hba.rules());
    let mut warnings = Vec::new();
    for rule in rules {
        let mut warn = |text: &str| warnings.push(format!("{}: {text}", rule.place()));
        let global = &settings.global;
        let has_tls = global.client_tls_sslmode != SslMode::Disable;
        if rule.kind() == Kind::HostSsl && !has_tls {
            warn("never matches, since client_tls_sslmode is disable");
        } else if rule.client_certificate() != ClientCertificate::NotNeeded
            && global.client_tls_ca_file.is_empty()
        {
            warn(
                "refuses every client, since client_tls_ca_file is not set and no certificate can be verified",
            );
        }
        if rule.kind() == Kind::HostGssEnc {
            warn("never matches, since encryption by GSSAPI is not supported");
        }
        if let Some(map) = rule.map()
            && !access.ident.contains(map)
        {
            warn("refuses every client, since auth_ident_file has no map of this name");
        }
        if matches!(rule.method(), Method::Md5) {
            // Hazard SEC-65.
            warn(
                "md5: an md5 secret is enough to log in, without the password; prefer scram-sha-256",
            );
        }
        if matches!(rule.method(), Method::Trust) && rule.kind() != Kind::Local {
            warn("trust accepts clients from these addresses without a password");
        }
    }
    warnings
}

/// Files of this machine.
struct Disk;

impl Files for Disk {
    fn read(&self, path: &Path) -> Result<Vec<u8>, FileError> {
        // A pipe would block; reading a directory gives a misleading error.
        if !fs::metadata(path).map_err(failure)?.is_file() {
            return Err(FileError::Failed("not a regular file".to_owned()));
        }
        let file = File::open(path).map_err(failure)?;
        let bytes_max = u64::try_from(FILE_BYTES_MAX).unwrap_or(u64::MAX);
        let mut bytes = Vec::new();
        let read = file
            .take(bytes_max.saturating_add(1))
            .read_to_end(&mut bytes);
        read.map_err(failure)?;
        Ok(bytes)
    }

    fn list(&self, directory: &Path) -> Result<Vec<String>, FileError> {
        let mut names = Vec::new();
        for entry in fs::read_dir(directory).map_err(failure)? {
            names.extend(entry.map_err(failure)?.file_name().into_string().ok());
        }
        Ok(names)
    }
}

fn failure(error: io::Error) -> FileError {
    match error.kind() {
        io::ErrorKind::NotFound => FileError::Missing,
        _ => FileError::Failed(error.to_string()),
    }
}
