-- Six round trips.
-- Payer and payee, never the same. Wallets are locked in the order of their ids: no two transfers can wait for each
-- other in a ring.
\set payer {{ user }}
\set other random(1, {{ users }} - 1)
\set payee :other + case when :other >= :payer then 1 else 0 end
\set low least(:payer, :payee)
\set high greatest(:payer, :payee)
\set amount random(1, 1000)
\set low_change case when :low = :payer then -:amount else :amount end
\set high_change -:low_change
BEGIN;
UPDATE wallets SET balance = balance + :low_change, updated_at = now() WHERE id = :low;
UPDATE wallets SET balance = balance + :high_change, updated_at = now() WHERE id = :high;
INSERT INTO transactions (idempotency_key, amount, status, created_at) VALUES (gen_random_uuid(), :amount, 'success', now());
INSERT INTO ledger_entries (transaction_id, wallet_id, amount, direction, created_at) VALUES (currval('transactions_id_seq'), :payer, :amount, 'debit', now()), (currval('transactions_id_seq'), :payee, :amount, 'credit', now());
COMMIT;
