SELECT uniqExactIf((_stream, _seq), measure != 'dropped'), sumIf(records, measure != 'dropped'), sumIf(bytes, measure != 'dropped'), sumIf(records, measure = 'dropped')
FROM usage FINAL
WHERE hour >= toDateTime({since:Int64}, 'UTC')
