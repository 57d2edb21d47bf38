-- Expands
-- Whoever changes what is so for the service as a whole, or asks something of it, has workers look at once.
CREATE FUNCTION announce_service() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('starling_service', '');
  RETURN NULL;
END
$$;
CREATE TRIGGER service_announced AFTER INSERT OR UPDATE ON service FOR EACH ROW EXECUTE FUNCTION announce_service();
CREATE TRIGGER operator_requests_announced AFTER INSERT ON operator_requests FOR EACH ROW EXECUTE FUNCTION announce_service();
CREATE TRIGGER operator_commands_announced AFTER INSERT ON operator_commands FOR EACH ROW EXECUTE FUNCTION announce_service();
