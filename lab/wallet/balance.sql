\set owner {{ user }}
SELECT balance FROM wallets WHERE user_id = :owner;
