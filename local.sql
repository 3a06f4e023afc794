BEGIN;
SELECT set_config('app.tenant', 'A', true);
SELECT current_setting('app.tenant', true);
COMMIT;
