//! Client programs in `drivers/`: downloaded and built at first use, kept in `target/conformance`, then run.

use std::env;
use std::fs;
use std::fs::File;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;

use crate::tools;

/// Directory of a driver's sources.
#[must_use]
pub fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("drivers")
        .join(name)
}

/// Builds `name` into the cache with `build` unless its sources are unchanged since the last success.
///
/// `build` receives a directory with a copy of the sources and may leave there whatever the program needs.
///
/// # Errors
/// When the build fails; the cache is then not marked good.
pub fn prepare(name: &str, build: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    // Tests run side by side, and so do whole suites, which the tools' own caches do not support.
    let cache = tools::cache_dir(name)?;
    let turn = File::create(cache.join("lock"))?;
    turn.lock()?;
    let stamp = cache.join("built-from");
    let wanted = fingerprint(&source(name))?;
    if fs::read_to_string(&stamp).is_ok_and(|built| built == wanted) {
        return Ok(cache);
    }
    tools::copy_dir(&source(name), &cache)?;
    build(&cache).with_context(|| format!("prepare {name}"))?;
    fs::write(stamp, wanted)?;
    Ok(cache)
}

/// Runs a client program against 127.0.0.1:`port`; returns its output when every step said `ok`.
///
/// # Errors
/// When the program fails, a step failed, or no step ran at all.
pub fn run(command: &mut Command, port: u16, database: &str) -> Result<String> {
    connect_to(command, port, database);
    let output = tools::run(command)?;
    let steps = output
        .lines()
        .filter(|line| line.starts_with("ok "))
        .count();
    if steps == 0 || output.lines().any(|line| line.starts_with("FAIL ")) {
        bail!("{command:?}: {steps} steps passed:\n{output}");
    }
    Ok(output)
}

/// Directs a client program to a database on 127.0.0.1:`port`, with the variables that all drivers read.
pub fn connect_to(command: &mut Command, port: u16, database: &str) {
    command
        .env("PGHOST", "127.0.0.1")
        .env("PGPORT", port.to_string());
    command
        .env("PGUSER", "postgres")
        .env("PGDATABASE", database)
        .env("PGPASSWORD", "secret");
    command
        .env("PGSSLMODE", "disable")
        .env("PGCONNECT_TIMEOUT", "20");
    command.env_remove("PGOPTIONS");
}

/// Directory of the Python programs, with their interpreter in `venv/bin/python`.
///
/// # Errors
/// When Python is missing or packages cannot be fetched.
pub fn python() -> Result<PathBuf> {
    prepare("python", |directory| {
        tools::require("python3", "python3-venv")?;
        let mut venv = Command::new("python3");
        venv.args(["-m", "venv", "--clear", "venv"])
            .current_dir(directory);
        tools::run(&mut venv).context("apt-get install python3-venv")?;
        let mut pip = Command::new("venv/bin/python");
        pip.args(["-m", "pip", "install", "-q", "-r", "requirements.txt"])
            .current_dir(directory);
        tools::run(&mut pip).map(drop)
    })
}

/// Directory of the Go program `drivers`.
///
/// # Errors
/// When Go is missing or modules cannot be fetched.
pub fn go() -> Result<PathBuf> {
    prepare("go", |directory| {
        tools::require(
            "go",
            "golang-go (1.25 or newer; bookworm-backports or go.dev)",
        )?;
        let mut build = Command::new("go");
        build
            .args(["build", "-o", "drivers", "."])
            .current_dir(directory);
        tools::run(&mut build).map(drop)
    })
}

/// Directory of the Node programs.
///
/// # Errors
/// When Node is missing or packages cannot be fetched.
pub fn node() -> Result<PathBuf> {
    prepare("node", |directory| {
        tools::require("node", "nodejs")?;
        tools::require("npm", "npm")?;
        let mut npm = Command::new("npm");
        npm.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"])
            .current_dir(directory);
        tools::run(&mut npm).map(drop)
    })
}

/// Directory of the Ruby programs.
///
/// # Errors
/// When Ruby, ActiveRecord or its driver is missing.
pub fn ruby() -> Result<PathBuf> {
    prepare("ruby", |_| {
        tools::require("ruby", "ruby-activerecord ruby-pg")?;
        let mut look = Command::new("ruby");
        look.args(["-ractive_record", "-rpg", "-e", ""]);
        tools::run(&mut look).context("apt-get install ruby-activerecord ruby-pg")?;
        Ok(())
    })
}

/// Directory of the C programs `pipeline` and `transactions`.
///
/// # Errors
/// When the compiler or libpq's headers are missing.
pub fn libpq() -> Result<PathBuf> {
    prepare("libpq", |directory| {
        tools::require("cc", "gcc libc6-dev")?;
        tools::require("pg_config", "libpq-dev")?;
        let includes = tools::run(Command::new("pg_config").arg("--includedir"))?;
        for program in ["pipeline", "transactions"] {
            let mut compiler = Command::new("cc");
            compiler.args(["-std=c99", "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra"]);
            compiler.args(["-O1", "-pthread", "-I", includes.trim(), "-o", program]);
            compiler.args([&format!("{program}.c"), "-lpq"]);
            tools::run(compiler.current_dir(directory))?;
        }
        Ok(())
    })
}

/// Path of the Rust program `drivers`, built by the cargo that runs the suite.
///
/// # Errors
/// When crates cannot be fetched.
pub fn rust() -> Result<PathBuf> {
    let cache = prepare("rust", |directory| {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build.args(["build", "--quiet", "--locked", "--target-dir", "target"]);
        tools::run(build.current_dir(directory)).map(drop)
    })?;
    Ok(cache.join("target/debug/drivers"))
}

/// Compiles the Java programs, all at once: a program that is compiled again while another test runs it is found cut off.
/// Returns the class path to run them with.
///
/// # Errors
/// When Java or Maven is missing, or a program does not compile.
pub fn java() -> Result<String> {
    let home = prepare("java", |directory| {
        fetch_jars(directory)?;
        tools::require("javac", "default-jdk-headless")?;
        let mut compiler = Command::new("javac");
        compiler.args(["-Xlint:all,-processing", "-cp", "jars/*", "-d", "classes"]);
        for entry in fs::read_dir(source("java"))? {
            let name = PathBuf::from(entry?.file_name());
            if name
                .extension()
                .is_some_and(|extension| extension == "java")
            {
                compiler.arg(name);
            }
        }
        tools::run(compiler.current_dir(directory)).map(drop)
    })?;
    let home = home.to_str().context("the path is not UTF-8")?;
    Ok(format!("{home}/classes:{home}/jars/*"))
}

/// Directory with the jars of the `pom.xml` in `drivers/NAME`.
///
/// # Errors
/// When Maven is missing or cannot fetch.
pub fn maven_jars(name: &str) -> Result<PathBuf> {
    Ok(prepare(name, fetch_jars)?.join("jars"))
}

/// Fetches the jars of the `pom.xml` in this directory.
fn fetch_jars(directory: &Path) -> Result<()> {
    tools::require("mvn", "maven")?;
    let goal = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies";
    let mut maven = Command::new("mvn");
    maven
        .args(["-B", "-q", goal, "-DoutputDirectory=jars"])
        .current_dir(directory);
    tools::run(&mut maven).map(drop)
}

/// All file names and contents below `directory`, as one text.
fn fingerprint(directory: &Path) -> Result<String> {
    let mut names: Vec<PathBuf> = fs::read_dir(directory)
        .with_context(|| format!("read {}", directory.display()))?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    names.sort();
    let mut text = String::new();
    for name in names.iter().filter(|name| name.is_file()) {
        text.push_str(&format!(
            "{}\n{}\n",
            name.display(),
            fs::read_to_string(name)?
        ));
    }
    Ok(text)
}
