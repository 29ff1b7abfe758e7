-- 
1

-- failed
hasToken(lower(data), {q0:String})
--   q0 = string failed

-- req-3810
(hasToken(lower(data), {q0:String}) AND hasToken(lower(data), {q1:String}) AND match(lower(data), {q2:String}))
--   q0 = string req
--   q1 = string 3810
--   q2 = string (?:\A|[^0-9A-Za-z\x{80}-\x{10FFFF}])req[^0-9A-Za-z\x{80}-\x{10FFFF}]+3810(?:[^0-9A-Za-z\x{80}-\x{10FFFF}]|\z)

-- conn*
match(lower(data), {q0:String})
--   q0 = string (?:\A|[^0-9A-Za-z\x{80}-\x{10FFFF}])conn

-- Größe
match(data, {q0:String})
--   q0 = string (?i)(?:\A|[^0-9A-Za-z\x{80}-\x{10FFFF}])größe(?:[^0-9A-Za-z\x{80}-\x{10FFFF}]|\z)

-- "Any user Text"
(hasToken(lower(data), {q0:String}) AND position(lower(data), {q1:String}) > 0)
--   q0 = string user
--   q1 = string any user text

-- "Größe 5"
match(data, {q0:String})
--   q0 = string (?i)Größe 5

-- /time(d )?out/
match(data, {q0:String})
--   q0 = string (?s)time(d )?out

-- a b OR NOT c -d
((hasToken(lower(data), {q0:String}) AND hasToken(lower(data), {q1:String})) OR (NOT (hasToken(lower(data), {q2:String})) AND NOT (hasToken(lower(data), {q3:String}))))
--   q0 = string a
--   q1 = string b
--   q2 = string c
--   q3 = string d

-- app:billing host!=web-1 source:std* level:*
(lower(application) = {q0:String} AND NOT (lower(host) = {q1:String}) AND startsWith(lower(source), {q2:String}) AND severity != '')
--   q0 = string billing
--   q1 = string web-1
--   q2 = string std

-- user:(Bob OR "A B" OR x*) trace_id:*
(((has(arrayMap(v -> lower(v), mapValues(metadata)), {q0:String}) AND lower(metadata[{q1:String}]) = {q2:String}) OR (has(arrayMap(v -> lower(v), mapValues(metadata)), {q3:String}) AND lower(metadata[{q4:String}]) = {q5:String}) OR startsWith(lower(metadata[{q6:String}]), {q7:String})) AND mapContains(metadata, {q8:String}))
--   q0 = string bob
--   q1 = string user
--   q2 = string bob
--   q3 = string a b
--   q4 = string user
--   q5 = string a b
--   q6 = string user
--   q7 = string x
--   q8 = string trace_id

-- metadata."it's":"" user:größe
((mapContains(metadata, {q0:String}) AND lower(metadata[{q1:String}]) = {q2:String}) AND match(metadata[{q3:String}], {q4:String}))
--   q0 = string it's
--   q1 = string it's
--   q2 = string 
--   q3 = string user
--   q4 = string (?i)\Agröße\z

-- severity>=warn took<12.5
((severity_number > 0 AND severity_number >= {q0:Float64}) AND (match(metadata[{q1:String}], {q2:String}) AND toFloat64OrZero(metadata[{q3:String}]) < {q4:Float64}))
--   q0 = float64 13
--   q1 = string took
--   q2 = string \A-?[0-9]{1,30}(\.[0-9]{1,30})?([eE][-+]?[0-9]{1,2})?\z
--   q3 = string took
--   q4 = float64 12.5

-- id:2-1048576-17
(_shard = {q0:UInt8} AND _seq = {q1:UInt64} AND _idx = {q2:UInt32})
--   q0 = uint8 2
--   q1 = uint64 1048576
--   q2 = uint32 17

-- ' OR 1=1 --
(position(lower(data), {q0:String}) > 0 OR ((hasToken(lower(data), {q1:String}) AND hasToken(lower(data), {q2:String}) AND match(lower(data), {q3:String})) AND position(lower(data), {q4:String}) > 0))
--   q0 = string '
--   q1 = string 1
--   q2 = string 1
--   q3 = string (?:\A|[^0-9A-Za-z\x{80}-\x{10FFFF}])1[^0-9A-Za-z\x{80}-\x{10FFFF}]+1(?:[^0-9A-Za-z\x{80}-\x{10FFFF}]|\z)
--   q4 = string --

-- x"; DROP TABLE logs; --" {project:String}
(hasToken(lower(data), {q0:String}) AND (hasToken(lower(data), {q1:String}) AND hasToken(lower(data), {q2:String}) AND hasToken(lower(data), {q3:String}) AND position(lower(data), {q4:String}) > 0) AND (hasToken(lower(data), {q5:String}) AND hasToken(lower(data), {q6:String}) AND match(lower(data), {q7:String})))
--   q0 = string x
--   q1 = string drop
--   q2 = string table
--   q3 = string logs
--   q4 = string ; drop table logs; --
--   q5 = string project
--   q6 = string string
--   q7 = string (?:\A|[^0-9A-Za-z\x{80}-\x{10FFFF}])project[^0-9A-Za-z\x{80}-\x{10FFFF}]+string(?:[^0-9A-Za-z\x{80}-\x{10FFFF}]|\z)

-- live title:x tags.commit:abc
((hasToken(lower(title), {q0:String}) OR hasToken(lower(description), {q1:String})) AND lower(title) = {q2:String} AND (has(arrayMap(v -> lower(v), mapValues(tags)), {q3:String}) AND lower(tags[{q4:String}]) = {q5:String}))
--   q0 = string live
--   q1 = string live
--   q2 = string x
--   q3 = string abc
--   q4 = string commit
--   q5 = string abc

