SELECT table, name
FROM system.detached_parts
WHERE database = currentDatabase() AND startsWith(coalesce(reason, ''), 'broken')
ORDER BY table, name
LIMIT {limit:UInt32}
