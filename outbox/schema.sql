-- The table of items that wait to be published. It may be created again.
CREATE TABLE IF NOT EXISTS {{table}} (
    seq         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- The item's id, a ULID.
    id          text NOT NULL UNIQUE DEFAULT {{ulid}}(),
    type        text NOT NULL,
    params      json,
    -- The other fields of a submission: {"priority": 9, "dedup_key": "…"}.
    options     jsonb NOT NULL DEFAULT '{}',
    inserted_at timestamptz NOT NULL DEFAULT now(),
    -- Set when the row can't be published: it is left alone until it is retried.
    refused_at  timestamptz,
    error       text
);

CREATE INDEX IF NOT EXISTS {{index}} ON {{table}} (seq) WHERE refused_at IS NULL;

-- Wakes the relays when the transaction commits, once for each statement.
CREATE OR REPLACE FUNCTION {{notify}}() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('{{channel}}', '');
    RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER {{trigger}} AFTER INSERT ON {{table}}
    FOR EACH STATEMENT EXECUTE FUNCTION {{notify}}();
