SELECT table, count() AS parts, sum(rows), sum(bytes_on_disk), sum(data_uncompressed_bytes), max(modification_time)
FROM system.parts
WHERE database = currentDatabase()
  AND active
  AND table IN ('logs', 'events', 'usage', 'deliveries')
GROUP BY table
ORDER BY sum(bytes_on_disk) DESC
