-- When a gateway began to run the command. One that is not finished was interrupted.

ALTER TABLE inbox ADD COLUMN begun $int;
