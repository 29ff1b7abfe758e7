SELECT toUInt32(intDiv(toUnixTimestamp64Nano(timestamp) - {first:Int64}, {width:Int64})) AS bucket,
       toUInt8(if(severity_number > 24, 0, intDiv(severity_number + 3, 4))) AS level,
       count() AS logs
FROM logs
WHERE /* scope */
GROUP BY bucket, level
