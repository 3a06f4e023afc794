-- Rows and statements larger than any one buffer.
select length(repeat('abcdefghij', 1000000));
select md5(repeat('abcdefghij', 1000000));
\pset format unaligned
select repeat('0123456789', 20000) as wide from generate_series(1, 3);
select i, repeat(chr(97 + i % 26), i % 200) from generate_series(1, 5000) i;
select string_agg(i::text, ',') as list from generate_series(1, 30000) i \gset
select length(:'list'), md5(:'list');
select array_length(string_to_array(:'list', ','), 1);
\echo end of script
