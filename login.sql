BEGIN;
SELECT app.login('A');
SELECT current_setting('app.tenant', true);
COMMIT;
