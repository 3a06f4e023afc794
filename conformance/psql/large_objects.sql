-- Large objects by SQL and by libpq's fast-path function calls (\lo_import and \lo_export).
begin;
select lo_create(4242);
select lo_open(4242, x'60000'::int) as fd \gset
select lowrite(:fd, '\x00010203ff'::bytea);
select lo_lseek(:fd, 1, 0);
select loread(:fd, 3);
select lo_tell(:fd);
select lo_truncate(:fd, 2);
select lo_close(:fd);
commit;
select lo_get(4242);
select lo_put(4242, 2, 'tail');
select lo_get(4242, 1, 4);
\lo_export 4242 :out
\lo_import :out 'a comment'
select length(lo_get(:LASTOID)), lo_get(:LASTOID) = lo_get(4242) as same;
\lo_export 999999 :out
\lo_unlink 4242
select lo_get(4242);
select lo_from_bytea(4343, convert_to(repeat('large object ', 100000), 'UTF8'));
\lo_export 4343 :out
\lo_import :out
select length(lo_get(:LASTOID)), md5(lo_get(:LASTOID));
\lo_unlink 4343
\echo end of script
