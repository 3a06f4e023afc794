//! Start of a login: selects the challenge.

use super::Account;
use super::Challenge;
use super::LoginInput;
use super::Method;
use super::Opening;
use super::exchange::Exchange;
use super::exchange::Leveling;
use super::exchange::Plan;
use super::exchange::State;
use crate::kdf::KdfRequest;
use crate::mock;
use crate::scram::MECHANISM;
use crate::scram::MECHANISM_PLUS;
use crate::scram::Nonce;
use crate::secret::Secret;
use crate::secret::ServerSecret;
use crate::stored::StoredSecret;

impl Exchange {
    /// Begins the login of one client.
    #[must_use]
    pub fn begin(input: LoginInput<'_>) -> Opening {
        match (input.method, &input.account) {
            (Method::Trust, Account::Known(_)) => Opening::Accepted,
            (Method::Trust | Method::Reject, _) => Opening::Rejected,
            (Method::External, _) => Self::ask(
                &input,
                Challenge::Cleartext,
                State::External,
                Leveling::None,
            ),
            (Method::Plain, _) => Self::begin_cleartext(input),
            (Method::Scram, _) => Self::begin_sasl(input),
            (Method::Md5, account) => {
                let by_scram = match account {
                    Account::Known(StoredSecret::Scram(_)) => true,
                    Account::Known(StoredSecret::Md5(_) | StoredSecret::Plain(_)) => false,
                    Account::Known(StoredSecret::Empty) | Account::Unknown => input
                        .population
                        .draws_scram(input.server_secret, input.user),
                };
                if by_scram {
                    Self::begin_sasl(input)
                } else {
                    Self::begin_md5(input)
                }
            }
        }
    }

    fn begin_cleartext(input: LoginInput<'_>) -> Opening {
        let (server_secret, user) = (input.server_secret, input.user);
        let leveling = if input.population.has_scram() {
            let shape = input
                .population
                .shape(server_secret, user, input.iterations.max(1));
            Leveling::OfTyped {
                salt: mock::salt(server_secret, user),
                iterations: shape.iterations,
            }
        } else {
            Leveling::None
        };
        let state = State::Cleartext(secret_of(input.account.clone()));
        Self::ask(&input, Challenge::Cleartext, state, leveling)
    }

    fn begin_md5(input: LoginInput<'_>) -> Opening {
        let salt = input.random.md5_salt;
        let secret = secret_of(input.account.clone());
        let state = State::Md5 { salt, secret };
        Self::ask(&input, Challenge::Md5 { salt }, state, Leveling::None)
    }

    fn begin_sasl(input: LoginInput<'_>) -> Opening {
        let (server_secret, user) = (input.server_secret, input.user);
        let (population, iterations) = (input.population, input.iterations.max(1));
        let asks_plain = input.method == Method::Scram;
        let plan = match secret_of(input.account.clone()) {
            StoredSecret::Scram(verifier) => Plan::Stored(verifier),
            // The mock's salt, not a random one. It is the same at each login, so the keys can be cached and the user
            // looks like an unknown one.
            StoredSecret::Plain(password) => {
                let salt = mock::salt(server_secret, user);
                Plan::Derive(KdfRequest::new(&password, salt, iterations))
            }
            StoredSecret::Empty | StoredSecret::Md5(_) => {
                let shape = if asks_plain {
                    population.shape_with_plain(server_secret, user, iterations)
                } else {
                    population.shape(server_secret, user, iterations)
                };
                Plan::Mock(mock::verifier(server_secret, user, shape))
            }
        };
        let leveling = if asks_plain && population.has_plain() {
            Leveling::Request(for_nothing(server_secret, user, iterations))
        } else {
            Leveling::None
        };
        let mechanisms: &[_] = if input.channel_binding.is_some() {
            &[MECHANISM_PLUS, MECHANISM]
        } else {
            &[MECHANISM]
        };
        let state = State::SaslInitial {
            plan,
            nonce: Nonce::from_random(input.random.scram_nonce),
            binding: input.channel_binding.map(Into::into),
        };
        Self::ask(&input, Challenge::Sasl { mechanisms }, state, leveling)
    }

    fn ask(
        input: &LoginInput<'_>,
        challenge: Challenge,
        state: State,
        leveling: Leveling,
    ) -> Opening {
        let exchange = Box::new(Self {
            user: input.user.to_vec(),
            state,
            leveling,
        });
        Opening::Ask {
            challenge,
            exchange,
        }
    }
}

/// Returns a derivation whose keys fit nothing.
fn for_nothing(secret: &ServerSecret, user: &[u8], iterations: u32) -> KdfRequest {
    KdfRequest::uncached(
        &Secret::from("nobody's password"),
        mock::salt(secret, user),
        iterations,
    )
}

fn secret_of(account: Account) -> StoredSecret {
    match account {
        Account::Known(secret) => secret,
        Account::Unknown => StoredSecret::Empty,
    }
}
