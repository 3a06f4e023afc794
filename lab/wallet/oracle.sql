-- What must hold after any number of transfers through anything. Entries beyond the seeded ones changed balances.
WITH added AS (
    SELECT * FROM ledger_entries WHERE id > {{ 2 * transactions }}
), moved AS (
    SELECT wallet_id, sum(CASE direction WHEN 'credit' THEN amount ELSE -amount END) AS change FROM added GROUP BY wallet_id
), pairs AS (
    SELECT transaction_id, count(*) AS entries,
        sum(CASE direction WHEN 'credit' THEN amount ELSE -amount END) AS change
    FROM ledger_entries GROUP BY transaction_id
)
SELECT (SELECT sum(balance) FROM wallets),
    (SELECT count(*) FROM transactions LEFT JOIN pairs ON transaction_id = id
        WHERE entries IS DISTINCT FROM 2 OR change IS DISTINCT FROM 0),
    (SELECT coalesce(sum(CASE direction WHEN 'credit' THEN amount ELSE -amount END), 0) FROM ledger_entries),
    (SELECT count(*) FROM wallets LEFT JOIN moved ON wallet_id = id WHERE balance <> 1000000 + coalesce(change, 0)),
    (SELECT count(*) FROM transactions) - {{ transactions }},
    (SELECT count(*) FROM ledger_entries) - {{ 2 * transactions }};
