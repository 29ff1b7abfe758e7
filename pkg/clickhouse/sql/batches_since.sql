SELECT sumIf(records, measure = 'batches'), sumIf(records, measure IN ('logs', 'events')), sumIf(bytes, measure IN ('logs', 'events')), sumIf(records, measure = 'dropped')
FROM usage FINAL
WHERE hour >= toDateTime({since:Int64}, 'UTC')
