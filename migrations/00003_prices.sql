-- +goose Up

-- What the amount of an attempt was made from: how much of its tokens had a rate of their own, and which price it was
-- taken at, so that an amount can be explained after prices have changed. Null is unknown, as in the rest of the ledger.
alter table attempts
    add column cached_input_tokens bigint, -- within input_tokens
    add column reasoning_tokens    bigint, -- within output_tokens
    add column price_version       text;

-- +goose Down
alter table attempts
    drop column cached_input_tokens,
    drop column reasoning_tokens,
    drop column price_version;
