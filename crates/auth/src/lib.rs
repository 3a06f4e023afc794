//! Authentication by MD5, SCRAM-SHA-256 and clear text, as state machines in both roles, with their secrets, caches and
//! limits.
//!
//! Nothing here reads a clock, a socket or a random generator: salts and nonces are arguments, messages are byte
//! slices. The slow key derivation is never run by a state machine, but returned as a [`kdf::KdfRequest`] to be run on
//! a thread that may block.
//!
//! - [`login::Exchange`] checks one client by any method; start here.
//! - [`scram::ScramServer`] and [`scram::ScramClient`] are the two roles of SCRAM-SHA-256, with
//!   and without channel binding; [`md5`] is both roles of MD5.
//! - [`userlist::UserList`] reads an auth_file into [`stored::StoredSecret`]s. [`fetched`] interprets the result of an
//!   auth_query, and [`account_cache`] may keep it for a while.
//! - [`mock`] makes challenges for users who do not exist; [`throttle`] limits sources of failed logins.
//!   `docs/internals/login.md` has the reasons for both.
//! - [`secret`] has the types that hold secrets: without `Debug`, `Display` or `PartialEq`, wiped
//!   when dropped.
//!
//! Logins by certificate or by the user of a unix socket need none of this: there is no exchange, only a comparison of
//! two names.
//!
//! Example: a client logs in by SCRAM, and both roles run in this process:
//!
//! ```
//! use weir_auth::kdf::{ScramKeys, derive};
//! use weir_auth::login::{Account, Exchange, LoginInput, LoginRandom, Method, Opening, Progress};
//! use weir_auth::mock::Population;
//! use weir_auth::scram::{Nonce, ScramClient, Step};
//! use weir_auth::secret::{Secret, ServerSecret};
//! use weir_auth::userlist::UserList;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let users = UserList::parse(b"\"alice\" \"pencil\"\n")?;
//! let opening = Exchange::begin(LoginInput {
//!     method: Method::Scram,
//!     user: b"alice",
//!     account: users.get(b"alice").map_or(Account::Unknown, |s| Account::Known(s.clone())),
//!     random: LoginRandom { md5_salt: [1; 4], scram_nonce: [2; 18] }, // draw fresh ones
//!     server_secret: &ServerSecret::new([3; 32]),
//!     iterations: 4096,
//!     channel_binding: None, // no TLS
//!     population: &Population::of(&users),
//! });
//! let Opening::Ask { mut exchange, .. } = opening else { panic!("SCRAM asks") };
//!
//! let nonce = Nonce::from_random([4; 18]); // draw a fresh one
//! let mut client = ScramClient::with_password(Secret::from("pencil"), nonce);
//! let first = client.first_message()?;
//! let mut body = b"SCRAM-SHA-256\0".to_vec();
//! body.extend(i32::try_from(first.len())?.to_be_bytes());
//! body.extend(first);
//!
//! let Progress::Continue(server_first) = exchange.handle_response(&body)? else { panic!() };
//! let Step::NeedKeys(request) = client.handle_server_first(&server_first)? else { panic!() };
//! let client_final = client.provide_keys(&ScramKeys::from_salted(&derive(&request)))?;
//!
//! // The stored password is in the clear, so its keys have to be derived to check the proof.
//! let Progress::NeedKdf(request) = exchange.handle_response(&client_final)? else { panic!() };
//! let keys = ScramKeys::from_salted(&derive(&request)); // slow: off the event loop
//! let Progress::Accepted(acceptance) = exchange.provide_keys(&keys)? else { panic!() };
//! client.handle_server_final(&acceptance.final_message.unwrap_or_default())?;
//! # Ok(())
//! # }
//! ```

mod crypto;

pub mod account_cache;
pub mod fetched;
pub mod kdf;
pub mod login;
pub mod md5;
pub mod mock;
pub mod scram;
pub mod secret;
pub mod stored;
pub mod throttle;
pub mod userlist;
