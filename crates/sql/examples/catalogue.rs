//! Reads the catalogue of a database with psql's help: for measuring, and for recording rows that tests read.
//!
//! `catalogue query 15` prints the query; `catalogue stamp` prints that for the stamp. `catalogue rows` reads what
//! `psql -AtzX0 -c "$query"` has printed and prints each row as JSON. `catalogue load` reads such rows and prints what
//! they say.
#![expect(clippy::print_stdout, reason = "its only purpose")]
#![expect(clippy::disallowed_methods, reason = "it measures")]

use std::error::Error;
use std::io::{self, BufRead, Read};
use std::time::Instant;

use weir_sql::{Catalogue, load_query, stamp_query};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some("query") => {
            let version = arguments.next().ok_or("no version")?;
            println!("{}", load_query(version.parse()?));
        }
        Some("stamp") => println!("{}", stamp_query()),
        Some("rows") => print_rows()?,
        Some("load") => print_objects()?,
        _ => return Err("query VERSION, stamp, rows or load".into()),
    }
    Ok(())
}

/// Prints rows whose five fields each end in a NUL.
fn print_rows() -> Result<(), Box<dyn Error>> {
    let mut answer = Vec::new();
    io::stdin().read_to_end(&mut answer)?;
    let answer = String::from_utf8(answer)?;
    let fields: Vec<&str> = answer
        .split('\0')
        .map(|field| field.trim_start_matches("SET\n"))
        .collect();
    for row in fields.chunks_exact(5) {
        println!("{}", serde_json::to_string(row)?);
    }
    Ok(())
}

fn print_objects() -> Result<(), Box<dyn Error>> {
    let mut rows: Vec<[String; 5]> = Vec::new();
    for line in io::stdin().lock().lines() {
        rows.push(serde_json::from_str(&line?)?);
    }
    let start = Instant::now();
    let bytes = rows.iter().map(|row| row.each_ref().map(String::as_bytes));
    let catalogue = Catalogue::load(bytes)?;
    let elapsed = start.elapsed();
    let objects = catalogue.objects();
    println!("{} rows in {elapsed:?}", rows.len());
    println!("{} functions", objects.function_count());
    for (name, relation) in objects.relations() {
        println!("{name}: {relation:?}");
    }
    Ok(())
}
