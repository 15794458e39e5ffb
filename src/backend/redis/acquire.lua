-- ARGV[2]: the lease in milliseconds. ARGV[3]: 0 for no record, 1 for one, 2 if there may be one from before.
-- ARGV[4]: the lock's name, for the record.
-- Answers {1, now, token, failure}, with a token of 0 where there is none, or {0, now, milliseconds left, value}.
if value and owner ~= ARGV[1] then
  return {0, now, redis.call('PTTL', KEYS[1]), value}
end
redis.call('SET', KEYS[1], 'ADDED:' .. iso(now) .. '@' .. ARGV[1], 'PX', ARGV[2])
if not recorded then
  return {1, now, 0, ''}
end
local last = try('GET', KEYS[3]) or '0'
-- Numbers are exact up to fifteen digits.
if #last > 15 or not string.find(last, '^%d+$') then
  failure = failure or 'the last token is no number'
end
if failure then
  return {1, now, 0, failure}
end
-- By the clock it grows also after a flush.
local token = whole(math.max(tonumber(last) + 1, now))
if ARGV[3] ~= '0' then
  -- Who takes again, since an answer was lost, has one already; also if others have run since.
  local earlier = find(-1) or ARGV[3] == '2' and find(0)
  try('ZADD', KEYS[2], token, '{"token":' .. token .. ',"name":' .. cjson.encode(ARGV[4])
    .. ',"owner":' .. cjson.encode(ARGV[1]) .. ',"host":' .. cjson.encode(string.match(ARGV[1], '^[^:]*'))
    .. ',"started_at":"' .. iso(now) .. '"}')
  if earlier then
    try('ZREM', KEYS[2], earlier)
  end
end
if not failure then
  try('SET', KEYS[3], token)
end
return {1, now, failure and 0 or tonumber(token), failure or ''}
