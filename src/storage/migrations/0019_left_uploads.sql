-- Expands
-- Files that no message shows and that nothing would have ended: their last two messages were deleted at the same moment. A job
-- looks once more whether one shows them, and deletes them.
UPDATE uploads SET keep_until = 0
WHERE keep_until IS NULL AND NOT EXISTS (SELECT FROM upload_uses WHERE upload_uses.file = uploads.file);
