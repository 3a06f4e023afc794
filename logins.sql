BEGIN;
SELECT app.login('tenant' || :client_id);
SELECT current_setting('app.tenant', true);
COMMIT;
