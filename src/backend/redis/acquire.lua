-- Takes the lock. ARGV[2]: the lease in milliseconds. ARGV[3]: 0 for no record, 1 for one, 2 if an earlier taking may
-- have left one; followed by the lock's name, for the record. KEYS[4]: the mark that this owner's takings are void.
-- Answers {1, now, token, failure}, where a token of 0 means none, {0, now, milliseconds left, value}, or {2} for a
-- taking that was given up and arrives late.
if value and owner ~= ARGV[1] and not is_over then
  local left = redis.call('PTTL', KEYS[1])
  -- It begins anew, and ends when the time that it was taken for has passed once more. An end before its beginning has
  -- been set since.
  if is_wrong(left) and left > ahead then
    left = left - ahead
    value = 'ADDED:' .. iso(now) .. '@' .. owner
    -- A server without memory refuses a script's first write if that one may need memory, but no later write.
    redis.call('PEXPIRE', KEYS[1], whole(left))
    redis.call('SET', KEYS[1], value, 'PX', whole(left))
  end
  return {0, now, left, value}
end
if KEYS[4] and try('GET', KEYS[4]) then
  return {2}
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
-- The clock makes tokens grow even after a flush.
local token = whole(math.max(tonumber(last) + 1, now))
local kind, name = string.sub(ARGV[3], 1, 1), string.sub(ARGV[3], 2)
if kind ~= '0' then
  -- A taking repeated after a lost answer has a record already, even if others have run since.
  local earlier = find(-1) or kind == '2' and find(0)
  try('ZADD', KEYS[2], token, '{"token":' .. token .. ',"name":' .. cjson.encode(name)
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
