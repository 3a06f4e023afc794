\set owner {{ user }}
SELECT l.id, l.direction, l.amount, l.created_at, t.status FROM ledger_entries l JOIN transactions t ON t.id = l.transaction_id WHERE l.wallet_id = (SELECT id FROM wallets WHERE user_id = :owner) ORDER BY l.created_at DESC, l.id DESC LIMIT 20;
