-- Built after the load: an index that grew row by row has half-full pages.
CREATE INDEX ledger_entries_transaction_id ON ledger_entries (transaction_id);
CREATE INDEX ledger_entries_wallet_id_created_at ON ledger_entries (wallet_id, created_at);
{% if realistic %}
CREATE UNIQUE INDEX transactions_idempotency_key ON transactions (idempotency_key);
{% endif %}
{% if foreign_keys %}
ALTER TABLE wallets ADD FOREIGN KEY (user_id) REFERENCES users;
ALTER TABLE ledger_entries ADD FOREIGN KEY (transaction_id) REFERENCES transactions;
ALTER TABLE ledger_entries ADD FOREIGN KEY (wallet_id) REFERENCES wallets;
{% endif %}
