-- The e-wallet's tables. The order of the columns matters: alignment decides how many rows a page holds.
CREATE TABLE users (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL
);
CREATE TABLE wallets (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    user_id bigint NOT NULL UNIQUE,
    balance bigint NOT NULL,
    updated_at timestamptz NOT NULL
){% if realistic %} WITH (fillfactor = 90){% endif %};
CREATE TABLE transactions (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    idempotency_key uuid NOT NULL,
    amount bigint NOT NULL,
    status text NOT NULL,
    created_at timestamptz NOT NULL
);
CREATE TABLE ledger_entries (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    transaction_id bigint NOT NULL,
    wallet_id bigint NOT NULL,
    amount bigint NOT NULL,
    direction text NOT NULL,
    created_at timestamptz NOT NULL
);
