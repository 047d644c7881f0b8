-- A ULID: 48 bits of milliseconds and 80 random ones, in Crockford's base 32.
CREATE OR REPLACE FUNCTION {{ulid}}() RETURNS text LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    alphabet constant text := '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
    ms       bigint := floor(extract(epoch FROM clock_timestamp()) * 1000);
    random   bytea := uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid());
    n        bigint;
    id       text := '';
BEGIN
    FOR i IN 0..9 LOOP
        id := substr(alphabet, (ms & 31)::int + 1, 1) || id;
        ms := ms >> 5;
    END LOOP;
    -- 16 characters of 5 bits each, of bytes in which a UUID has no fixed bits
    -- there (byte 6 has its version).
    FOR i IN 0..15 LOOP
        n := get_byte(random, CASE WHEN i < 6 THEN i ELSE i + 1 END);
        id := id || substr(alphabet, (n & 31)::int + 1, 1);
    END LOOP;
    RETURN id;
END $$;
