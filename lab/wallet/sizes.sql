SELECT relname, pg_relation_size(oid) / 1024, pg_indexes_size(oid) / 1024, pg_total_relation_size(oid) / 1024
FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
ORDER BY array_position('{users,wallets,transactions,ledger_entries}', relname::text);
