-- What pgstore.Schema returned until November 2026, before revisions followed the clock.
DO $schema$ BEGIN
PERFORM pg_catalog.pg_advisory_xact_lock(7306086864870403446);

CREATE SEQUENCE IF NOT EXISTS SEQUENCE_NAME AS bigint CACHE 1;

CREATE OR REPLACE FUNCTION DRAW_NAME() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
	IF TG_OP = 'INSERT' THEN
		NEW.revision := 0; -- until TELL_NAME has it drawn
		RETURN NEW;
	END IF;
	IF NEW.key <> OLD.key THEN
		RAISE EXCEPTION 'a record cannot be renamed: its key is the name of an election';
	END IF;
	NEW.revision := greatest(nextval('SEQUENCE_NAME'), OLD.revision + 1);
	RETURN NEW;
END $body$;

CREATE OR REPLACE FUNCTION TELL_NAME() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
	CASE TG_OP
	WHEN 'INSERT' THEN -- which is told of by the update
		UPDATE TABLE_NAME SET revision = 0 WHERE key = NEW.key;
	WHEN 'UPDATE' THEN
		PERFORM pg_notify('CHANNEL_NAME', NEW.key);
	WHEN 'DELETE' THEN
		PERFORM pg_notify('CHANNEL_NAME', OLD.key);
	ELSE
		PERFORM pg_notify('CHANNEL_NAME', '');
	END CASE;
	RETURN NULL;
END $body$;

CREATE OR REPLACE FUNCTION SWAP_NAME(record_key text, expected bigint, content bytea, vacant boolean) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
	drawn bigint;
BEGIN
	-- A commit that is not flushed, here and at the synchronous standbys, is lost in a crash.
	IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
		PERFORM set_config('synchronous_commit', 'on', true);
	END IF;
	IF expected = 0 THEN
		INSERT INTO TABLE_NAME (key, tombstone, value) VALUES (record_key, vacant, content) ON CONFLICT (key) DO NOTHING;
		IF NOT FOUND THEN
			RETURN NULL;
		END IF;
		SELECT revision INTO STRICT drawn FROM TABLE_NAME WHERE key = record_key;
	ELSE
		UPDATE TABLE_NAME SET tombstone = vacant, value = content WHERE key = record_key AND revision = expected
		RETURNING revision INTO drawn;
	END IF;
	IF drawn <= expected THEN
		RAISE EXCEPTION 'no revision was drawn: is a trigger of TABLE_NAME disabled?' USING ERRCODE = 'object_not_in_prerequisite_state';
	END IF;
	RETURN drawn;
END $body$;

REVOKE ALL ON FUNCTION SWAP_NAME(text, bigint, bytea, boolean) FROM PUBLIC;

IF pg_catalog.to_regclass('TABLE_NAME') IS NULL THEN
	CREATE TABLE TABLE_NAME (
		key text COLLATE "C" PRIMARY KEY,
		revision bigint NOT NULL DEFAULT 0,
		tombstone boolean NOT NULL DEFAULT false,
		value bytea NOT NULL
	);
	EXECUTE pg_catalog.format('ALTER SEQUENCE SEQUENCE_NAME START WITH %s',
		(extract(epoch FROM pg_catalog.clock_timestamp()) * 1000000)::bigint);
	PERFORM pg_catalog.setval('SEQUENCE_NAME', greatest(pg_catalog.nextval('SEQUENCE_NAME'),
		(extract(epoch FROM pg_catalog.clock_timestamp()) * 1000000)::bigint));
	CREATE TRIGGER leader_draw BEFORE INSERT OR UPDATE ON TABLE_NAME FOR EACH ROW EXECUTE FUNCTION DRAW_NAME();
	CREATE TRIGGER leader_tell AFTER INSERT OR UPDATE OR DELETE ON TABLE_NAME FOR EACH ROW EXECUTE FUNCTION TELL_NAME();
	CREATE TRIGGER leader_tell_all AFTER TRUNCATE ON TABLE_NAME FOR EACH STATEMENT EXECUTE FUNCTION TELL_NAME();
END IF;
END $schema$
