//! Settings of libraries that a session loads on first use. Once a library is loaded, PostgreSQL refuses unknown names
//! with its prefix; before that, it accepts them as custom settings.

/// Libraries by the prefix that they reserve (`MarkGUCPrefixReserved` in PostgreSQL 15 to 18), with their settings.
const LIBRARIES: [(&str, &[&str]); 6] = [
    (
        "pg_trgm",
        &[
            "similarity_threshold",
            "strict_word_similarity_threshold",
            "word_similarity_threshold",
        ],
    ),
    (
        "plperl",
        &["on_init", "on_plperl_init", "on_plperlu_init", "use_strict"],
    ),
    (
        "plpgsql",
        &[
            "check_asserts",
            "extra_errors",
            "extra_warnings",
            "print_strict_params",
            "variable_conflict",
        ],
    ),
    ("pltcl", &["start_proc"]),
    ("pltclu", &["start_proc"]),
    ("postgres_fdw", &["application_name"]),
];

/// True if a library, once loaded, refuses a setting with this name (lower case).
pub(crate) fn refuses(name: &str) -> bool {
    let Some((prefix, rest)) = name.split_once('.') else {
        return false;
    };
    LIBRARIES
        .iter()
        .any(|(library, settings)| *library == prefix && !settings.contains(&rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_refuses_what_it_does_not_know_under_its_prefix() {
        assert!(refuses("plpgsql.extra_foo_warnings"));
        assert!(refuses("plperl.a.b"));
        for name in [
            "plpgsql.extra_warnings",
            "plpgsqlx.extra_foo_warnings",
            "app.plpgsql",
            "plpgsql",
            "postgres_fdw.application_name",
        ] {
            assert!(!refuses(name), "{name}");
        }
    }
}
