-- Expands
-- What a provider has said of the groups of somebody who has yet to give a second factor: {"provider": …, "groups": […]}.
ALTER TABLE one_time_tokens ADD COLUMN groups jsonb;
