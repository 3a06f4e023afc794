-- One transaction: setseed() counts for its session only, and now() is the same in all rows.
BEGIN;
SELECT setseed({{ seed }});
INSERT INTO users (name) SELECT 'user_' || n FROM generate_series(1, {{ users }}) AS n;
INSERT INTO wallets (user_id, balance, updated_at) SELECT n, 1000000, now() FROM generate_series(1, {{ users }}) AS n;
-- The payee is any wallet but the payer's.
CREATE TEMPORARY TABLE plan AS
    SELECT n, payer, 1 + (payer + step) % {{ users }} AS payee, amount,
        {% if realistic %}now() - ({{ transactions }} - n) * interval '1 second'{% else %}now(){% endif %} AS at
    FROM (
        SELECT n, 1 + floor(random() * {{ users }})::bigint AS payer,
            floor(random() * ({{ users }} - 1))::bigint AS step, 1 + floor(random() * 1000)::bigint AS amount
        FROM generate_series(1, {{ transactions }}) AS n
    ) AS drawn;
INSERT INTO transactions (idempotency_key, amount, status, created_at)
    SELECT gen_random_uuid(), amount, 'success', at FROM plan ORDER BY n;
INSERT INTO ledger_entries (transaction_id, wallet_id, amount, direction, created_at)
    SELECT n, wallet, amount, direction, at
    FROM plan, LATERAL (VALUES (payer, 'debit', 1), (payee, 'credit', 2)) AS side (wallet, direction, place)
    ORDER BY n, place;
DROP TABLE plan;
COMMIT;
