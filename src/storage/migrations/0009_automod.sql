-- Expands
-- What operators have set of auto-moderation: whether rules are evaluated at all, and the classifiers that there are.
-- automod_classifiers is sealed, since it holds keys; automod_backends says which of them are in it. automod_version counts
-- the changes, so that of two at once none is lost.
ALTER TABLE service
  ADD COLUMN automod_enabled boolean NOT NULL DEFAULT true,
  ADD COLUMN automod_backends text[] NOT NULL DEFAULT '{}',
  ADD COLUMN automod_classifiers text,
  ADD COLUMN automod_version bigint NOT NULL DEFAULT 0;

-- Which text of which message a classifier was asked about: a verdict that comes twice has its consequences once.
ALTER TABLE automod_violations ADD COLUMN judged text;
CREATE UNIQUE INDEX automod_violations_judged ON automod_violations (server_id, judged, rule_id) WHERE judged IS NOT NULL;
