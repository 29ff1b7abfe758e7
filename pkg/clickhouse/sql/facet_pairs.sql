WITH (
    SELECT groupArray(key)
    FROM (
        SELECT pair.1 AS key
        FROM (
            SELECT arrayJoin(metadata) AS pair
            FROM logs
            WHERE /* scope */
            LIMIT {sample:UInt32}
        )
        GROUP BY key
        HAVING uniq(pair.2) > {many:UInt32}
    )
) AS unlisted
SELECT pair.1 AS key, toUInt8(has(unlisted, key)) AS many, if(many, '', pair.2) AS value, count() AS logs, sum(logs) OVER (PARTITION BY key) AS keyed
FROM (
    SELECT arrayJoin(metadata) AS pair
    FROM logs
    WHERE /* scope */
)
GROUP BY key, many, value
ORDER BY keyed DESC, key, logs DESC, value
LIMIT {limit:UInt32} BY key
