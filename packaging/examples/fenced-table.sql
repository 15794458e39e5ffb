-- A report of one row, and the token of the run that wrote it.
CREATE TABLE report (id integer PRIMARY KEY, total bigint, token bigint NOT NULL DEFAULT 0);
INSERT INTO report (id) VALUES (1);
